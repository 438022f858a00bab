"""Provides register_tiles: tensor intrinsics for the matrix units of Intel's CPUs (AMX), in bfloat16.

They keep several tiles of sums in registers while a reduction runs (`costhub.dataset.tile_ir`): one clears them, one
adds products, one stores them.

TVM finds a tensor intrinsic by its name, and the size of tiles is part of it. There are hundreds of sizes, so each is
registered when a search or a trace first names it.
"""

from __future__ import annotations

import re
import threading
from functools import cache
from pathlib import Path
from typing import Any

from costhub.dataset.tile_ir import ADD, FLAT, IMAGE, LINE, ROWS, STORE, ZERO, TileShape, tile_ir

VECTORS, MATRICES = "vectors", "matrices"
"""What multiplies pairs of bfloat16."""
_UNIT_AXES = {IMAGE: (1, 3), FLAT: (0, 3), LINE: (1, 1), ROWS: (0, 0)}
"""How many axes of extent 1 follow the axis of blocks: in the sums, and in the weights."""
REGISTERS_SCOPE = "local"
"""TVM's scope of a buffer that stands for tile registers, and is never read or written itself."""
_NAME = re.compile(
    r"amx_bf16_(zero|add|store)_(image|flat|line|rows)_(\d{1,9})x(\d{1,9})x(\d{1,9})x(\d{1,9})_by(\d{1,9})(?!\d)"
)


TABLE_LOCK = threading.RLock()
"""TVM's table of intrinsics has no lock: hold this one while a thread may register an intrinsic, or look one up."""


def has_matrix_units(target: Any) -> bool:
    """Whether a target (``tvm.target.Target``) multiplies tiles of bfloat16.

    Example:
        >>> import tvm
        >>> has_matrix_units(tvm.target.Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "znver4"}))
        False
    """
    import tvm

    return target.kind.name == "llvm" and bool(tvm.target.codegen.target_has_features("amx-bf16", target))


def register_tiles(text: str) -> None:
    """Registers each intrinsic of this module that a text names, such as a trace or the records of a database.

    Raises:
        WorkloadError: It names tiles that cannot be.

    Example:
        >>> register_tiles('["Tensorize", ["b7", "amx_bf16_zero_rows_2x32x16x16_by1"]]')
    """
    for found in sorted(set(_NAME.findall(text))):
        step, form, *sizes = found
        register_tile(step, TileShape(form, *map(int, sizes)))


def register_tiles_of(database: Path) -> None:
    """Registers each intrinsic of this module that the traces of a MetaSchedule database name, if there are any.

    Args:
        database: The folder of the database.

    Raises:
        WorkloadError: As for `register_tiles`.

    Example:
        >>> register_tiles_of(Path("no-such-folder"))
    """
    records = database / "database_tuning_record.json"
    if records.exists():
        with records.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                register_tiles(line)


def register_tile(step: str, shape: TileShape) -> str:
    """Registers an intrinsic, and returns its name.

    Args:
        step: ``zero``, ``add`` or ``store``.
        shape: The sizes.
    """
    with TABLE_LOCK:
        return _registered(step, shape)


@cache
def _registered(step: str, shape: TileShape) -> str:
    from tvm.s_tir import TensorIntrin

    name = shape.name(step)
    TensorIntrin.register(name, _described(shape, step), _computed(shape, step), override=True)
    return name


def _described(shape: TileShape, step: str) -> Any:
    """What TVM looks for in a schedule: loops over the sums, in the order in which `matrix_tiles` leaves them.

    A loop of one step has no variable of its own there, so it has none here.
    """
    from tvm.script.ir_builder import IRBuilder
    from tvm.tirx.script.builder import ir as T

    extents = [shape.places, shape.columns] if shape.form == ROWS else [shape.blocks, shape.places, shape.lanes]
    axes = [T.axis.spatial] * len(extents)
    if step == ADD:
        extents, axes = [*extents, shape.pairs], [*axes, T.axis.reduce]
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("described")
        buffers, _ = _arguments(shape, step)
        with T.sblock("root"):
            _regions(buffers, step)
            # When TVM splits the initialisation off a reduction, it drops loops that run once.
            kept = [n for n in extents if n > 1 or step != ZERO]
            with T.grid(*kept) as loops, T.sblock("step"):
                left = iter([loops] if len(kept) == 1 else loops)
                found = [next(left) if n > 1 or step != ZERO else None for n in extents]
                at = [axis(n, loop) if n > 1 else 0 for axis, n, loop in zip(axes, extents, found, strict=True)]
                _statement(shape, step, buffers, at)
    return builder.get()


