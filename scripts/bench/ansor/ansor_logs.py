"""Reads logs of Ansor for the benchmarks of their import: records by operator, and samples of them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import click

from costhub.dataset.ansor.import_log import MOST_LINE_BYTES
from costhub.dataset.ansor.named_workloads import DTYPES, parse_key
from costhub.dataset.metaschedule.lines import read_lines
from costhub.dataset.workload import module_to_json
from costhub.errors import CosthubError

logs_option = click.option(
    "--log",
    "logs",
    type=(click.Path(path_type=Path, exists=True, dir_okay=False), str),
    multiple=True,
    required=True,
    metavar="FILE DEVICE",
    help="A log and its device; may be repeated.",
)


def operators(log: Path) -> dict[str, list[bytes]]:
    """The lines of a log, by the function that their keys name, and by type where a key has one."""
    lines = defaultdict(list)
    for line in read_lines(log, most_bytes=MOST_LINE_BYTES):
        lines[_operator(line.text)].append(line.text)
    return lines


def _operator(line: bytes) -> str:
    function, *arguments = json.loads(json.loads(line)["i"][0][0])
    return " ".join(map(str, (function, *(each for each in arguments if each in DTYPES))))


def spread(by_operator: Mapping[str, Sequence[bytes]], count: int) -> Iterator[bytes]:
    """Lines of the known operators, evenly over the log."""
    lines = [line for some in by_operator.values() for line in some if is_known(some[0])]
    yield from lines[:: max(1, len(lines) // count)]


def is_known(line: bytes) -> bool:
    """Whether costhub imports the operator of a line."""
    try:
        parse_key(json.loads(line)["i"][0][0])
    except CosthubError:
        return False
    return True


def programs_by_module(lines: Iterable[bytes]) -> dict[str, list[str]]:
    """Workload as JSON -> the transform steps of each of its records, as JSON."""
    by_key = defaultdict(list)
    for line in lines:
        (key, *_), (_, steps, *_) = json.loads(line)["i"]
        by_key[key].append(json.dumps(steps))
    return {module_to_json(parse_key(key).module()): steps for key, steps in by_key.items()}
