"""Compares ways to choose what a search measures next: by score, also by diversity, or by cluster.

Each way is a search over the measured programs of a workload, led by a model that has learned from other
workloads, and from other devices if asked to, and that learns after each batch. With `--from-nothing` it has
learned from nothing before, as in ReLeASE.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.blocks import open_devices
from costhub.dataset.folder import DataFolder
from costhub.dataset.programs import IntArray, Programs
from costhub.models.architectures import new_model
from costhub.models.protocol import CostModel
from costhub.papers.autotvm import Diverse
from costhub.papers.release import Clustered
from costhub.search.knobs import Knobs
from costhub.search.replay.workloads import knobs_by_key
from costhub.search.selection import Candidates, Ranked, Selection
from costhub.transfer.methods.corrected import Corrected
from scripts.bench.common import machine, options
from scripts.bench.common.data import folds, own_copy
from scripts.bench.common.rows import Row, RowFile, mean_curves
from scripts.bench.transfer.tasks import SPEC, Devices
from scripts.tables.gains import mean_with_error
from scripts.tables.plots import plot_curves

NOTHING = "nothing"
"""The source of models that learn from the searched workload alone."""
TREES = {"objective": "log", "rounds": 100, "min_child_weight": 1.0}
"""Of such a model."""
FOLDS = 4
"""The model for a workload has learned from the workloads of the other folds."""
RANKED = "ranked"
DRAWN = ("random", RANKED, "diverse 0.3", "diverse 1.0", "clustered", "shortlist")
KEY = ("source", "target", "workload", "method", "batch", "seed")
STEP = 8
"""Measurements between two points of a curve."""
SHARES = {"to_95": 0.95, "to_99": 0.99}
"""Measurements until this share of the pool's best throughput."""
COLUMNS = (
    TableColumn("target", "target"),
    number("batch", "batch", "d"),
    TableColumn("method", "method"),
    *(part for name in ("at_16", "at_32", "at_64") for part in (number(name, name), number(f"{name}_se", "se"))),
    *(part for name in SHARES for part in (number(name, name, ".1f"), number(f"{name}_se", "se", ".1f"))),
    number("reach_95", "reach 0.95", ".0%"),
    number("reach_99", "reach 0.99", ".0%"),
    number("ahead", "ahead of ranked", "+.4f"),
    number("ahead_se", "se", ".4f"),
    number("batches", "batches", ".1f"),
)


@dataclass(frozen=True)
class MeasuredPool:
    """Programs of one workload on one device, each once."""

    workload_id: str
    programs: Programs
    knobs: list[Knobs]
    source: CostModel | None
    """A model that has seen neither the workload nor, where the devices differ, the device; None for no model."""


