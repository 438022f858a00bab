"""Provides the feature layout tiles@2: tiles@1, and what TVM and LLVM are left with once loops are unrolled.

Programs with the same tiles may differ in what the compilers make of them. TVM keeps a buffer of less than 1 KiB on
the stack of a CPU's kernel (`kMaxStackAlloca` in TVM's include/tvm/runtime/device_api.h), where LLVM can hold it in
registers; larger ones lie on the heap. A stage that is computed within the tile of another may compute its elements
many times. Sums stay in registers only if the loop around the unrolled body adds to the same ones, and if they are few
enough. LLVM unrolls short loops by itself, and splits the loads of a vector whose length is not a power of two. Rows
that lie a multiple of some KiB apart compete for the same few lines of a cache. One row per statement, most work
first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from costhub.dataset.features import tiles
from costhub.dataset.features.loop_nest import LoopNest, loop_nest
from costhub.dataset.features.spec import slog, spec_of_modules
from costhub.dataset.features.statement import Statement, Tile, by_work, statements
from costhub.dataset.programs import FloatArray

BODIES = "tiles@2"

_STACK_BYTES = 1024
"""A buffer of so many bytes no longer lies on the stack."""
_UNROLLED_COPIES = 64
"""Copies of a statement up to which LLVM unrolls without a pragma: its threshold is 300 instructions, and a copy takes
about four, which load, multiply, add and store."""
_LINE_BYTES = 64
_WIDTHS = (4, 8, 16)
_SETS = (("l1", 1 << 15, 1 << 12), ("l2", 1 << 20, 1 << 16), ("large_l2", 1 << 21, 1 << 17))
"""A cache, its bytes, and the distance in bytes at which addresses come to the same set again: 64 sets of lines in the
first cache of all x86 CPUs of today, 1,024 and 2,048 in second ones of 1 and of 2 MiB, which go by physical address."""

_PLACE = ("bytes", "is_on_stack", "begun", "begun_per_run")
_BODY = (
    *("copies", "accumulators", "contiguous", "broadcast", "strided", "sums_stay", "loads_per_operation"),
    *("elements_per_instruction", "repeats"),
)
_PROGRAM = (
    *("statements", "statements_outside_parallel", "work_outside_parallel", "parallel_loops", "parallel_starts"),
    *("heap_begun", "heap_bytes", "stack_bytes", "code", "computed_again"),
)

COLUMN_NAMES: tuple[str, ...] = (
    *tiles.COLUMN_NAMES,
    "writes_intermediate",
    *(f"written_{name}" for name in _PLACE),
    "written_again",
    "intermediates_read",
    *(f"read_{name}" for name in _PLACE),
    *(f"unrolled_{name}" for name in _BODY),
    *(f"llvm_{name}" for name in _BODY),
    "lane_parts",
    *(f"registers_of_{width}" for width in _WIDTHS),
    *(f"lines_in_a_set_of_{cache}" for cache, _, _ in _SETS),
    *(f"program_{name}" for name in _PROGRAM),
)
"""The names of the columns. Counts and sizes are log2(|x| + 1), ratios log2; flags and shares lie between 0 and 1. How
many statements, parallel loops, intermediates read and parts of a vector there are is plain."""


@dataclass(frozen=True)
class Allocation:
    """The tile of an intermediate buffer within the innermost loop that all its statements share.

    TVM makes the buffer as small as that, though not each time: it moves buffers outwards (`StorageRewrite`).
    """

    bytes: int
    """Of what these statements touch in one iteration of that loop."""
    begun: int
    """How often the tile begins anew: the iterations of that loop; 1 if there is none."""

    @property
    def is_on_stack(self) -> bool:
        """Whether it is small enough for the stack of a CPU's kernel."""
        return self.bytes < _STACK_BYTES

    def values(self, runs: int) -> list[float]:
        """The columns of `_PLACE`, for a statement with so many runs."""
        return [slog(self.bytes), float(self.is_on_stack), slog(self.begun), math.log2(self.begun / runs)]


