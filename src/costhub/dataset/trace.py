"""Provides schedules as text: a MetaSchedule trace to JSON and back to a schedule."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from costhub.errors import WorkloadError, last_line


def trace_to_json(trace: Any) -> str:
    """The trace (``tvm.s_tir.schedule.Trace``) as one canonical line of JSON."""
    return json.dumps(plain(trace_parts(trace)), separators=(",", ":"))


def trace_parts(trace: Any, *, postproc: bool = True) -> Any:
    """The pair of instructions and decisions of a trace in TVM's containers; `plain` makes Python's of it.

    Args:
        trace: a ``tvm.s_tir.schedule.Trace``.
        postproc: with the instructions of post-processing.
    """
    import tvm_ffi

    # Trace.as_json makes Python lists with boxed numbers in them, which would have to be gone through again.
    return tvm_ffi.get_global_func("s_tir.schedule.TraceAsJSON")(trace, not postproc)


def program_id(workload_id: str, trace_json: str) -> str:
    """64 hex digits that name a program: sha256 of its workload's id and its trace."""
    return hashlib.sha256(f"{workload_id}\n{trace_json}".encode()).hexdigest()


def replay(mod: Any, trace_json: str) -> Any:
    """The schedule (``tvm.s_tir.Schedule``) that the trace makes of `mod`, post-processing included.

    A malformed trace can crash TVM: text from strangers is replayed in a child process only
    (`costhub.worker`).

    Raises:
        WorkloadError: the trace is not JSON or does not fit the workload.
    """
    import tvm
    from tvm.s_tir.schedule import Trace

    try:
        instructions, decisions = json.loads(trace_json)
    except (ValueError, TypeError) as error:
        raise WorkloadError(
            f"The trace is not a JSON pair of instructions and decisions: {error}."
        ) from error
    check_decisions(instructions, decisions)
    schedule = tvm.s_tir.Schedule(mod, error_render_level="none")
    try:
        Trace.apply_json_to_schedule([instructions, decisions], schedule)
    except Exception as error:
        raise WorkloadError(f"The trace does not fit the workload: {last_line(error)}") from error
    return schedule


def check_decisions(instructions: list[Any], decisions: list[Any]) -> None:
    """Refuses decisions that are of no instruction: TVM 0.27 trusts their numbers, and writes where they say.

    Raises:
        WorkloadError: There is one, or the two are not lists of instructions and of pairs.
    """
    try:
        numbers, count = [int(number) for number, _ in decisions], len(instructions)
    except (ValueError, TypeError) as error:
        raise WorkloadError("its trace is not of instructions and decisions") from error
    if not all(0 <= number < count for number in numbers):
        raise WorkloadError("its trace has decisions that are of none of its instructions")


def plain(value: Any) -> Any:
    """TVM's containers and boxed numbers as plain Python, which json can write."""
    import tvm_ffi
    from tvm.ir import save_json
    from tvm.tirx import IndexMap

    # Iterating over an array asks for its length at every element.
    size, item = (tvm_ffi.get_global_func(f"ffi.Array{name}") for name in ("Size", "GetItem"))

    def made(value: Any) -> Any:
        if isinstance(value, str):
            return str(value)
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, IndexMap):  # of a layout; a trace holds it as text
            return str(save_json(value))
        if isinstance(value, tvm_ffi.Array):
            return [made(item(value, i)) for i in range(size(value))]
        if hasattr(value, "items"):
            return {str(k): made(v) for k, v in value.items()}
        if hasattr(value, "__iter__"):
            return [made(v) for v in value]
        number = value.value if hasattr(value, "value") else value
        is_float = isinstance(number, float) or "float" in type(value).__name__.lower()
        return float(number) if is_float else int(number)

    return made(value)
