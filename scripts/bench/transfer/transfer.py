"""Transfers models of source devices to a target with few trials, by every method and from nothing."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import click

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.programs import Programs
from costhub.hub.catalogue.devices import device_rows
from costhub.models.architectures import new_model
from costhub.models.evaluate import evaluate, evaluate_scores
from costhub.models.protocol import CostModel
from costhub.papers.moses import MosesLottery
from costhub.papers.pruner import Momentum
from costhub.transfer.guard import Guard
from costhub.transfer.methods.corrected import Corrected
from costhub.transfer.methods.lottery import Lottery
from costhub.transfer.methods.method import FineTune, ResidualTrees, TransferMethod
from scripts.bench.common import machine, options
from scripts.bench.common.data import own_copy
from scripts.bench.common.rows import RowFile
from scripts.bench.transfer.tasks import SPEC, Devices, TransferPair, fitted, guarded, is_of_one_kind, measured
from scripts.tables.plots import plot_curves
from scripts.tables.transfer import EVERYTHING, KEY, METRICS, curves, differences, summaries

TRIALS = (32, 64, 128, 256, 512)
MORE = 2560
"""Trials of a training from nothing that 256 trials with transfer should match."""
ABLATED = 3
"""Seeds of the ablations."""
WHOLE = {MORE: 5, EVERYTHING: 2}
"""Seeds of the models that see most of the target, which take longest."""


METHODS: dict[str, TransferMethod] = {
    "fine-tune": FineTune(),
    "lottery 0.5": Lottery(),
    "momentum": Momentum(),
    "residual": ResidualTrees(),
    "corrected": Corrected(),
}
ABLATIONS: dict[str, TransferMethod] = {
    "fine-tune, low rate": FineTune(learning_rate=3e-4, epochs=60),
    **{f"lottery {ratio}": Lottery(ratio=ratio) for ratio in (0.01, 0.1, 0.3, 0.7)},
    "lottery, threshold": MosesLottery(threshold=0.5),
    "lottery 0.5, adversary": MosesLottery(domain=0.05),
    "corrected, no prior": Corrected(prior=0.0),
    "corrected, all weights": Corrected(FineTune(learning_rate=3e-4, epochs=60)),
}
TOLD, TOLD_CORRECTED = "told", "told, corrected"
"""A model of several sources that is told what each device can do, unchanged and after `corrected`."""
BASE = "fine-tune"
"""What ablations are compared with."""
DRAWN = (
    "frozen",
    "fine-tune",
    "lottery 0.5",
    "corrected",
    "guarded",
    "scratch blend",
)
FIT = tuple[str, int, Callable[[], CostModel]]

COLUMNS = (
    *(TableColumn(name, name) for name in ("source", "target", "method", "part")),
    number("trials", "trials", "d"),
    *(part for name in METRICS for part in (number(name, name), number(f"{name}_se", "se"))),
)


def models(
    source: Callable[[], CostModel],
    train: Programs,
    pool: Programs,
    seed: int,
    trials: tuple[int, ...],
    *,
    ablate: bool,
    is_alike: bool,
) -> Iterator[FIT]:
    """Method, trials and a function that makes the model; models of the whole target come last.

    `source` trains the source when it is first called.
    """
    yield "frozen", 0, source
    for count in trials:
        few = measured(pool, count, seed)
        for name, method in (METHODS | (ABLATIONS if ablate else {})).items():
            yield name, count, partial(_adapted, method, source, few, seed, train)
        yield "scratch blend", count, partial(fitted, few, seed)
    guard = cache(lambda: Guard(source(), Corrected(), seed=seed, is_alike=is_alike))
    for count in trials:
        yield "guarded", count, partial(_guarded, guard, measured(pool, count, seed))
    for name, count, seeds in (("scratch blend", MORE, WHOLE[MORE]), (EVERYTHING, pool.n, WHOLE[EVERYTHING])):
        if seed < seeds and count <= pool.n:
            whole = pool if count == pool.n else measured(pool, count, seed)
            yield name, count, partial(fitted, whole, seed)


def _adapted(
    method: TransferMethod, source: Callable[[], CostModel], few: Programs, seed: int, train: Programs
) -> CostModel:
    return method.adapt(source(), few, seed=seed, source_programs=train)


def _guarded(guard: Callable[[], Guard], few: Programs) -> CostModel:
    return guarded(guard(), few)


def told(pair: TransferPair, train: Programs, seed: int) -> CostModel:
    """A model of the sources that takes the figures of a device as input, given those of the target."""
    names = [*pair.source.devices, *pair.target.devices]
    rows = device_rows(pair.source.data, names)
    model = new_model("conditioned", feature_spec=SPEC, options={"base": "blend"})
    model.add_devices(rows)
    model.fit(train, None, seed=seed, progress=False)
    return model.bind(rows[pair.target.name])


def told_models(source: Callable[[], CostModel], pool: Programs, seed: int, trials: tuple[int, ...]) -> Iterator[FIT]:
    """The told model, unchanged and after each number of trials; `source` trains it when it is first called."""
    yield TOLD, 0, source
    for count in trials:
        few = measured(pool, count, seed)
        yield TOLD_CORRECTED, count, partial(_adapted, Corrected(), source, few, seed, few)


def is_whole(done: Collection[tuple[str, int]], trials: tuple[int, ...], ablate: bool, is_told: bool = False) -> bool:
    """Whether every method was tried for a pair and a seed."""
    names = {*METHODS, *(ABLATIONS if ablate else ()), "scratch blend", "guarded", *((TOLD_CORRECTED,) * is_told)}
    return {("scratch blend", MORE), *((name, count) for name in names for count in trials)} <= set(done)


def rows_of(
    pair: TransferPair, seed: int, trials: tuple[int, ...], ablate: bool, done: Collection[tuple[str, int]] = ()
) -> Iterator[dict[str, Any]]:
    """The figures of every method for one choice of held-out workloads; for a blend also those of its parts.

    Args:
        pair: Source and target.
        seed: Of the choice, and of the models.
        trials: Of each line.
        ablate: With the ablations' methods.
        done: Methods and trials that are there.
    """
    out = pair.held_out(seed)
    test = pair.target_programs.of_workloads(set(out))
    train = pair.source_programs.of_workloads(set(pair.source_programs.workload_ids) - out)
    pool = pair.target_programs.of_workloads(set(pair.target_programs.workload_ids) - out)
    source = cache(lambda: fitted(train, seed))
    about = {"source": pair.source.name, "target": pair.target.name, "seed": seed}
    shared = pair.oracle(test)
    if shared is not None and ("source latencies", 0) not in done:
        totals = evaluate_scores(-shared.rows[:, 0].astype(float), shared).totals
        yield {
            **about,
            "method": "source latencies",
            "part": "",
            "trials": 0,
            **{m: totals[m] for m in METRICS},
        }
    is_alike = is_of_one_kind(about)
    fits = models(source, train, pool, seed, trials, ablate=ablate, is_alike=is_alike)
    if len(pair.source.devices) > 1:
        fits = itertools.chain(fits, told_models(cache(lambda: told(pair, train, seed)), pool, seed, trials))
    for name, count, make in fits:
        if (name, count) in done:
            continue
        began = time.perf_counter()
        model = make()
        seconds = time.perf_counter() - began
        parts = [("", model), *((each.arch, each) for each in getattr(model, "members", ()))]
        for part, scored in parts:
            totals = evaluate(scored, test).totals
            yield {
                **about,
                "method": name,
                "part": part,
                "trials": count,
                "seconds": seconds,
                **{metric: totals[metric] for metric in METRICS},
            }


@click.command()
@options.pairs("from AVX-512 to SSE4.2")
@options.seeds(5)
@options.quick("One seed, 64 and 256 trials.")
@click.option("--ablate", is_flag=True, help="More methods, with three seeds.")
@options.rows_file()
@options.json_file()
def main(
    pairs: tuple[str, ...], seeds: int, quick: bool, ablate: bool, rows_path: Path | None, path: Path | None
) -> None:
    """Ranks held-out workloads of the target after 0 to 512 trials on others."""
    kept = RowFile(rows_path, (*KEY, "seed"))
    if not pairs:
        data = own_copy()
        pairs = (f"{data}:amd-epyc-zen5-2c={data}:amd-epyc-zen5-2c-sse4.2",)
    for text in pairs:
        source, target = map(Devices.parse, text.split("="))
        pair = TransferPair(source, target)
        for seed in range(1 if quick else seeds):
            trials = (64, 256) if quick else TRIALS
            about = (source.name, target.name, seed)
            done = {
                (row["method"], row["trials"]) for row in kept if (row["source"], row["target"], row["seed"]) == about
            }
            if is_whole(done, trials, ablate and seed < ABLATED, len(source.devices) > 1):
                continue
            own = list(rows_of(pair, seed, trials, ablate and seed < ABLATED, done))
            kept.add(*own)
            click.echo(f"{source.name} -> {target.name}, seed {seed}: {len(own)} rows")
    whole = [row for row in kept if row["method"] not in ABLATIONS]
    table = summaries(whole)
    click.echo(plain_table(table, COLUMNS))
    if path:
        alike = [row for row in kept if is_of_one_kind(row)]
        parts = differences(alike, [m for m in (*METHODS, *ABLATIONS) if m != BASE], BASE)
        ablations = path.with_name(f"{path.stem}_ablations.json")
        machine.write_result(ablations, {"base": BASE, "ablations": parts})
        for metric in ("top_1", "pairwise"):
            picture = path.with_name(f"{path.stem}-{metric}.png")
            plot_curves(picture, curves(table, metric, DRAWN), x="trials on the target", y=metric, log=True)
        machine.write_result(path, {"key": KEY, "summary": table})
