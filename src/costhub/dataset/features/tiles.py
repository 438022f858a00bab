"""Provides the feature layout tiles@1: what the tiles of each statement hold, load and move.

The speed of a schedule from TVM's multi-level tiling depends mostly on how its innermost loops fit the
machine: how many accumulators the register tile has and how many loads it needs for an operation (Goto and
van de Geijn, *Anatomy of High-Performance Matrix Multiplication*, 2008), which loop the code generator can
put into vector lanes once explicit unrolling is done, and from which level of the memory each tile is fetched
again. TVM's per-store features and AutoTVM's relations hold only the factors of these quantities, which a
model would have to multiply; this layout computes them. One row per statement, most work first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from costhub.dataset.features.loop_nest import loop_nest
from costhub.dataset.features.spec import slog, spec_of_modules
from costhub.dataset.features.statement import Statement, Tile, by_work, statements
from costhub.dataset.programs import FloatArray

TILES = "tiles@1"

_CORES = (2, 4, 8, 16, 64)
_LANES = (8, 16)
_RUNS = 6
_FULL_TILES = 4
_CACHES = tuple(range(12, 26))
_SCOPES = ("global", "shared", "local")
_PRODUCTS = ("parallel", "vectorized", "unrolled", "block", "thread", "vthread")
_OPERATIONS = ("add_sub", "mul", "div_mod", "compare", "call")
_MOST_OPERATIONS = 8

_STATEMENT = ("work_share", "runs", "is_reduction", *_OPERATIONS)
_LOOPS = (*_PRODUCTS, "unroll_steps", *(f"waste_on_{cores}_cores" for cores in _CORES))
_STRIDES = ("extent", "is_reduction", "write_stride", "writes_next", "reads_same", "reads_next", "reads_far")
_SIDE = ("write_run", "least_read_run", "most_read_run")
_LANE = (
    *(f"lane_{name}" for name in (*_STRIDES, *_SIDE)),
    "lane_is_innermost",
    *(f"lanes_by_{n}" for n in _LANES),
    "lanes_fill",
)
_NEXT = (*(f"next_{name}" for name in (*_STRIDES, *_SIDE)), "next_remainder", "next_lanes")
_BODY = ("body", "body_elements", *(f"body_{name}" for name in _SIDE))
_TILE = ("accumulators", "contiguous", "broadcast", "strided", "bytes", "loads_per_run")

COLUMN_NAMES: tuple[str, ...] = (
    *_STATEMENT,
    *_LOOPS,
    *_LANE,
    *_NEXT,
    *_BODY,
    *(f"run_{number}" for number in range(_RUNS)),
    "run_outside",
    *(f"tile_{number}_{name}" for number in range(_FULL_TILES) for name in _TILE),
    *(f"tile_{number}_bytes" for number in range(_FULL_TILES, _RUNS)),
    *(f"traffic_beyond_2^{power}" for power in _CACHES),
    *(f"read_from_{scope}" for scope in _SCOPES),
    *(f"writes_to_{scope}" for scope in _SCOPES),
)
"""The names of the columns. Counts and sizes are log2(|x| + 1), ratios log2; flags are 0 or 1."""


def tile_rows(mod: Any) -> FloatArray:
    """(statements, width) rows of a scheduled module (``tvm.IRModule``), most work first."""
    rows = [statement_row(statement, share) for statement, share in by_work(statements(loop_nest(mod)))]
    return np.array(rows, np.float32).reshape(-1, len(COLUMN_NAMES))


def statement_row(statement: Statement, share: float) -> list[float]:
    """The (104,) row of a statement.

    Args:
        statement: The statement.
        share: Its share of the program's work.
    """
    runs = statement.loop_runs(_RUNS)
    return [
        share,
        slog(statement.node.top_down),
        float(statement.node.is_reduction),
        *(min(getattr(statement.node.operations, name), _MOST_OPERATIONS) for name in _OPERATIONS),
        *_loops(statement),
        *_lane(statement),
        *_unrolled(statement),
        *(slog(run) for run, _ in runs),
        slog(statement.node.top_down / math.prod(run for run, _ in runs)),
        *_tiles(statement, runs),
        *(math.log2(bytes_ / statement.node.top_down + 1e-3) for bytes_ in statement.traffic(_CACHES)),
        *(slog(statement.bytes_read(scope)) for scope in _SCOPES),
        *(float(statement.scope == scope) for scope in _SCOPES),
    ]


def _loops(statement: Statement) -> list[float]:
    products = {kind: statement.product(kind) for kind in _PRODUCTS}
    shared_out = products["parallel"]
    return [
        *(slog(product) for product in products.values()),
        slog(statement.unroll_steps),
        # 1 where the parallel iterations divide evenly; the number of cores where one core has them all.
        *(math.ceil(shared_out / cores) * cores / shared_out for cores in _CORES),
    ]


def _lane(statement: Statement) -> list[float]:
    """Describes the loop whose steps run side by side: vectorised, else over threads, else the innermost."""
    loop, lanes = statement.lane_loop, statement.lanes
    return [
        *_strides(statement, loop),
        *_side_by_side(statement, loop),
        float(loop is not None and loop == statement.chain[0]),
        *(float(lanes % n == 0) for n in _LANES),
        # LLVM widens a vector to the next power of two.
        lanes / (1 << (lanes - 1).bit_length()),
    ]


def _unrolled(statement: Statement) -> list[float]:
    """Describes the first loop left after unrolling, and its body at that point."""
    body, inside, loop = statement.unrolled_body()
    lanes = statement.lanes
    extent = statement.extent(loop)
    if lanes == 1 and loop is not None and statement.write_stride(loop) == 1:
        lanes = extent  # TVM vectorised nothing, but LLVM can
    return [
        *_strides(statement, loop),
        *_side_by_side(statement, loop),
        extent % max(_LANES) / max(_LANES),
        slog(lanes),
        slog(body),
        slog(body * statement.lanes),
        *_side_by_side(statement, inside),
    ]


def _strides(statement: Statement, loop: int | None) -> list[float]:
    if loop is None:
        return [0.0] * len(_STRIDES)
    reads, write = statement.read_strides(loop), statement.write_stride(loop)
    return [
        slog(statement.extent(loop)),
        float(statement.is_reduced_over(loop)),
        slog(write),
        float(write == 1),
        float(sum(stride == 0 for stride in reads)),
        float(sum(stride == 1 for stride in reads)),
        float(sum(stride > 1 for stride in reads)),
    ]


def _side_by_side(statement: Statement, loop: int | None) -> list[float]:
    written, read = statement.side_by_side(loop)
    return [slog(written), slog(min(read, default=0)), slog(max(read, default=0))]


def _tiles(statement: Statement, runs: Sequence[tuple[int, int | None]]) -> list[float]:
    """Describes the data of the tile within each run of loops, the innermost first."""
    values: list[float] = []
    lanes, inside = statement.lanes, 1
    for number, (run, loop) in enumerate(runs):
        inside *= run
        tile = statement.tile(loop)
        values += _full_tile(tile, inside, lanes) if number < _FULL_TILES else [slog(tile.bytes)]
    return values


def _full_tile(tile: Tile, inside: int, lanes: int) -> list[float]:
    loads = tile.contiguous / lanes + tile.broadcast + tile.strided
    return [
        slog(tile.accumulators),
        slog(tile.contiguous),
        slog(tile.broadcast),
        slog(tile.strided),
        slog(tile.bytes),
        math.log2((loads + 1e-3) * lanes / inside),
    ]


SPEC = spec_of_modules(TILES, COLUMN_NAMES, tile_rows, leads=True)
