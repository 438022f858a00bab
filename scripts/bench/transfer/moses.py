"""Moses as its paper describes it: its network and loss, online for each task, with the ticket and the controller.

Searches over programs that a GPU has measured, led by a network that has learned from another GPU: two layers of 512
on TVM's features, trained by the pairwise rank loss (Zhao et al., 2022, section 4). After each batch, the network
learns from what was measured of the task, by each method. The controller is replayed on the record of each search.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.programs import Programs
from costhub.models.architectures import new_model
from costhub.models.protocol import CostModel
from costhub.papers.moses import MosesLottery
from costhub.search.scheduler import TrialBatch
from costhub.transfer.methods.lottery import Lottery
from costhub.transfer.methods.method import FineTune, Frozen, TransferMethod
from scripts.bench.common import machine, options
from scripts.bench.common.data import DATASETS, folds
from scripts.bench.common.rows import RowFile
from scripts.bench.transfer.tasks import MOSES_NETWORK, MOSES_SPEC
from scripts.tables.figures import read
from scripts.tables.gpus import MOSES_BASE, TrialCosts, moses_summaries, moses_table

PAIRS = {
    ("nvidia-k80", "nvidia-v100"): 64,
    ("nvidia-k80", "amd-mi50"): 64,
    ("nvidia-h200", "nvidia-a100"): 64,
    ("nvidia-a100", "nvidia-h200"): 24,
}
"""Source and target -> trials of a search; the H200's workloads have some fifty programs each."""
BATCH = 8
PARTS = 4
EACH = 64
"""Programs of a workload that the source learns from."""
POOL = 512
"""Programs of a workload that a search chooses from, at most."""
WORKLOADS = 8
"""Of each seed, drawn from the held-out ones."""
DOMAIN = 0.05
ASSUMED_S = 0.55
"""Seconds to build and run a program on a GPU whose database does not hold them: those of a search with 128 trials on
an Intel Xeon with two cores (docs/results/search_chip.jsonl)."""
COSTS = "trial_costs"
"""The result file with the seconds of the GPUs that have a log of Ansor."""
OTHERWISE = "nvidia-v100"
"""The GPU whose seconds are tried in place of those that are assumed."""
METHODS: dict[str, TransferMethod] = {
    "frozen": Frozen(),
    MOSES_BASE: FineTune(),
    "ticket": Lottery(),
    "ticket, adversary": MosesLottery(domain=DOMAIN),
    "ticket, threshold": MosesLottery(threshold=0.5),
    "ticket over the network": MosesLottery(scope="network"),
    "ticket by the step": MosesLottery(drawn="step"),
}
KEY = ("source", "target", "seed", "workload", "method")


@dataclass(frozen=True)
class Source:
    """A network of a device that knows none of the workloads searched, and some of what it learned from."""

    model: CostModel
    programs: Programs
    pools: dict[str, Programs]
    """Workload id -> the programs of the target to search."""


def opened(source: str, target: str, trials: int, seed: int) -> Source:
    """Trains the source; holds out a quarter of the target's workloads, and draws some of them."""
    about = DataFolder.open(DATASETS / target).workloads(["workload_id", "name", "operator"]).to_pylist()
    out = folds(about, PARTS, seed)[0].test
    theirs = load_programs(DATASETS / source, device=source, spec=MOSES_SPEC, per_workload=EACH, seed=seed)
    learned = theirs.of_workloads(set(theirs.workload_ids) - out)
    model = new_model("mlp", feature_spec=MOSES_SPEC, options=MOSES_NETWORK)
    model.fit(learned, None, seed=seed, progress=False)
    held = load_programs(
        DATASETS / target, device=target, workloads=set(out), spec=MOSES_SPEC, per_workload=POOL, seed=seed
    )
    pools = {name: held.of_workloads({name}).measured() for name in sorted(out)}
    large = [name for name, pool in pools.items() if pool.n >= trials * 3 // 2]
    drawn = np.random.default_rng(seed).permutation(len(large))[:WORKLOADS]
    return Source(model, learned, {large[place]: pools[large[place]] for place in sorted(drawn)})


def searched(
    pool: Programs, led: Source, method: TransferMethod, *, trials: int, seed: int
) -> tuple[list[TrialBatch], list[float]]:
    """The batches of a search, and the CPU seconds of learning and scoring after each."""
    order, batches, seconds = np.zeros(0, np.int64), [], []
    scores = led.model.predict(pool.rows, pool.counts)
    for _ in range(trials // BATCH):
        left = np.setdiff1d(np.arange(pool.n), order)
        picked = left[np.argsort(-scores[left], kind="stable")[:BATCH]]
        order = np.concatenate([order, picked])
        began = time.process_time()
        told = led.programs if getattr(method, "domain", 0.0) else None
        model = method.adapt(led.model, pool.select(order), seed=seed, source_programs=told)
        predicted, scores = scores[picked], model.predict(pool.rows, pool.counts)
        seconds.append(time.process_time() - began)
        batches.append(TrialBatch(pool.latency_s[picked], predicted, waiting=0.0))
    return batches, seconds


def rows_of(source: str, target: str, trials: int, seed: int, kept: RowFile) -> Iterator[dict[str, Any]]:
    """A row for each search that is missing."""
    led = opened(source, target, trials, seed)
    for workload, pool in led.pools.items():
        for name, method in METHODS.items():
            about = {"source": source, "target": target, "seed": seed, "workload": workload, "method": name}
            if kept.key_of(about) in kept:
                continue
            batches, seconds = searched(pool, led, method, trials=trials, seed=seed)
            yield {
                **about,
                "pool": pool.n,
                "pool_best_s": float(pool.latency_s.min()),
                "latency_s": [batch.latency_s.tolist() for batch in batches],
                "scores": [batch.scores.round(5).tolist() for batch in batches],
                "learning_s": [round(value, 3) for value in seconds],
            }


def searched_on(earlier: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where and when the searches of an earlier result ran; a summary of its rows may be made elsewhere."""
    where: Mapping[str, Any] = earlier.get("searched", earlier)
    return {name: where[name] for name in ("machine", "device", "date")}


@click.command()
@options.seeds(3)
@options.quick("The first pair, one seed, two workloads.")
@options.rows_file()
@click.option(
    "--summarise", is_flag=True, help="Search nothing: only summarise what --rows and an earlier --json hold."
)
@options.json_file()
def main(seeds: int, quick: bool, rows_path: Path | None, summarise: bool, path: Path | None) -> None:
    """Searches with every form of Moses' ticket, with and without its controller."""
    if summarise and not (path and path.exists()):
        raise click.UsageError("--summarise needs the --json of the searches, which names the machine that made them.")
    kept = RowFile(rows_path, KEY)
    costs = TrialCosts.of(read(machine.RESULTS, COSTS), ASSUMED_S, OTHERWISE)  # what lacks, lacks before the searches
    for seed in range(0 if summarise else 1 if quick else seeds):
        for (source, target), trials in list(PAIRS.items())[: 1 if quick else None]:
            for number, row in enumerate(rows_of(source, target, trials, seed, kept)):
                kept.add(row)
                if quick and number + 1 >= 2 * len(METHODS):
                    break
            click.echo(f"{source} -> {target}, seed {seed}")
    result = {"base": MOSES_BASE, **moses_summaries(list(kept), costs)}
    if summarise and path:
        result["searched"] = searched_on(json.loads(path.read_text(encoding="utf-8")))
    click.echo(moses_table(result))
    machine.write_result(path, result)
