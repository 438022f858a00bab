"""Provides ExportPool: child processes that write the lines of a database, where a crash only costs one of them."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from costhub.dataset.intrinsics import load_intrinsics, names_intrinsics
from costhub.dataset.metaschedule.lines import STORED_FAILURE_S
from costhub.dataset.trace import replay
from costhub.dataset.workload import argument_shapes, module_from_json, parse_target
from costhub.errors import WorkloadError
from costhub.isolation.pool import LostCall
from costhub.isolation.tvm_children import tvm_pool

MeasuredTrace: TypeAlias = tuple[str, tuple[float, ...]]
"""A trace, and the seconds of every repeat; no seconds if it failed."""
Records = list[str | None]
RecordsCall = tuple[str, str, tuple[MeasuredTrace, ...]]
"""Measurements of one workload (its module, as JSON) and one target."""


@dataclass(frozen=True)
class WorkloadLine:
    """A workload as stored in a database."""

    structural_hash: str
    """TVM's own hash: a database holds one workload per hash."""
    text: str
    """The line: the hash, and the module in base64."""


def workload_line(module_json: str) -> WorkloadLine | None:
    """The line of a workload; None for one that TVM cannot read."""
    from tvm.s_tir.meta_schedule.database import Workload

    try:
        structural_hash, module = Workload(module_from_json(module_json)).as_json()
    except WorkloadError:
        return None
    text = json.dumps([str(structural_hash), str(module)], separators=(",", ":"))
    return WorkloadLine(str(structural_hash), text)


def record_texts(module_json: str, target: str, programs: Sequence[MeasuredTrace]) -> list[str | None]:
    """The records of measurements of one workload and one target; None for those that TVM cannot replay."""
    try:
        mod, kind = _module(module_json), str(parse_target(target).kind.name)
    except WorkloadError:
        return [None] * len(programs)
    content = json.loads(target)
    return [_record(mod, kind, content, trace, run_s) for trace, run_s in programs]


def _record(mod: Any, kind: str, target: Any, trace: str, run_s: tuple[float, ...]) -> str | None:
    """The record as JSON, with the arguments of the scheduled program as AddToDatabase writes them.

    A database with a single trace that does not replay cannot be loaded at all, hence None for such a trace.
    """
    if names_intrinsics(trace):
        load_intrinsics(kind)
    try:
        arguments = argument_shapes(replay(mod, trace).mod)
        run_secs = list(run_s) or [STORED_FAILURE_S]
        info = [["TENSOR", dtype, shape] for dtype, shape in arguments]
        return json.dumps([json.loads(trace), run_secs, target, info], separators=(",", ":"), allow_nan=False)
    except (WorkloadError, ValueError):  # ValueError: a NaN, which TVM's reader rejects
        return None


@functools.lru_cache(maxsize=4)
def _module(text: str) -> Any:
    return module_from_json(text)


def usable(run_s: tuple[float, ...]) -> bool:
    """Whether TVM can rank a program by these times.

    Example:
        >>> usable((1e-3,)), usable(()), usable((float("nan"),))
        (True, False, False)
    """
    return bool(run_s) and all(0 < s < STORED_FAILURE_S for s in run_s)


class ExportPool:
    """Child processes that replay programs and write them as records.

    Raises:
        MeasureError: No child process can be started.

    Example:
        >>> with ExportPool(workers=1) as pool:
        ...     list(pool.records([]))
        []
    """

    def __init__(self, *, workers: int | None = None) -> None:
        self._pool = tvm_pool(workers)

    def __enter__(self) -> ExportPool:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    def workload(self, module_json: str) -> WorkloadLine | None:
        """The line of a workload; None for one that TVM cannot read, or that crashes it."""
        line = self._pool.call(workload_line, module_json)
        return None if isinstance(line, LostCall) else line

    def records(self, calls: Iterable[RecordsCall]) -> Iterator[Records]:
        """Yields the records of each call, in order; at most two calls per process are in progress."""
        for parts in self._pool.map(record_texts, calls, pieces=_single_programs):
            yield [text for part in parts for text in ([None] if isinstance(part, LostCall) else part)]


def _single_programs(args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    module_json, target, programs = args
    return [(module_json, target, some) for some in ((), *((program,) for program in programs))]
