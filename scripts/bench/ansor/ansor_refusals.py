"""Benchmark `ansor-refusals`: which check of TVM refuses programs of Ansor's logs, and which limit they break."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from costhub.dataset.ansor.replay import replay_sketches
from costhub.hub.catalogue.devices import find_device
from scripts.bench.ansor.ansor_logs import logs_option, operators, programs_by_module, spread
from scripts.bench.common import options
from scripts.bench.common.machine import write_result
from scripts.tables.papers.ansor import SUB_WARP, ansor_refusals_table

PROGRAMS = 600
"""Of each operator of a log."""
LIMITS = {
    "thread_warp_size": (1, SUB_WARP),
    "max_threads_per_block": (1 << 30, "threads of a block, at most"),
    "max_shared_memory_per_block": (1 << 30, "shared memory of a block"),
}
"""Attributes of a target that the check of GPU code reads -> a value that limits nothing, and what they limit."""
OTHER = "none of them"
_CHECK = re.compile(r"TVM 0\.27 refuses its schedule \(by (\w+)")


def refusals(target: str, module: str, steps: Sequence[str]) -> Counter[tuple[str, str]]:
    """Counts the refused programs of a workload by check and limit.

    A limit is what a program breaks if the same target without that limit takes it.

    Args:
        target: The target as JSON.
        module: The workload as JSON.
        steps: The transform steps of each program as JSON.
    """
    refused = {number: check for number, check in enumerate(_checks(target, module, steps)) if check}
    broken = dict.fromkeys(refused, OTHER)
    for attribute, (value, limit) in LIMITS.items():
        freed = json.dumps({**json.loads(target), attribute: value})
        again = _checks(freed, module, [steps[number] for number in refused])
        broken |= {number: limit for number, check in zip(refused, again, strict=True) if not check}
    return Counter((refused[number], broken[number]) for number in refused)


def _checks(target: str, module: str, steps: Sequence[str]) -> list[str]:
    """The check that refuses each program; empty where none does."""
    reply = replay_sketches(module, target, steps)
    if isinstance(reply, str):
        return [""] * len(steps)
    found = (_CHECK.search(each) if isinstance(each, str) else None for each in reply.programs)
    return [match[1] if match else "" for match in found]


def rows_of(log: Path, device: str, programs: int) -> list[dict[str, Any]]:
    """A row for each operator, check and limit, of a sample spread evenly over a log."""
    known = find_device(device)
    assert known is not None
    rows = []
    for operator, lines in operators(log).items():
        counts: Counter[tuple[str, str]] = Counter()
        sample = list(spread({operator: lines}, programs))
        for module, steps in programs_by_module(sample).items():
            counts += refusals(str(known.target), module, steps)
        rows += [
            {"device": device, "operator": operator, "tried": len(sample), "check": check, "limit": limit, "refused": n}
            for (check, limit), n in counts.items()
        ]
    return rows


@click.command()
@options.quick("Thirty programs of each operator.")
@options.json_file()
@logs_option
def main(quick: bool, path: Path | None, logs: tuple[tuple[Path, str], ...]) -> None:
    """Replays a sample of each log's programs, and those that are refused without one limit after the other."""
    rows: list[dict[str, Any]] = []
    for log, device in logs:
        rows += rows_of(log, device, 30 if quick else PROGRAMS)
        click.echo(f"{device}: {sum(row['refused'] for row in rows if row['device'] == device)} refused")
    result = {"programs": PROGRAMS, "rows": rows}
    click.echo(ansor_refusals_table(result))
    write_result(path, result)
