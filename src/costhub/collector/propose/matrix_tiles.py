"""Provides tile_convolution, tile_product and TensorizeTiles: products of pairs of bfloat16 in matrix units.

The shape is that of `register_tiles`: a tile of sums stays in registers while the loops over input channels and the
filter run. Here the registers are those of Intel's AMX, and a step of the reduction is an instruction for 16 by 16
sums (`costhub.dataset.tile_intrinsics`), so the sums get a buffer of their own, which stands for the registers.

Which intrinsic fits depends on the tile, which the search changes. So blocks are only marked here, and a step after
all decisions, `TensorizeTiles`, names the intrinsics.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from costhub.dataset.tile_intrinsics import REGISTERS_SCOPE, TABLE_LOCK, register_tile
from costhub.dataset.tile_ir import ADD, FLAT, IMAGE, LINE, ROWS, STORE, ZERO, TileShape, pairs_at_a_time
from costhub.errors import WorkloadError

MARK = "costhub.tile"
"""Annotation of a block that an intrinsic computes: a step, a form, and of sums the places that stay together."""
SHAPES = ((2, 32), (4, 16), (1, 64))
"""Most blocks of columns and most places of a tile: any two sizes up to these leave registers for the factors."""
_TILED = "meta_schedule.tiling_structure"
_FEW_ROWS = 7
_LINE_AXES, _FLAT_AXES = 4, 4
"""Axes of the weights of an image with few channels, and of sums without rows (``bfloat16_images``)."""


def tile_convolution(schedule: Any, block: Any, last: Any, *, rows_first: bool, most: tuple[int, int]) -> None:
    """Tiles a convolution of pairs.

    Args:
        schedule: A ``Schedule`` that records a trace.
        block: The convolution, with or without an axis for the rows of its outputs.
        last: The block that computes the output from its sums, or the convolution itself.
        rows_first: Whether the outermost loop runs over rows (over places, if there are no rows) rather than blocks
            of channels.
        most: One of `SHAPES`.
    """
    weights, axes = schedule.get(block).reads[1].source.shape, len(schedule.get(block).writes[0].source.shape)
    form, pairs = _form(len(weights), axes), pairs_at_a_time(int(weights[-2]))
    stored = schedule.cache_write(block, 0, REGISTERS_SCOPE)
    end = stored if _same(schedule, last, block) else last
    image, chunk, *rows, place, lane = schedule.get_loops(end)
    chunks, few_chunks = schedule.split(chunk, schedule.sample_perfect_tile(chunk, 2, most[0]))
    unit = 1
    if form == FLAT and rows:
        # Whole rows of the output: TVM cannot compute the sums of a part of one where they are used.
        (row,), rows, unit = rows, [], int(schedule.get(place).extent)
        few_rows = max(1, most[1] // unit)
        places, few_places = schedule.split(row, schedule.sample_perfect_tile(row, 2, few_rows))
        few_places = schedule.fuse(few_places, place)
    else:
        places, few_places = schedule.split(place, schedule.sample_perfect_tile(place, 2, most[1]))
    outer = [image, *(rows or [places]), chunks] if rows_first else [image, chunks, *(rows or [places])]
    outer += [places] if rows else []
    schedule.reorder(*outer, few_chunks, few_places, lane)
    if end is not stored:
        schedule.compute_at(stored, outer[-1], preserve_unit_loops=True)
        _, few_chunks, *row, few_places, inner_lane = schedule.get_loops(stored)[-axes:]
        schedule.reorder(*row, few_chunks, few_places, inner_lane)
        schedule.vectorize(lane)
    _mark(schedule, stored, few_chunks, f"{STORE} {form}")
    schedule.compute_at(block, outer[-1], preserve_unit_loops=True)
    own = schedule.get_loops(block)[len(outer) :]
    (_, chunk, *row, place, lane), (channel, *filter_loops) = own[:axes], own[axes:]
    channels, some = schedule.split(channel, [None, pairs])
    schedule.reorder(*row, channels, *filter_loops, chunk, place, lane, some)
    _mark(schedule, block, chunk, f"{ADD} {form} {unit}")


def _form(of_weights: int, of_sums: int) -> str:
    """The form of a convolution, by the numbers of axes."""
    if of_sums == _FLAT_AXES:
        return FLAT
    return LINE if of_weights == _LINE_AXES else IMAGE


def tile_product(schedule: Any, block: Any, last: Any, *, rows_first: bool, most: tuple[int, int]) -> None:
    """Tiles a packed product of pairs, or one for each head; for the arguments, see `tile_convolution`."""
    *_, depth, lanes = (int(n) for n in schedule.get(block).reads[1].source.shape)
    pairs = pairs_at_a_time(depth)
    stored = schedule.cache_write(block, 0, REGISTERS_SCOPE)
    end = stored if _same(schedule, last, block) else last
    *heads, row, column = schedule.get_loops(end)
    chunk, lane = schedule.split(column, [None, lanes])
    chunks, few_chunks = schedule.split(chunk, schedule.sample_perfect_tile(chunk, 2, most[0]))
    places, few_rows = schedule.split(row, schedule.sample_perfect_tile(row, 2, most[1]))
    outer = [*heads, *([places, chunks] if rows_first else [chunks, places])]
    schedule.reorder(*outer, few_rows, few_chunks, lane)
    if end is stored:
        schedule.fuse(few_chunks, lane)
    else:
        schedule.compute_at(stored, outer[-1], preserve_unit_loops=True)
        few_rows, _ = schedule.get_loops(stored)[-2:]
        schedule.vectorize(lane)
    _mark(schedule, stored, few_rows, f"{STORE} {ROWS}")
    schedule.compute_at(block, outer[-1], preserve_unit_loops=True)
    row, column, k = schedule.get_loops(block)[-3:]
    some, own = schedule.split(k, [None, pairs])
    schedule.reorder(some, row, column, own)
    _mark(schedule, block, row, f"{ADD} {ROWS} 1")


def _same(schedule: Any, one: Any, other: Any) -> bool:
    return bool(schedule.get(one).name_hint == schedule.get(other).name_hint)


def _mark(schedule: Any, block: Any, loop: Any, mark: str) -> None:
    """Makes a block of a loop, and notes for `TensorizeTiles` what it does."""
    schedule.annotate(block, _TILED, "SRS")
    schedule.annotate(schedule.blockize(loop), MARK, mark)


@cache
def tensorize_tiles() -> Any:
    """The class of the last step, created on first use, since this module is imported without TVM."""
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule.postproc import PyPostproc

    @derived_object
    class TensorizeTiles(PyPostproc):  # type: ignore[misc]
        """Gives each marked block the intrinsic of its sizes."""

        def _initialize_with_tune_context(self, context: Any) -> None:
            """Called by TVM; the step is the same for all targets."""

        def clone(self) -> Any:
            """Called by TVM for each thread; the step has no state."""
            return tensorize_tiles()()

        def apply(self, schedule: Any) -> bool:
            """Whether all marked blocks have an intrinsic now."""
            return tensorized(schedule)

    return TensorizeTiles


def tensorized(schedule: Any) -> bool:
    """Replaces the marked blocks of a schedule by intrinsics; false if a tile exceeds the registers or wastes them."""
    import tvm
    from tvm_ffi import structural_walk

    marked: dict[str, str] = {}

    def look(block: Any) -> None:
        if MARK in block.annotations:
            marked[block.name_hint] = str(block.annotations[MARK])

    structural_walk(schedule.mod["main"].body, (tvm.s_tir.SBlock, look))
    # TVM has split the initialisation off the reduction, as a block with the same mark.
    steps = {name: ZERO if name.endswith("_init") else mark.split()[0] for name, mark in marked.items()}
    added = next((name for name, step in steps.items() if step == ADD), None)
    if added is None:
        return not marked
    block, (_, form, unit) = schedule.get(schedule.get_sblock(added)), marked[added].split()
    try:
        shape = _shape(block, form)
        if shape.rows < _fewest_rows(block, shape, int(unit)):
            return False
        with TABLE_LOCK:
            for name, step in steps.items():
                made = schedule.get_sblock(name)
                schedule.unannotate(made, MARK)
                schedule.tensorize(made, register_tile(step, shape))
    except (WorkloadError, tvm.s_tir.ScheduleError):
        return False
    return True


def _fewest_rows(block: Any, shape: TileShape, unit: int) -> int:
    """Rows that a tile should have: an instruction takes about as long for a few as for all 16."""
    all_places = _extent(block.writes[0].source.shape[-2])
    most = max(unit, SHAPES[-1][1])
    possible = [n for n in range(unit, most + 1, unit) if all_places % n == 0]
    return min(_FEW_ROWS, max(replace(shape, blocks=1, places=n).rows for n in possible))


def _shape(block: Any, form: str) -> TileShape:
    """The sizes of a block that adds products: from the regions that it reads and writes."""
    (sums,) = ([_extent(r.extent) for r in region.region] for region in block.writes)
    image, weights = (region for region in block.reads if region.source.scope() != REGISTERS_SCOPE)
    pairs, lanes = _extent(weights.region[-2].extent), _extent(weights.source.shape[-1])
    last = _extent(image.region[-1].extent) - pairs if form == LINE else _extent(image.region[-2].extent) - 1
    blocks, places = (sums[-1] // lanes, sums[-2]) if form == ROWS else (sums[1], sums[-2])
    return TileShape(form, blocks, places, pairs, lanes, last // (places - 1) if places > 1 else 1)


def _extent(extent: Any) -> int:
    """An extent as a number.

    Raises:
        WorkloadError: It differs from place to place.
    """
    import tvm

    if not isinstance(extent, tvm.tirx.IntImm):
        raise WorkloadError(f"A tile of {extent} places has no intrinsic.")
    return int(extent)