def body_rows(mod: Any) -> FloatArray:
    """(statements, 150) rows of a scheduled module (``tvm.IRModule``), most work first."""
    nest = loop_nest(mod)
    found = statements(nest)
    if not found:
        return np.zeros((0, len(COLUMN_NAMES)), np.float32)
    made = allocations(nest, found)
    whole = _program(nest, found, made)
    rows = [
        [
            *tiles.statement_row(statement, share),
            *_places(statement, made),
            *_bodies(statement),
            *_lines_in_sets(statement, made),
            *whole,
        ]
        for statement, share in by_work(found)
    ]
    return np.array(rows, np.float32)


def allocations(nest: LoopNest, found: Sequence[Statement]) -> dict[int, Allocation]:
    """The intermediate buffers of a program by their index: those that one statement writes and another reads.

    An output that another statement reads counts as one, too.
    """
    writers: dict[int, set[int]] = {}
    readers: dict[int, set[int]] = {}
    for statement in found:
        for buffer, touch in statement.node.touches.items():
            (writers if touch.writes else readers).setdefault(buffer, set()).add(statement.place)
    return {
        buffer: _allocation(nest, buffer, [user for user in found if user.place in places | readers[buffer]])
        for buffer, places in writers.items()
        if buffer in readers
    }


def _allocation(nest: LoopNest, buffer: int, users: Sequence[Statement]) -> Allocation:
    paths = [[*reversed(user.chain), user.place] for user in users]  # the outermost loop first
    depth = 0
    while all(len(path) > depth + 1 for path in paths) and len({path[depth] for path in paths}) == 1:
        depth += 1
    elements = max(nest.nodes[path[depth]].touches[buffer].elements for path in paths)
    around = nest.nodes[paths[0][depth - 1]] if depth else None
    return Allocation(nest.buffers[buffer].element_bytes * elements, around.top_down * around.extent if around else 1)


def _places(statement: Statement, made: Mapping[int, Allocation]) -> list[float]:
    """Describes the buffer that a statement writes, and the largest intermediate one that it reads."""
    runs, buffer = statement.node.top_down, statement.written
    written = made.get(buffer)
    read = [made[other] for other in statement.node.touches if other in made and other != buffer]
    largest = max(read, key=lambda each: each.bytes, default=None)
    again = 1.0
    if buffer >= 0:
        added = math.prod(statement.extent(loop) for loop in statement.chain if statement.is_reduced_over(loop))
        again = runs / added * statement.node.touches[buffer].elements / statement.nest.buffers[buffer].elements
    nothing = [0.0] * len(_PLACE)
    return [
        float(written is not None),
        *(written.values(runs) if written else nothing),
        math.log2(again),
        float(len(read)),
        *(largest.values(runs) if largest else nothing),
    ]


def _bodies(statement: Statement) -> list[float]:
    """Describes what TVM's unrolling leaves, and what LLVM's leaves of that."""
    by_tvm, by_llvm = (statement.unrolled_body(unasked) for unasked in (0, _UNROLLED_COPIES))
    tile = statement.tile(by_llvm[1])
    return [
        *_body(statement, by_tvm, statement.tile(by_tvm[1])),
        *_body(statement, by_llvm, tile),
        *_vectors(statement.lanes, tile),
    ]


def _body(statement: Statement, body: tuple[int, int | None, int | None], tile: Tile) -> list[float]:
    """Describes the body of the first loop that unrolling leaves: what it loads, stores and could keep in registers.

    Args:
        statement: The statement.
        body: What `Statement.unrolled_body` returned.
        tile: What one run of the body touches.
    """
    (copies, _, loop), lanes = body, statement.lanes
    stays = loop is not None and statement.is_reduced_over(loop)
    loads = tile.contiguous / lanes + tile.broadcast + tile.strided
    times_moved = 0.0 if stays else 2.0 if statement.node.is_reduction else 1.0
    operations = copies * max(1, statement.node.operations.total)
    return [
        slog(copies),
        slog(tile.accumulators),
        slog(tile.contiguous),
        slog(tile.broadcast),
        slog(tile.strided),
        float(stays),
        math.log2((loads + 1e-3) / operations),
        math.log2(operations * lanes / (operations + loads + times_moved * tile.accumulators / lanes)),
        slog(statement.extent(loop)),
    ]


