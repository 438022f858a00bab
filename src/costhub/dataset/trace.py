"""Provides schedules as text: MetaSchedule traces to JSON and back to schedules, and read without TVM."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from costhub.dataset.tile_intrinsics import register_tiles
from costhub.errors import WorkloadError, last_line

_PRAGMAS = frozenset({"pragma_auto_unroll_max_step", "pragma_unroll_explicit"})
"""What MetaSchedule writes; TVM's post-processing reads them."""
_INDEX_TYPES = frozenset(
    {
        *("tirx.IndexMap", "ir.Var", "ir.PrimType", "ir.IntImm", "ir.FloatImm", "prim.Select", "prim.Cast"),
        *(f"prim.{kind}" for kind in ("Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max")),
        *(f"prim.{kind}" for kind in ("EQ", "NE", "LT", "LE", "GT", "GE", "And", "Or", "Not")),
        *("ffi.Array", "ffi.String", "None", "bool", "int", "float"),
    }
)
"""Types of the nodes of an index map: numbers, variables and arithmetic. With a call, it would run a function."""
_UNCHECKED = frozenset({"AnnotateBufferAccess", "UnsafeHideBufferAccess", "UnsafeSetDtype"})
"""Kinds of instructions that TVM trusts about what a block reads and writes; no rule of MetaSchedule writes one."""
MOST_RESULTS = 2000
"""Of the instructions of a trace, each of which may make a loop; those that searches write have some 250 at most. TVM
0.27 visits loops by recursion, and 4,000 in one another overflow its stack."""
MAX_TRACE_CHARACTERS = 1 << 22
"""A longer trace gets no features: it would take too much memory."""


TILE, CHOICE, LOCATION = "SamplePerfectTile", "SampleCategorical", "SampleComputeLocation"
"""Kinds of instructions with decisions: the factors of a loop, one of some values, a place for a block."""
POSTPROC = "EnterPostproc"
"""Kind of the instruction that precedes those of post-processing."""


def trace_to_json(trace: Any) -> str:
    """Returns the trace (``tvm.s_tir.schedule.Trace``) as one canonical line of JSON."""
    return json.dumps(plain(trace_parts(trace)), separators=(",", ":"))


def trace_parts(trace: Any, *, postproc: bool = True) -> Any:
    """Returns the instructions and decisions of a trace in TVM's containers, which `plain` converts.

    Args:
        trace: A ``tvm.s_tir.schedule.Trace``.
        postproc: Include the instructions of post-processing.
    """
    import tvm_ffi

    # Trace.as_json makes Python lists of boxed numbers, which would need a second pass.
    return tvm_ffi.get_global_func("s_tir.schedule.TraceAsJSON")(trace, not postproc)


def program_id(workload_id: str, trace_json: str) -> str:
    """Returns 64 hex digits that identify a program: the sha256 of its workload's id and its trace."""
    return hashlib.sha256(f"{workload_id}\n{trace_json}".encode()).hexdigest()


def record_id(program_id: str, device_id: str, session: str | None, timestamp: datetime | None) -> str:
    """Returns 64 hex digits that identify a measurement: the sha256 of its program, device, session and time.

    A shard holds only the first digits of such an id, since a reader can compute it again. The session and the time
    must tell the measurements of a program on a device apart.

    Example:
        >>> record_id("p0", "cpu0", "0a", None)[:8]
        '62ecf4a4'
    """
    time = timestamp.isoformat() if timestamp else None
    return hashlib.sha256(f"{program_id} {device_id} {session} {time}".encode()).hexdigest()


def replay(mod: Any, trace_json: str) -> Any:
    """Replays a trace on `mod` to a schedule (``tvm.s_tir.Schedule``), including post-processing.

    A malformed trace can crash TVM: replay untrusted text only in a child process (`costhub.isolation.child`).

    Raises:
        WorkloadError: The trace is not JSON or does not fit the workload.
    """
    import tvm
    from tvm.s_tir.schedule import Trace

    try:
        instructions, decisions = json.loads(trace_json)
    except (ValueError, TypeError, RecursionError) as error:
        raise WorkloadError(f"The trace is not a JSON pair of instructions and decisions: {error}.") from error
    check_decisions(instructions, decisions)
    register_tiles(trace_json)
    try:
        schedule = tvm.s_tir.Schedule(mod, error_render_level="none")
        Trace.apply_json_to_schedule([instructions, decisions], schedule)
    except Exception as error:
        raise WorkloadError(f"The trace does not fit the workload: {last_line(error)}") from error
    return schedule


def check_decisions(instructions: list[Any], decisions: list[Any]) -> None:
    """Rejects what TVM 0.27 trusts even though it crashes it, makes it compute for minutes or runs foreign code.

    Raises:
        WorkloadError: The trace brings code of its own (`brings_code`), or as for `check_positions`.
    """
    if brings_code(instructions):
        raise WorkloadError(
            "its trace may bring code of its own, by a pragma such as pragma_import_llvm, a layout that is more than "
            "arithmetic, or an instruction that TVM does not check"
        )
    check_positions(instructions, decisions)


def check_positions(instructions: list[Any], decisions: list[Any]) -> None:
    """Rejects decisions that TVM 0.27 trusts even though they crash it or make it compute for minutes.

    TVM writes to the position given by a decision's number, divides by the tiles of a loop, and visits loops by
    recursion.

    Raises:
        WorkloadError: A decision belongs to no instruction, a tile is not positive, there are more instructions or
            results of them than `MOST_RESULTS`, or the two are not lists of instructions and of pairs.
    """
    try:
        numbers, count = [int(number) for number, _ in decisions], len(instructions)
    except (ValueError, TypeError, OverflowError) as error:
        raise WorkloadError("its trace does not consist of instructions and decisions") from error
    if not all(0 <= number < count for number in numbers):
        raise WorkloadError("its trace has decisions that belong to none of its instructions")
    tiles = [tile for _, decision in decisions if isinstance(decision, list) for tile in decision]
    if not all(isinstance(tile, int) and tile > 0 for tile in tiles):
        raise WorkloadError("its trace has a tile that is not a positive whole number")
    results = sum(len(each[3]) for each in instructions if _has_results(each))
    if max(count, results) > MOST_RESULTS:
        raise WorkloadError(
            f"its trace has more than {MOST_RESULTS:,} instructions or results of them; a search writes a few hundred"
        )


