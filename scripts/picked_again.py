"""Asks whether a search should measure its best programs again before it names one."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import machine

from costhub.cards.picked_table import picked_table
from costhub.collector.builder import Builder
from costhub.collector.runner import Runner
from costhub.collector.target import local_target
from costhub.dataset.intrinsics import load_intrinsics
from costhub.dataset.workload import argument_shapes, module_to_json
from costhub.transfer.search.database import Known, all_known


def best_known(database: Path, top: int) -> list[list[Known]]:
    """The fastest programs of each workload of a MetaSchedule database, as the search measured them."""
    import tvm
    from tvm.s_tir import meta_schedule as ms

    target = tvm.target.Target(local_target())
    known: dict[Any, list[Known]] = {}
    for each in all_known(ms.database.JSONDatabase(work_dir=str(database)), target):
        if each.run_s:
            known.setdefault(each.record.workload, []).append(each)
    return [sorted(programs, key=latency_s)[:top] for programs in known.values()]


def latency_s(known: Known) -> float:
    """Seconds by the search's own measurement."""
    assert known.latency_s is not None
    return known.latency_s


def measured_again(programs: Sequence[Known], rounds: int) -> list[list[float]]:
    """Median latencies in us of each program, one for each round in which all are measured in turn."""
    import tvm

    target, mods = json.dumps(local_target()), []
    for each in programs:
        schedule = tvm.s_tir.Schedule(each.record.workload.mod)
        each.record.trace.apply_to_schedule(schedule, remove_postproc=False)
        mods.append(schedule.mod)
    found: list[list[float]] = [[] for _ in mods]
    with Builder(target) as builder, Runner(target) as runner:
        built = builder.build([module_to_json(mod) for mod in mods])
        for _ in range(rounds):
            for times, program, mod in zip(found, built, mods, strict=True):
                ran = runner.run(str(program.artifact), argument_shapes(mod))
                times.append(statistics.median(ran.run_s) * 1e6 if ran.run_s else math.inf)
    return found


def row(database: str, programs: Sequence[Known], again_us: Sequence[Sequence[float]]) -> dict[str, Any]:
    """What choosing by every second round gains in the others, where nobody was lucky while being chosen."""
    for_choice, to_judge = ([min(times[start::2]) for times in again_us] for start in (0, 1))
    chosen = for_choice.index(min(for_choice))
    return {
        "database": database,
        "said_us": latency_s(programs[0]) * 1e6,
        "picked_us": to_judge[0],
        "chosen_us": to_judge[chosen],
        "rank": chosen + 1,
    }


@click.command()
@click.argument("databases", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--top", default=8, show_default=True, help="Programs of each workload.")
@click.option("--rounds", default=8, show_default=True)
@click.option("--json", "path", type=click.Path(path_type=Path))
def main(databases: tuple[Path, ...], top: int, rounds: int, path: Path | None) -> None:
    """DATABASES are folders of searches on this machine, such as bench_networks.py --searches keeps."""
    load_intrinsics("llvm")
    rows = []
    for database in databases:
        tasks = best_known(database, top)
        again = iter(measured_again([program for programs in tasks for program in programs], rounds))
        rows += [row(database.name, programs, [next(again) for _ in programs]) for programs in tasks]
    result = {**machine.describe(), "top": top, "rows": rows}
    click.echo(picked_table(result))
    if path:
        path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
