"""Provides register_tiles: tensor intrinsics for the matrix units of Intel's CPUs (AMX), in bfloat16.

A tile register holds 16 rows of 64 bytes. One instruction, ``tdpbf16ps``, multiplies 16 rows of 16 pairs of bfloat16
by 16 pairs for each of 16 columns and adds the products to 16 rows of 16 sums in float32 (Intel, "Architecture
Instruction Set Extensions and Future Features", chapter 3). There are eight registers. The intrinsics of this module
keep several tiles of sums in them while a reduction runs: one clears them, one adds products, one stores them.

TVM finds a tensor intrinsic by its name, and the size of tiles is part of it. There are hundreds of sizes, so each is
registered when a search or a trace first names it.

Before a process uses tiles it asks Linux for permission (``arch_prctl``, Linux 5.16); the code that clears the sums
does so when it first runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from costhub.errors import WorkloadError

VECTORS, MATRICES = "vectors", "matrices"
"""What multiplies pairs of bfloat16."""
IMAGE, FLAT, LINE, ROWS = "image", "flat", "line", "rows"
"""Forms: one row of an image in a blocked layout, all its rows in one, an image whose few channels are in one row with
its places, and a product's rows."""
_UNIT_AXES = {IMAGE: (1, 3), FLAT: (0, 3), LINE: (1, 1), ROWS: (0, 0)}
"""Axes of one step behind the blocks of sums, and of weights."""
ZERO, ADD, STORE = "zero", "add", "store"
STEPS = (ZERO, ADD, STORE)

REGISTERS_SCOPE = "local"
"""TVM's scope of a buffer that stands for tile registers, and is never read or written itself."""
MOST_LANES = 16
"""Columns of a tile: as many float32 as a row holds."""
MOST_PAIRS = 16
REGISTERS = 8
_MOST_ROWS = 16
_NAME = re.compile(
    r"amx_bf16_(zero|add|store)_(image|flat|line|rows)_(\d{1,2})x(\d{1,3})x(\d{1,2})x(\d{1,2})_by(\d{1,2})"
)
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
"""Linux, arch/x86/include/uapi/asm/prctl.h and Documentation/arch/x86/xstate.rst."""


def has_matrix_units(target: Any) -> bool:
    """Whether a target (``tvm.target.Target``) multiplies tiles of bfloat16.

    Example:
        >>> import tvm
        >>> has_matrix_units(tvm.target.Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "znver4"}))
        False
    """
    import tvm

    return target.kind.name == "llvm" and bool(tvm.target.codegen.target_has_features("amx-bf16", target))