def pools(source: Devices | None, target: Devices, *, programs: int, workloads: int) -> Iterator[MeasuredPool]:
    """Workloads of the target with at least `programs` programs, evenly over their ids, with source models.

    Args:
        source: The devices to learn from; None for none.
        target: One device, perhaps among them.
        programs: The least number of different programs of a workload.
        workloads: The most workloads.
    """
    (device,) = target.devices
    (opened,) = open_devices(target.data, device, None, SPEC, failures=False)
    measured, _ = opened.with_features(progress=True)
    own = measured.load(progress=True)
    candidates = {}
    for index, name in enumerate(own.workload_ids):
        places = np.flatnonzero(own.workload == index)
        if len(places) >= programs:
            knobs = knobs_by_key(target.data, target.devices, measured.keys.take(pa.array(places)).to_pylist())
            first = np.unique([knobs.index(each) for each in knobs])
            if len(first) >= programs:
                candidates[name] = own.select(places[first]), [knobs[place] for place in first]
    chosen = set(sorted(candidates)[:: max(1, len(candidates) // workloads)][:workloads])
    if source is None:
        yield from (MeasuredPool(name, *candidates[name], None) for name in sorted(chosen))
        return
    learned_from = source.programs()
    about = DataFolder.open(target.data).workloads(["workload_id", "operator"]).to_pylist()
    for part in folds(about, FOLDS, 0):
        tested = sorted(chosen & part.test)
        if tested:
            model = new_model("gbt", feature_spec=SPEC, options={"objective": "log"})
            others = set(learned_from.workload_ids) - part.test
            model.fit(learned_from.of_workloads(others), None, seed=0, progress=False)
            for name in tested:
                yield MeasuredPool(name, *candidates[name], model)


@dataclass(frozen=True)
class RandomShortlist:
    """Random programs among the best that `Clustered` considers: a control for the effect of clustering."""

    top: float = Clustered.top
    name = "shortlist"

    def choose(self, candidates: Candidates, count: int, *, seed: int) -> IntArray:
        """See `Selection`."""
        best = candidates.waiting()[: math.ceil(self.top * count)]
        return np.random.default_rng(seed).permutation(best)[:count]


METHODS: dict[str, Selection] = {
    "random": Ranked(epsilon=1.0),
    RANKED: Ranked(),
    "ranked, no chance": Ranked(epsilon=0.0),
    **{f"diverse {alpha}": Diverse(alpha) for alpha in (0.1, 0.3, 1.0)},
    "clustered": Clustered(),
    "clustered, all": Clustered(top=math.inf),
    "shortlist": RandomShortlist(),
}


def search(pool: MeasuredPool, selection: Selection, *, batch: int, trials: int, seed: int) -> tuple[IntArray, int]:
    """Positions of the programs in the order of measuring, and in how many batches they were chosen."""
    # Candidates of equal scores keep their order, which must not depend on the device.
    order = np.random.default_rng(seed).permutation(pool.programs.n)
    programs, knobs = pool.programs.select(order), [pool.knobs[place] for place in order]
    chosen, model, batches = np.zeros(0, np.int64), pool.source, 0
    while len(chosen) < min(trials, programs.n):
        scores = np.zeros(programs.n) if model is None else model.predict(programs.rows, programs.counts)
        picked = selection.choose(
            Candidates(scores, knobs, {knobs[place] for place in chosen}),
            min(batch, trials - len(chosen)),
            seed=1000 * seed + batches,
        )
        chosen, batches = np.concatenate([chosen, picked]), batches + 1
        if selection is not METHODS["random"]:
            model = learned(pool.source, programs.select(chosen), seed)
    return order[chosen], batches


def learned(source: CostModel | None, measured: Programs, seed: int) -> CostModel | None:
    """The model after these measurements; None while there is nothing to learn from."""
    if source is not None:
        return Corrected().adapt(source, measured, seed=seed)
    if not measured.informative().any():
        return None
    model = new_model("gbt", feature_spec=SPEC, options=TREES)
    model.fit(measured, None, seed=seed, progress=False)
    return model


def row_of(pool: MeasuredPool, method: str, *, batch: int, trials: int, seed: int) -> dict[str, Any]:
    """The figures of one search."""
    chosen, batches = search(pool, METHODS[method], batch=batch, trials=trials, seed=seed)
    best = np.maximum.accumulate(pool.programs.throughput()[chosen])
    return {
        "method": method,
        "batch": batch,
        "seed": seed,
        "programs": pool.programs.n,
        "batches": batches,
        "curve": [round(float(value), 4) for value in best[STEP - 1 :: STEP]],
        **{name: int(np.argmax(best >= share)) + 1 if best[-1] >= share else None for name, share in SHARES.items()},
    }


def summaries(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line for each pair, batch and method; means over workloads of means over seeds, and their errors.

    `ahead` is the mean of the curve less that of RANKED on the same workload; of searches that do not reach a
    share, its measurements are those of the whole search.
    """
    table = []
    for group in dict.fromkeys((row["source"], row["target"], row["batch"]) for row in rows):
        own = [row for row in rows if (row["source"], row["target"], row["batch"]) == group]
        plain = _by_workload([row for row in own if row["method"] == RANKED], _mean)
        for method in dict.fromkeys(row["method"] for row in own):
            mine = [row for row in own if row["method"] == method]
            level = _by_workload(mine, _mean)
            shared = [name for name in level if name in plain]
            measures: dict[str, Callable[[Row], float]] = {
                **{f"at_{trials}": partial(_at, index) for index, trials in enumerate(_trials(mine[0]))},
                **{name: partial(_until, name) for name in SHARES},
                **{f"reach{name[2:]}": partial(_reached, name) for name in SHARES},
                "batches": itemgetter("batches"),
            }
            line = dict(zip(("source", "target", "batch"), group, strict=True))
            line |= {"method": method, "workloads": len(level)}
            for name, measure in measures.items():
                line |= _mean_and_error(name, list(_by_workload(mine, measure).values()))
            table.append(line | _mean_and_error("ahead", [level[name] - plain[name] for name in shared]))
    return table


def _trials(row: dict[str, Any]) -> list[int]:
    """The measurements after which the curve was read."""
    return [STEP * (i + 1) for i in range(len(row["curve"]))]


def _at(index: int, row: Row) -> float:
    return float(row["curve"][index])


def _until(share: str, row: Row) -> float:
    """Measurements until a share is reached; all of the search if it is not."""
    return float(row[share] or _trials(row)[-1])


def _reached(share: str, row: Row) -> float:
    return float(row[share] is not None)


def _mean(row: Row) -> float:
    return float(np.mean(row["curve"]))


def _by_workload(rows: list[dict[str, Any]], measure: Any) -> dict[str, float]:
    """Workload -> the mean over seeds."""
    names = dict.fromkeys(row["workload"] for row in rows)
    return {n: float(np.mean([measure(row) for row in rows if row["workload"] == n])) for n in names}


def _mean_and_error(name: str, values: list[float]) -> dict[str, float | None]:
    return dict(zip((name, f"{name}_se"), mean_with_error(values), strict=True))


def report(rows: list[dict[str, Any]], path: Path) -> None:
    """Writes rows and summary, and draws the curves of every pair and batch."""
    panels = {}
    for line in summaries(rows):
        pair = (line["source"], line["target"], line["batch"])
        device = f"{pair[0]} to {pair[1]}\nbatches of {pair[2]}"
        mine = [row for row in rows if (row["source"], row["target"], row["batch"]) == pair]
        panels[device] = mean_curves([{**row, "device": device, "trials": _trials(row)} for row in mine], DRAWN)
    plot_curves(path.with_suffix(".png"), panels, x="measured programs", y="best so far / best of all")
    machine.write_result(path, {"key": KEY, "step": STEP, "summary": summaries(rows), "rows": rows})


@click.command()
@options.pairs("from two cores to one")
@click.option("--only", default="*", show_default=True, help="Pattern of methods.")
@click.option("--batch", "batches", multiple=True, default=(8, 16), show_default=True)
@options.trials(64)
@click.option("--programs", default=150, show_default=True, help="The least of a workload.")
@click.option("--workloads", default=24, show_default=True, help="The most of a pair.")
@options.seeds(3)
@click.option("--from-nothing", is_flag=True, help="No source: the model learns from the searched workload alone.")
@options.quick("Two workloads, one seed, batches of 16.")
@options.rows_file()
@options.json_file("A picture goes beside it.")
def main(
    pairs: tuple[str, ...],
    only: str,
    batches: tuple[int, ...],
    trials: int,
    programs: int,
    workloads: int,
    seeds: int,
    from_nothing: bool,
    quick: bool,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Best throughput found after equal numbers of measurements, as a share of the best that was measured."""
    if not pairs:
        data = own_copy()
        pairs = (f"{data}:amd-epyc-zen5-2c={data}:amd-epyc-zen5-1c",)
    if quick:
        workloads, seeds, batches = 2, 1, (16,)
    methods = fnmatch.filter(METHODS, only)
    kept = RowFile(rows_path, KEY, trials=trials)
    for text in pairs:
        source, target = map(Devices.parse, text.split("="))
        about = {"source": NOTHING if from_nothing else source.name, "target": target.name}
        for pool in pools(None if from_nothing else source, target, programs=programs, workloads=workloads):
            name = pool.workload_id[:12]
            for seed, batch, method in ((s, b, m) for s in range(seeds) for b in batches for m in methods):
                if (*about.values(), name, method, batch, seed) not in kept:
                    row = row_of(pool, method, batch=batch, trials=trials, seed=seed)
                    kept.add({**about, "workload": name, **row})
            click.echo(f"{about['source']} -> {target.name}: {name}, {pool.programs.n} programs")
    click.echo(plain_table(summaries(kept.all), COLUMNS))
    if path:
        report(kept.all, path)