def _vectors(lanes: int, tile: Tile) -> list[float]:
    """Counts the parts into which LLVM divides a vector, and the registers that sums and loaded vectors take."""
    vectors = (tile.accumulators + min(tile.contiguous, tile.accumulators)) / lanes
    return [float(lanes.bit_count()), *(slog(vectors * math.ceil(lanes / width)) for width in _WIDTHS)]


def _lines_in_sets(statement: Statement, made: Mapping[int, Allocation]) -> list[float]:
    """Counts the rows of an argument that compete for the same lines of each cache of `_SETS`.

    Intermediate buffers are left out: TVM makes them smaller than they are declared, so their rows lie closer.
    """
    arguments = [buffer for buffer in statement.node.touches if buffer not in made]
    held = [(loop, statement.tile(loop).bytes) for loop in statement.chain]
    return [math.log2(_lines_in_a_set(statement, arguments, _fitting(held, size), period)) for _, size, period in _SETS]


def _fitting(held: Sequence[tuple[int, int]], size: int) -> list[int]:
    """The inner loops whose tiles fit a cache of `size` bytes; `held` has each loop, innermost first, and its bytes."""
    return [loop for loop, _ in itertools.takewhile(lambda each: each[1] <= size, held)]


def _lines_in_a_set(statement: Statement, arguments: Sequence[int], fitting: Sequence[int], period: int) -> float:
    """The most rows of an argument that come to the same set of a cache while some inner loops run."""
    most = 1.0
    for buffer in arguments:
        unit, steps = statement.nest.buffers[buffer].element_bytes, []
        for loop in fitting:
            touch = statement.nest.nodes[loop].touches.get(buffer)
            if touch and touch.stride * unit >= _LINE_BYTES:
                steps.append((touch.stride * unit, statement.extent(loop)))
        touched = statement.touches(fitting[-1] if fitting else None)[buffer].elements
        rows, common = 1, period
        # Rows lie farther apart than what is side by side within them, which spreads over more sets.
        for step, extent in sorted(steps, reverse=True):
            rows, common = min(rows * extent, touched), math.gcd(common, step)
            most = max(most, rows * common / period)
    return most


def _program(nest: LoopNest, found: Sequence[Statement], made: Mapping[int, Allocation]) -> list[float]:
    """Describes the whole program, the same in each of its rows."""
    alone = [s for s in found if all(nest.nodes[loop].kind != "parallel" for loop in s.chain)]
    parallel = [node for node in nest.nodes if node.kind == "parallel"]
    heap = [each for each in made.values() if not each.is_on_stack]
    code = sum(statement.unrolled_body()[0] * max(1, statement.node.operations.total) for statement in found)
    once = [s for s in found if s.written >= 0 and not s.node.is_reduction]
    computed = sum(s.node.top_down * s.node.touches[s.written].elements for s in once)
    elements = sum(nest.buffers[s.written].elements for s in once)
    return [
        float(len(found)),
        float(len(alone)),
        sum(statement.work for statement in alone) / sum(statement.work for statement in found),
        float(len(parallel)),
        slog(sum(node.top_down for node in parallel)),
        slog(sum(each.begun for each in heap)),
        slog(sum(each.bytes for each in heap)),
        slog(sum(each.bytes for each in made.values() if each.is_on_stack)),
        slog(code),
        math.log2(computed / elements) if elements else 0.0,
    ]


SPEC = spec_of_modules(BODIES, COLUMN_NAMES, body_rows, leads=True)
