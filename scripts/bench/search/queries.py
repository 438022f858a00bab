"""ReLeASE's figure 5: how many programs a model scores before a strategy has found the best by its scores.

All strategies are led by the same model, which does not learn meanwhile; nothing is measured on a device.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.collector.device.local import local_target
from costhub.collector.propose.spaces import DEFAULT
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.intrinsics import load_intrinsics
from costhub.dataset.load import load_programs
from costhub.dataset.programs import FloatArray, IntArray
from costhub.models.protocol import Scores
from costhub.models.trees.gbt import Gbt, GbtOptions
from costhub.papers.autotvm import Annealing
from costhub.papers.release import Ppo
from costhub.search.search_model import SearchModel
from costhub.search.strategies.strategy import SIZES, Evolutionary, RandomTopK, Strategy
from costhub.search.tvm_seam import TvmCostModel
from costhub.transfer.methods.by_name import find_method
from scripts.bench.common import machine, options
from scripts.bench.common.data import own_copy
from scripts.bench.common.rows import RowFile
from scripts.bench.search.held_out import WORKLOADS, held_out
from scripts.tables.papers.queries import queries_summary, queries_table

DEVICE = "amd-epyc-zen5-2c"
"""The model's."""
SPEC = "tiles@1"
BATCH = 16
"""Programs that a search would measure of the batch."""
KEY = ("workload", "strategy", "seed", "queries")


class CountingTrees(Gbt):
    """Trees that note what they score."""

    def begin(self) -> None:
        """Forgets what was noted."""
        self.asked, self.course = 0, list[tuple[int, float]]()

    def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
        """(n,) scores; a new best one goes to `course` with the number of programs scored until then."""
        scores = super().predict(rows, counts)
        best = np.maximum.accumulate(scores)
        for place in np.flatnonzero(np.diff(best, prepend=-np.inf) > 0).tolist():
            if not self.course or best[place] > self.course[-1][1]:
                self.course.append((self.asked + place + 1, round(float(best[place]), 5)))
        self.asked += len(scores)
        return scores


STRATEGIES: dict[str, Callable[[int], Strategy]] = {
    "random": lambda queries: RandomTopK(pool=queries),
    # TVM scores the first population and that of each generation.
    "evolutionary": lambda queries: Evolutionary(generations=max(1, queries // SIZES[DEFAULT][0] - 1)),
    "annealing": lambda queries: Annealing(steps=queries // Annealing.chains, patience=queries),
    "ppo": lambda queries: Ppo(episodes=max(1, queries // (Ppo.programs * Ppo.steps))),
}
"""Name -> a strategy that asks for about so many scores in one batch. All other sizes are those of searches."""


def model_of(data: Path, seed: int, rounds: int) -> CountingTrees:
    """Trees in log throughput that have not seen the workloads of the benchmarks of searches."""
    programs = load_programs(data, device=DEVICE, spec=SPEC)
    model = CountingTrees(feature_spec=SPEC, options=GbtOptions(objective="log", rounds=rounds))
    model.begin()
    known = set(programs.workload_ids) - held_out(data, WORKLOADS)
    model.fit(programs.of_workloads(known), None, seed=seed, progress=False)
    return model


def explored(model: CountingTrees, workload: str, strategy: str, seed: int, queries: int) -> dict[str, Any]:
    """One batch of a search: the best score so far against the programs scored."""
    from tvm.s_tir import meta_schedule as ms
    from tvm.target import Target

    (function,) = find_workload(workload).module().functions.values()
    context = ms.TuneContext(
        function,
        target=Target(local_target()),
        space_generator="post-order-apply",
        search_strategy=STRATEGIES[strategy](queries).to_tvm(),
        rand_state=seed + 1,
        num_threads=1,
    ).clone()
    cost_model = TvmCostModel(SearchModel(model, method=find_method("frozen"), seed=seed))
    model.begin()
    context.pre_tuning(BATCH, BATCH, context.generate_design_space(), ms.database.MemoryDatabase(), cost_model)
    context.generate_measure_candidates()
    context.post_tuning()
    return {
        **dict(zip(KEY, (workload, strategy, seed, queries), strict=True)),
        "asked": model.asked,
        "course": model.course,
    }


@click.command()
@options.data()
@options.workloads(WORKLOADS[:3])
@click.option("--strategy", "strategies", multiple=True, type=click.Choice(list(STRATEGIES)), default=list(STRATEGIES))
@click.option("--queries", default=2048, show_default=True, help="Programs that a search may score, about.")
@options.seeds(3)
@options.quick("One workload, one seed, 512 queries, a small model.")
@options.rows_file()
@options.json_file()
def main(
    data: Path | None,
    workloads: tuple[str, ...],
    strategies: tuple[str, ...],
    queries: int,
    seeds: int,
    quick: bool,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Counts queries until the best score of a search is near its last, and near that of the best search."""
    rounds = 150
    if quick:
        workloads, seeds, queries, rounds = workloads[:1], 1, 512, 30
    load_intrinsics("llvm")
    kept = RowFile(rows_path, KEY)
    data = data or own_copy()
    model = model_of(data, 0, rounds)
    for seed, workload, strategy in ((n, w, s) for n in range(seeds) for w in workloads for s in strategies):
        if (workload, strategy, seed, queries) not in kept:
            kept.add(explored(model, workload, strategy, seed, queries))
            last = kept.all[-1]
            click.echo(f"{workload}, {strategy}, seed {seed}: {last['course'][-1]} of {last['asked']} queries")
    rows = [row for row in kept if row["queries"] == queries]
    result = {"model": f"gbt, {rounds} trees, {SPEC}, {DEVICE}", "queries": queries, "summary": queries_summary(rows)}
    click.echo(queries_table(result))
    machine.write_result(path, {**result, "rows": rows}, indent=None)
