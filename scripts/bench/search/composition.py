"""MetaSchedule's figure 10a: what each schedule rule adds to a search, from tiling alone to all of TVM's rules."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click

from costhub.collector.device.local import find_local
from costhub.collector.measurer import Measurer, local_measurer
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.intrinsics import load_intrinsics
from costhub.search.tvm_seam import TvmBuilder, TvmRunner
from scripts.bench.common import machine, options
from scripts.bench.common.remeasure import best_trace, with_best_us
from scripts.bench.common.rows import RowFile
from scripts.tables.papers.composition import ALL_RULES, composition_summary, composition_table

WORKLOADS = ("fused.dense-gelu-128x3072x768", "metaschedule.c2d")
KEY = ("workload", "rules", "seed", "trials")
ADDED: dict[str, tuple[str, ...]] = {
    "tiling": ("MultiLevelTiling",),
    "+ inlining": ("InlineConstantScalars", "AutoInline"),
    "+ parallel, vectors, unrolling": ("ParallelizeVectorizeUnroll",),
    "+ compute locations": ("RandomComputeLocation",),
    ALL_RULES: ("ApplyCustomRule", "AddRFactor"),
}
"""Name of a set -> the rules that it adds to those of the sets before."""


def rules_of(name: str) -> list[Any]:
    """TVM's rules for CPUs that belong to a set, in TVM's order.

    Raises:
        ValueError: TVM has a rule for CPUs that no set names, so that the last set would not be all of them.
    """
    from tvm.s_tir.meta_schedule.schedule_rule import ScheduleRule

    names = list(ADDED)
    chosen = {rule for added in names[: names.index(name) + 1] for rule in ADDED[added]}
    rules = list(ScheduleRule.create("llvm"))
    unknown = {type(rule).__name__ for rule in rules} - {rule for added in ADDED.values() for rule in added}
    if unknown:
        raise ValueError(f"TVM has rules for CPUs that no set names: {', '.join(sorted(unknown))}. Add them to ADDED.")
    return [rule for rule in rules if type(rule).__name__ in chosen]


def searched(measurer: Measurer, workload: str, rules: str, seed: int, trials: int) -> dict[str, Any]:
    """A search by TVM's own tuning and cost model in the space of some rules, on costhub's measurer."""
    from tvm.s_tir import meta_schedule as ms
    from tvm.target import Target

    space = ms.space_generator.PostOrderApply(sch_rules=rules_of(rules), postprocs="llvm", mutator_probs="llvm")
    with tempfile.TemporaryDirectory() as folder:
        ms.tune_tir(
            find_workload(workload).module(),
            Target(measurer.target),
            folder,
            max_trials_global=trials,
            num_trials_per_iter=min(16, trials),
            builder=TvmBuilder(measurer.builder),
            runner=TvmRunner(measurer),
            space=space,
            seed=seed,
        )
        lines = Path(folder, "database_tuning_record.json").read_text().splitlines()
        trace = best_trace(Path(folder), trials) if lines else None
    return {**dict(zip(KEY, (workload, rules, seed, trials), strict=True)), "measured": len(lines), "trace": trace}


@click.command()
@options.workloads(WORKLOADS)
@click.option("--rules", "sets", multiple=True, type=click.Choice(list(ADDED)), default=list(ADDED), help="A set.")
@options.trials(64)
@options.seeds(3)
@options.quick("One workload, one seed, 8 trials, the first set and the last.")
@options.rows_file()
@options.json_file()
def main(
    workloads: tuple[str, ...],
    sets: tuple[str, ...],
    trials: int,
    seeds: int,
    quick: bool,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Compares the best latencies, measured again side by side; run it with nothing else on the machine."""
    if quick:
        workloads, trials, seeds, sets = workloads[:1], 8, 1, (sets[0], sets[-1])
    load_intrinsics("llvm")
    kept = RowFile(rows_path, KEY)
    with local_measurer(find_local(["auto"])) as measurer:
        measurer.launch()
        for seed, workload, rules in ((n, w, r) for n in range(seeds) for w in workloads for r in sets):
            if (workload, rules, seed, trials) not in kept:
                kept.add(searched(measurer, workload, rules, seed, trials))
                click.echo(f"{workload}, {rules}, seed {seed}: {kept.all[-1]['measured']} programs")
    rows = with_best_us(row for row in kept if row["trials"] == trials)
    result = {"trials": trials, "summary": composition_summary(rows)}
    click.echo(composition_table(result))
    short = [{name: value for name, value in row.items() if name != "trace"} for row in rows]
    machine.write_result(path, {**result, "rows": short})