def _statement(shape: TileShape, step: str, buffers: list[Any], at: list[Any]) -> None:
    """What one step of the loops does to one sum."""
    from tvm.tirx.script.builder import ir as T

    place, pair = at[: len(at) - (step == ADD)], at[-1]
    index = [place[0], *[0] * _UNIT_AXES[shape.form][0], *place[1:]]
    if step == ZERO:
        T.buffer_store(buffers[0], T.float32(0), index)
    elif step == STORE:
        T.buffer_store(buffers[1], buffers[0][tuple(index)], index)
    else:
        image, weights, sums = buffers
        row, lane = place[-2:]
        if shape.form in (IMAGE, FLAT):
            factors = image[row * shape.stride, pair], weights[place[0], 0, 0, 0, pair, lane]
        elif shape.form == LINE:
            factors = image[row * shape.stride + pair], weights[place[0], 0, pair, lane]
        else:
            block, lane = (lane // shape.lanes, lane % shape.lanes) if shape.blocks > 1 else (0, lane)
            factors = image[row, pair], weights[block, pair, lane]
        T.buffer_store(sums, sums[tuple(index)] + _product(*factors), index)


def _computed(shape: TileShape, step: str) -> Any:
    """A call of the function in LLVM IR that does the same, which TVM links in."""
    from tvm.script.ir_builder import IRBuilder
    from tvm.tirx.script.builder import ir as T

    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("computed")
        buffers, distances = _arguments(shape, step)
        pointers = [one.access_ptr("w" if step == STORE else "r") for one in buffers if one.scope() != REGISTERS_SCOPE]
        given = []
        for number, distance in enumerate(distances):
            given += [pointers[number]] if step == ADD or number == 0 else []
            given.append(T.Cast("int64", distance))
        with T.sblock("root"):
            _regions(buffers, step)
            with T.attr(T.int32(0), "pragma_import_llvm", tile_ir(step, shape)):
                T.evaluate(T.call_extern("int32", f"costhub_{shape.name(step)}", *given))
    return builder.get()


def _arguments(shape: TileShape, step: str) -> tuple[list[Any], list[Any]]:
    """The arguments of an intrinsic, and the distances in numbers that its function takes."""
    import tvm
    from tvm.tirx.script.builder import ir as T

    row, block, *others = (tvm.tirx.Var(name, "int32") for name in ("row", "block", "second", "third", "fourth"))

    def given(name: str, extents: list[int], strides: list[Any] | None = None, scope: str = "global") -> Any:
        return T.arg(name, T.buffer(extents, "float32", strides=strides, scope=scope, offset_factor=1))

    last, (of_sums, of_weights) = (shape.places - 1) * shape.stride, _UNIT_AXES[shape.form]
    extents = [shape.blocks, *[1] * of_sums, shape.places, shape.lanes]
    if shape.form == ROWS:
        extents = [shape.places, shape.columns]
    if step == ADD:
        if shape.form == LINE:
            image, distance = given("image", [last + shape.pairs], [1]), shape.stride
        else:
            image, distance = given("image", [last + 1, shape.pairs], [row, 1]), row * shape.stride
        strides = [block, *others[:of_weights], shape.lanes, 1]
        weights = given("weights", [shape.blocks, *[1] * of_weights, shape.pairs, shape.lanes], strides)
        return [image, weights, given("sums", extents, scope=REGISTERS_SCOPE)], [distance, block]
    sums = given("sums", extents, scope=REGISTERS_SCOPE)
    if step == ZERO:
        return [sums], []
    if shape.form == ROWS:
        return [sums, given("out", extents, [row, 1])], [row, shape.lanes]
    return [sums, given("out", extents, [block, *others[:of_sums], shape.lanes, 1])], [shape.lanes, block]


def _regions(buffers: list[Any], step: str) -> None:
    """Declares that an intrinsic reads its arguments and writes the last one, all of it."""
    from tvm.tirx.script.builder import ir as T

    whole = [buffer[tuple(slice(0, n) for n in buffer.shape)] for buffer in buffers]
    # TVM lists what is read in the order of the expression: the sums first.
    T.reads(*([] if step == ZERO else whole[:1] if step == STORE else [whole[2], *whole[:2]]))
    T.writes(whole[-1])


def _product(a: Any, b: Any) -> Any:
    """The expression of `costhub.collector.workloads.bfloat16_pairs.product_of_pairs`."""
    from tvm import tirx

    def low(x: Any) -> Any:
        return tirx.reinterpret("float32", tirx.reinterpret("uint32", x) << tirx.const(16, "uint32"))

    def high(x: Any) -> Any:
        return tirx.reinterpret("float32", tirx.reinterpret("uint32", x) & tirx.const(0xFFFF0000, "uint32"))

    return low(a) * low(b) + high(a) * high(b)