def _has_results(instruction: Any) -> bool:
    return isinstance(instruction, list) and len(instruction) > 3 and isinstance(instruction[3], list)


def brings_code(instructions: Any) -> bool:
    """Whether a trace may run more than what the program computes.

    The compiler links the code in an annotation such as ``pragma_import_llvm``. A change of layout carries an index map
    and a value for the padding, each as an object in JSON, which TVM puts into the program: one that calls a function
    would run it. Some instructions make TVM believe anything about what a block reads and writes.

    Args:
        instructions: The instructions of a trace, or anything else.

    Example:
        >>> brings_code([["Annotate", ["l1", '"<code>"'], ["pragma_import_llvm"], []]])
        True
    """
    if not isinstance(instructions, list):
        return False
    known = [each for each in instructions if isinstance(each, list) and len(each) > 2 and isinstance(each[0], str)]
    return any(each[0] in _UNCHECKED or _links_code(each) for each in known) or any(
        map(_is_more_than_arithmetic, _texts([each[1:3] for each in known]))
    )


def _links_code(instruction: list[Any]) -> bool:
    kind, _, keys, *_ = instruction
    return (
        kind == "Annotate"
        and isinstance(keys, list)
        and any(isinstance(key, str) and key.startswith("pragma_") and key not in _PRAGMAS for key in keys)
    )


def _texts(values: list[Any]) -> Iterator[str]:
    """The texts that TVM may read as objects; it takes those in quotation marks literally."""
    left: list[Iterable[Any]] = [values]  # not by recursion: JSON may be nested as deep as its parser allows
    while left:
        for value in left.pop():
            if isinstance(value, str):
                if "{" in value and not value.startswith('"'):
                    yield value
            elif isinstance(value, list):
                left.append(value)
            elif isinstance(value, dict):
                left.append(value.values())


def _is_more_than_arithmetic(text: str) -> bool:
    """Whether an object in JSON is, or may be, more than an index map; TVM 0.27 reads none without a root index."""
    try:
        graph = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return True
    if not isinstance(graph, dict) or "root_index" not in graph:
        return False
    nodes = graph.get("nodes")
    if not isinstance(nodes, list):
        return True
    return not all(isinstance(node, dict) and node.get("type") in _INDEX_TYPES for node in nodes)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; TVM might take the other one of two equal keys."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found


def plain(value: Any) -> Any:
    """Converts TVM's containers and boxed numbers to plain Python values for JSON."""
    import tvm_ffi
    from tvm.ir import save_json
    from tvm.tirx import IndexMap

    # Iteration over an array looks up its length at every element.
    size, item = (tvm_ffi.get_global_func(f"ffi.Array{name}") for name in ("Size", "GetItem"))

    def convert(value: Any) -> Any:
        if isinstance(value, str):
            return str(value)
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, IndexMap):  # of a layout, which a trace stores as text
            return str(save_json(value))
        if isinstance(value, tvm_ffi.Array):
            return [convert(item(value, i)) for i in range(size(value))]
        if hasattr(value, "items"):
            return {str(k): convert(v) for k, v in value.items()}
        if hasattr(value, "__iter__"):
            return [convert(v) for v in value]
        number = value.value if hasattr(value, "value") else value
        is_float = isinstance(number, float) or "float" in type(value).__name__.lower()
        return float(number) if is_float else int(number)

    return convert(value)


def read_trace(trace_json: str) -> tuple[list[Any], list[Any]] | None:
    """Reads the lists of instructions and decisions; does not check their elements.

    Args:
        trace_json: The pair of lists as JSON.

    Returns:
        The lists, or None if the text is not such a pair or longer than `MAX_TRACE_CHARACTERS`.

    Example:
        >>> read_trace('[[["GetSBlock",[],["C","main"],["b0"]]],[[0,4]]]')
        ([['GetSBlock', [], ['C', 'main'], ['b0']]], [[0, 4]])
    """
    if len(trace_json) > MAX_TRACE_CHARACTERS:
        return None
    try:
        trace = json.loads(trace_json)
    except (ValueError, RecursionError):
        return None
    if not (isinstance(trace, list) and len(trace) == 2 and all(isinstance(part, list) for part in trace)):
        return None
    return trace[0], trace[1]


def before_postproc(instructions: Sequence[Any]) -> int:
    """Counts the instructions before post-processing, which follows from them and their decisions.

    Example:
        >>> before_postproc([["GetLoops", ["b0"], [], ["l1"]], ["EnterPostproc", [], [], []]])
        1
    """
    kinds = [i[0] if isinstance(i, list) and i else None for i in instructions]
    return kinds.index(POSTPROC) if POSTPROC in kinds else len(kinds)


def decision_pairs(decisions: Sequence[Any]) -> list[tuple[int, Any]]:
    """Returns (number of the instruction, decision) for the decisions that are such pairs.

    Example:
        >>> decision_pairs([[0, 4], [True, 1], "x", [2, [8, 8]]])
        [(0, 4), (2, [8, 8])]
    """
    return [
        (pair[0], pair[1]) for pair in decisions if isinstance(pair, list) and len(pair) == 2 and type(pair[0]) is int
    ]