@dataclass(frozen=True)
class TileShape:
    """The sums that stay in tile registers, and what is added to them at a time.

    Example:
        >>> shape = TileShape("image", blocks=2, places=28, pairs=16, lanes=16, stride=1)
        >>> shape.rows, shape.starts, shape.name("add")
        (14, (0, 14), 'amx_bf16_add_image_2x28x16x16_by1')

    Raises:
        WorkloadError: There are not enough registers.
    """

    form: str
    blocks: int
    """Blocks of columns."""
    places: int
    """Rows of sums."""
    pairs: int
    """Pairs of bfloat16 that are added to each sum at a time, 1 to 16."""
    lanes: int
    """Columns of a block, 1 to 16."""
    stride: int
    """Places of the image from one sum to the next; numbers of a line."""

    def __post_init__(self) -> None:
        sizes = (self.blocks, self.places, self.pairs, self.lanes, self.stride)
        fits = min(sizes) >= 1 and self.pairs <= MOST_PAIRS and self.lanes <= MOST_LANES
        # With one block, each tile of the image is used once, and two registers serve all of them.
        kept = self.tiles if self.blocks > 1 else min(self.tiles, 2)
        if not fits or self.sums + kept + 1 > REGISTERS:
            raise WorkloadError(
                f"Tiles of {self.places} rows and {self.blocks} x {self.lanes} columns exceed eight registers."
            )

    @property
    def tiles(self) -> int:
        """Tiles of a block."""
        return -(-self.places // _MOST_ROWS)

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return -(-self.places // self.tiles)

    @property
    def starts(self) -> tuple[int, ...]:
        """The first place of each tile; tiles overlap if they do not divide the places."""
        return tuple(i * (self.places - self.rows) // max(1, self.tiles - 1) for i in range(self.tiles))

    @property
    def sums(self) -> int:
        """Registers of sums."""
        return self.tiles * self.blocks

    @property
    def columns(self) -> int:
        """Columns of sums."""
        return self.blocks * self.lanes

    def name(self, step: str) -> str:
        """The name of an intrinsic."""
        return f"amx_bf16_{step}_{self.form}_{self.blocks}x{self.places}x{self.pairs}x{self.lanes}_by{self.stride}"


def register_tiles(text: str) -> None:
    """Registers each intrinsic of this module that a text names, such as a trace or the records of a database.

    Example:
        >>> register_tiles('["Tensorize", ["b7", "amx_bf16_zero_rows_2x32x16x16_by1"]]')
    """
    for found in sorted(set(_NAME.findall(text))):
        step, form, *sizes = found
        register_tile(step, TileShape(form, *map(int, sizes)))


@cache
def register_tile(step: str, shape: TileShape) -> str:
    """Registers an intrinsic, and returns its name.

    Args:
        step: ``zero``, ``add`` or ``store``.
        shape: The sizes.
    """
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
            # TVM leaves loops of one step out where it takes the first values out of a reduction.
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


def _zero_ir(shape: TileShape) -> str:
    """LLVM IR that clears the sums.

    It configures the registers unless they are configured like that already: that takes as long as 20 products, and
    another library may have configured them differently between two kernels. It asks for permission once.
    """
    name = f"costhub_{shape.name(ZERO)}"
    text = "".join(f"\\{byte:02X}" for byte in _configuration(shape))
    cleared = "\n  ".join(f"call void @llvm.x86.tilezero(i8 {register})" for register in range(shape.sums))
    return f"""
@{name}_configuration = internal constant [64 x i8] c"{text}", align 64
@{name}_permitted = internal global i8 0
declare void @llvm.x86.ldtilecfg(ptr)
declare void @llvm.x86.sttilecfg(ptr)
declare void @llvm.x86.tilezero(i8)
define internal i32 @{name}() alwaysinline nounwind {{
  %found = alloca <16 x i32>, align 64
  %known = load i8, ptr @{name}_permitted
  %first = icmp eq i8 %known, 0
  br i1 %first, label %ask, label %compare
ask:
  %answer = call i64 asm sideeffect "syscall",
    "={{rax}},{{rax}},{{rdi}},{{rsi}},~{{rcx}},~{{r11}},~{{memory}},~{{dirflag}},~{{fpsr}},~{{flags}}"
    (i64 {_ARCH_PRCTL}, i64 {_REQUEST_PERMISSION}, i64 {_TILE_DATA})
  store i8 1, ptr @{name}_permitted
  br label %compare
compare:
  call void @llvm.x86.sttilecfg(ptr %found)
  %is = load <16 x i32>, ptr %found, align 64
  %wanted = load <16 x i32>, ptr @{name}_configuration, align 64
  %differ = icmp ne <16 x i32> %is, %wanted
  %bits = bitcast <16 x i1> %differ to i16
  %other = icmp ne i16 %bits, 0
  br i1 %other, label %configure, label %clear
configure:
  call void @llvm.x86.ldtilecfg(ptr @{name}_configuration)
  br label %clear
clear:
  {cleared}
  ret i32 0
}}
"""


def _configuration(shape: TileShape) -> bytes:
    """What ``ldtilecfg`` reads: bytes of a row and rows of each register."""
    row_bytes, rows = [4 * shape.lanes] * REGISTERS, [shape.pairs] * REGISTERS
    for register in range(_first_of_weights(shape)):
        rows[register] = shape.rows
    for register in range(shape.sums, _first_of_weights(shape)):
        row_bytes[register] = 4 * shape.pairs
    unused = 16 - REGISTERS
    widths = b"".join(n.to_bytes(2, "little") for n in [*row_bytes, *[0] * unused])
    return bytes([1, *[0] * 15]) + widths + bytes([*rows, *[0] * unused])


def _first_of_weights(shape: TileShape) -> int:
    """The first register of weights; before it are those of sums, then those of the image."""
    if shape.blocks > 1:
        return shape.sums + shape.tiles
    return min(shape.sums + shape.tiles, REGISTERS - 1)


def _add_ir(shape: TileShape) -> str:
    """LLVM IR that loads each tile of both factors once, and multiplies each with each.

    Its arguments: the image's first number and the distance of its rows, the same of the weights' blocks, in numbers.
    """
    lines = ["%bytes = shl i64 %by, 2"]
    of_image = _first_of_weights(shape) - shape.sums
    for block in range(shape.blocks):
        weights = shape.sums + of_image + block % (REGISTERS - shape.sums - of_image)
        lines += [f"%s{block} = mul i64 %step, {block}", f"%b{block} = getelementptr float, ptr %b, i64 %s{block}"]
        lines.append(f"call void @llvm.x86.tileloadd64(i8 {weights}, ptr %b{block}, i64 {4 * shape.lanes})")
        for tile, start in enumerate(shape.starts):
            image = shape.sums + tile % of_image
            if block == 0:
                lines += [f"%r{tile} = mul i64 %bytes, {start}", f"%a{tile} = getelementptr i8, ptr %a, i64 %r{tile}"]
                lines.append(f"call void @llvm.x86.tileloadd64(i8 {image}, ptr %a{tile}, i64 %bytes)")
            lines.append(f"call void @llvm.x86.tdpbf16ps(i8 {block * shape.tiles + tile}, i8 {image}, i8 {weights})")
    body = "\n  ".join(lines)
    return f"""
declare void @llvm.x86.tileloadd64(i8, ptr, i64)
declare void @llvm.x86.tdpbf16ps(i8, i8, i8)
define internal i32 @costhub_{shape.name(ADD)}(ptr %a, i64 %by, ptr %b, i64 %step) alwaysinline nounwind {{
  {body}
  ret i32 0
}}
"""


def _store_ir(shape: TileShape) -> str:
    """LLVM IR that stores the sums, given the first one and the distances of rows and blocks, in numbers."""
    lines = ["%bytes = shl i64 %by, 2"]
    for block in range(shape.blocks):
        lines += [f"%s{block} = mul i64 %step, {block}", f"%o{block} = getelementptr float, ptr %out, i64 %s{block}"]
        for tile, start in enumerate(shape.starts):
            place, register = f"{block}_{tile}", block * shape.tiles + tile
            lines += [f"%r{place} = mul i64 %bytes, {start}"]
            lines += [f"%p{place} = getelementptr i8, ptr %o{block}, i64 %r{place}"]
            lines.append(f"call void @llvm.x86.tilestored64(i8 {register}, ptr %p{place}, i64 %bytes)")
    body = "\n  ".join(lines)
    return f"""
declare void @llvm.x86.tilestored64(i8, ptr, i64)
define internal i32 @costhub_{shape.name(STORE)}(ptr %out, i64 %by, i64 %step) alwaysinline nounwind {{
  {body}
  ret i32 0
}}
"""


def tile_ir(step: str, shape: TileShape) -> str:
    """The function in LLVM IR, ``costhub_`` and the name of an intrinsic, that the intrinsic calls."""
    return _LINKED[step](shape)


_LINKED: dict[str, Callable[[TileShape], str]] = {ZERO: _zero_ir, ADD: _add_ir, STORE: _store_ir}
