"""Measures whether a search should measure its best programs again before it names one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from costhub.collector.device.local import local_target
from costhub.dataset.intrinsics import load_intrinsics
from costhub.search.database import open_database
from costhub.search.strategies.search_space import DatabaseRecord, read_records
from scripts.bench.common import machine, options
from scripts.bench.common.remeasure import measured_in_turn
from scripts.tables.search import picked_table


def best_known(database: Path, top: int) -> list[list[DatabaseRecord]]:
    """The fastest programs of each workload of a MetaSchedule database, as the search measured them."""
    import tvm

    target = tvm.target.Target(local_target())
    by_workload: dict[Any, list[DatabaseRecord]] = {}
    for each in read_records(open_database(database), target):
        if each.run_s:
            by_workload.setdefault(each.record.workload, []).append(each)
    return [sorted(programs, key=latency_s)[:top] for programs in by_workload.values()]


def latency_s(program: DatabaseRecord) -> float:
    """Seconds by the search's own measurement."""
    assert program.latency_s is not None
    return program.latency_s


def replayed(program: DatabaseRecord) -> Any:
    """Its module."""
    import tvm

    schedule = tvm.s_tir.Schedule(program.record.workload.mod)
    program.record.trace.apply_to_schedule(schedule, remove_postproc=False)
    return schedule.mod


def row(database: str, programs: Sequence[DatabaseRecord], again_us: Sequence[Sequence[float]]) -> dict[str, Any]:
    """The gain of a choice by every second round, judged by the other rounds, which did not choose."""
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
@options.json_file()
def main(databases: tuple[Path, ...], top: int, rounds: int, path: Path | None) -> None:
    """DATABASES are folders of searches on this machine, such as `networks --searches` keeps."""
    load_intrinsics("llvm")
    rows = []
    for database in databases:
        tasks = best_known(database, top)
        modules = {
            (task, rank): replayed(program)
            for task, programs in enumerate(tasks)
            for rank, program in enumerate(programs)
        }
        again_us = measured_in_turn(modules, rounds)
        rows += [
            row(database.name, programs, [again_us[task, rank] for rank in range(len(programs))])
            for task, programs in enumerate(tasks)
        ]
    result = {"top": top, "rows": rows}
    click.echo(picked_table(result))
    machine.write_result(path, result)
