"""Provides Record: one line of a MetaSchedule database's tuning records."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

from costhub.errors import DataError

FAILED_S = 1e9
"""MetaSchedule stores 1e10 seconds for a program that could not be built or run; anything as long is that."""

Arguments = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Record:
    """A measured program, as the database has it."""

    workload: int
    """The number of its workload in the database, from 0."""
    trace: str
    """Instructions and decisions as JSON, in the words of the TVM that wrote them."""
    run_s: tuple[float, ...]
    """Seconds of every repeat; empty where the program failed."""
    target: str
    """The target as JSON, in the words of the TVM that wrote it."""
    arguments: Arguments | None
    """(dtype, shape) of each argument; None where the record does not have them."""

    def record_id(self, device_id: str, workload_id: str) -> str:
        """64 hex digits: the same record of the same device always gets the same name.

        Example:
            >>> Record(0, "[[],[]]", (1e-3,), "{}", None).record_id("cpu0", "w0")[:8]
            'b086c89a'
        """
        identity = [device_id, workload_id, self.target, self.trace, self.run_s]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


def parse_record(line: bytes) -> Record:
    """Reads a line ``[workload, [[instructions, decisions], run_secs, target, arguments]]``.

    Raises:
        DataError: The line is not such a record, or its times are none.
    """
    try:
        workload, ((instructions, decisions), run_secs, target, arguments) = _parse(line)
    except (ValueError, TypeError) as error:
        raise DataError("it is not [workload, [trace, run_secs, target, arguments]]") from error
    if isinstance(workload, bool) or not isinstance(workload, int) or workload < 0:
        raise DataError(f"its workload {workload!r:.40} is not a number from 0")
    if not (isinstance(instructions, list) and isinstance(decisions, list)):
        raise DataError("its trace is not a pair of instructions and decisions")
    return Record(
        workload,
        _dump([instructions, decisions]),
        _run_s(run_secs),
        _dump(target),
        _arguments(arguments),
    )


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError("it is not JSON; perhaps it was cut off") from error


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _run_s(run_secs: Any) -> tuple[float, ...]:
    """The times; empty for a program that failed."""
    if run_secs is None:
        return ()
    if not isinstance(run_secs, list) or not all(type(s) in (int, float) for s in run_secs):
        raise DataError(f"its run_secs {run_secs!r:.60} are not a list of numbers")
    if not run_secs or not all(0 < s < math.inf for s in run_secs):
        raise DataError(f"its run_secs {run_secs!r:.60} are not all positive and finite")
    return () if max(run_secs) >= FAILED_S else tuple(map(float, run_secs))


def _arguments(value: Any) -> Arguments | None:
    if value is None:
        return None
    try:
        return tuple((str(dtype), tuple(int(extent) for extent in shape)) for _, dtype, shape in value)
    except (ValueError, TypeError, OverflowError) as error:
        raise DataError('its arguments are not like ["TENSOR", "float32", [64, 64]]') from error
