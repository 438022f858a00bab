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

IMAGE, LINE, ROWS = "image", "line", "rows"
"""Forms: an image in a blocked layout, an image whose few channels are in one row with its places, a product's rows."""
ZERO, ADD, STORE = "zero", "add", "store"
STEPS = (ZERO, ADD, STORE)

REGISTERS_SCOPE = "local"
"""TVM's scope of a buffer that stands for tile registers, and is never read or written itself."""
LANES = 16
"""Columns of a tile: as many float32 as a row holds."""
MOST_PAIRS = 16
REGISTERS = 8
_MOST_ROWS = 16
_NAME = re.compile(r"amx_bf16_(zero|add|store)_(image|line|rows)_(\d{1,2})x(\d{1,3})x(\d{1,2})_by(\d{1,2})")
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
"""Linux, arch/x86/include/uapi/asm/prctl.h and Documentation/arch/x86/xstate.rst."""


@dataclass(frozen=True)
class TileShape:
    """The sums that stay in tile registers, and what is added to them at a time.

    Example:
        >>> shape = TileShape("image", blocks=2, places=28, pairs=16, stride=1)
        >>> shape.rows, shape.name("add")
        ((14, 14), 'amx_bf16_add_image_2x28x16_by1')

    Raises:
        WorkloadError: There are not enough registers.
    """

    form: str
    blocks: int
    """Blocks of 16 columns."""
    places: int
    """Rows of sums."""
    pairs: int
    """Pairs of bfloat16 that are added to each sum at a time, 1 to 16."""
    stride: int
    """Places of the image from one sum to the next; numbers of a line."""

    def __post_init__(self) -> None:
        tiles = len(self.rows)
        fits = min(self.blocks, self.places, self.pairs, self.stride) >= 1 and self.pairs <= MOST_PAIRS
        if not fits or tiles * self.blocks + tiles + 1 > REGISTERS:
            raise WorkloadError(f"Tiles of {self.places} rows and {self.blocks} x 16 columns exceed eight registers.")

    @property
    def rows(self) -> tuple[int, ...]:
        """The rows of each tile, as equal as possible."""
        tiles = -(-self.places // _MOST_ROWS)
        return tuple(self.places // tiles + (i < self.places % tiles) for i in range(tiles))

    @property
    def columns(self) -> int:
        """Columns of sums."""
        return self.blocks * LANES

    def name(self, step: str) -> str:
        """The name of an intrinsic."""
        return f"amx_bf16_{step}_{self.form}_{self.blocks}x{self.places}x{self.pairs}_by{self.stride}"


def register_tiles(text: str) -> None:
    """Registers each intrinsic of this module that a text names, such as a trace or the records of a database.

    Example:
        >>> register_tiles('["Tensorize", ["b7", "amx_bf16_zero_rows_2x32x16_by1"]]')
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

    extents = [shape.places, shape.columns] if shape.form == ROWS else [shape.blocks, shape.places, LANES]
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
    index = place if shape.form == ROWS else [place[0], 0, *place[1:]]
    if step == ZERO:
        T.buffer_store(buffers[0], T.float32(0), index)
    elif step == STORE:
        T.buffer_store(buffers[1], buffers[0][tuple(index)], index)
    else:
        image, weights, sums = buffers
        row, lane = place[-2:]
        if shape.form == IMAGE:
            factors = image[row * shape.stride, pair], weights[place[0], 0, 0, 0, pair, lane]
        elif shape.form == LINE:
            factors = image[row * shape.stride + pair], weights[place[0], 0, pair, lane]
        else:
            block, lane = (lane // LANES, lane % LANES) if shape.blocks > 1 else (0, lane)
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
            with T.attr(T.int32(0), "pragma_import_llvm", _LINKED[step](shape)):
                T.evaluate(T.call_extern("int32", f"costhub_{shape.name(step)}", *given))
    return builder.get()


def _arguments(shape: TileShape, step: str) -> tuple[list[Any], list[Any]]:
    """The arguments of an intrinsic, and the distances in numbers that its function takes."""
    import tvm
    from tvm.tirx.script.builder import ir as T

    row, block, *others = (tvm.tirx.Var(name, "int32") for name in ("row", "block", "second", "third", "fourth"))

    def given(name: str, extents: list[int], strides: list[Any] | None = None, scope: str = "global") -> Any:
        return T.arg(name, T.buffer(extents, "float32", strides=strides, scope=scope, offset_factor=1))

    in_image, last = shape.form != ROWS, (shape.places - 1) * shape.stride
    extents = [shape.blocks, 1, shape.places, LANES] if in_image else [shape.places, shape.columns]
    if step == ADD:
        if shape.form == LINE:
            image, distance = given("image", [last + shape.pairs], [1]), shape.stride
        else:
            image, distance = given("image", [last + 1, shape.pairs], [row, 1]), row * shape.stride
        ones = [1] * {IMAGE: 3, LINE: 1, ROWS: 0}[shape.form]
        strides = [block, *others[: len(ones)], LANES, 1]
        weights = given("weights", [shape.blocks, *ones, shape.pairs, LANES], strides)
        return [image, weights, given("sums", extents, scope=REGISTERS_SCOPE)], [distance, block]
    sums = given("sums", extents, scope=REGISTERS_SCOPE)
    if step == ZERO:
        return [sums], []
    out = given("out", extents, [block, others[0], LANES, 1] if in_image else [row, 1])
    return [sums, out], [LANES, block] if in_image else [row, LANES]


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
    name, sums = f"costhub_{shape.name(ZERO)}", len(shape.rows) * shape.blocks
    text = "".join(f"\\{byte:02X}" for byte in _configuration(shape))
    cleared = "\n  ".join(f"call void @llvm.x86.tilezero(i8 {register})" for register in range(sums))
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
    tiles, sums = len(shape.rows), len(shape.rows) * shape.blocks
    row_bytes, rows = [4 * LANES] * 16, [shape.pairs] * 16
    for register in range(16):
        if register < sums + tiles:
            rows[register] = shape.rows[register % tiles]
        if sums <= register < sums + tiles:
            row_bytes[register] = 4 * shape.pairs
        if register >= REGISTERS:
            row_bytes[register] = rows[register] = 0
    return bytes([1, *[0] * 15]) + b"".join(n.to_bytes(2, "little") for n in row_bytes) + bytes(rows)


def _add_ir(shape: TileShape) -> str:
    """LLVM IR that loads each tile of both factors once, and multiplies each with each.

    Its arguments: the image's first number and the distance of its rows, the same of the weights' blocks, in numbers.
    """
    tiles, sums = len(shape.rows), len(shape.rows) * shape.blocks
    lines = ["%bytes = shl i64 %by, 2"]
    first = 0
    for tile, rows in enumerate(shape.rows):
        lines += [f"%r{tile} = mul i64 %bytes, {first}", f"%a{tile} = getelementptr i8, ptr %a, i64 %r{tile}"]
        lines.append(f"call void @llvm.x86.tileloadd64(i8 {sums + tile}, ptr %a{tile}, i64 %bytes)")
        first += rows
    for block in range(shape.blocks):
        register = sums + tiles + block % (REGISTERS - sums - tiles)
        lines += [f"%s{block} = mul i64 %step, {block}", f"%b{block} = getelementptr float, ptr %b, i64 %s{block}"]
        lines.append(f"call void @llvm.x86.tileloadd64(i8 {register}, ptr %b{block}, i64 {4 * LANES})")
        lines += [
            f"call void @llvm.x86.tdpbf16ps(i8 {block * tiles + tile}, i8 {sums + tile}, i8 {register})"
            for tile in range(tiles)
        ]
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
    tiles = len(shape.rows)
    lines = ["%bytes = shl i64 %by, 2"]
    for block in range(shape.blocks):
        lines += [f"%s{block} = mul i64 %step, {block}", f"%o{block} = getelementptr float, ptr %out, i64 %s{block}"]
        first = 0
        for tile, rows in enumerate(shape.rows):
            place, register = f"{block}_{tile}", block * tiles + tile
            lines += [f"%r{place} = mul i64 %bytes, {first}"]
            lines += [f"%p{place} = getelementptr i8, ptr %o{block}, i64 %r{place}"]
            lines.append(f"call void @llvm.x86.tilestored64(i8 {register}, ptr %p{place}, i64 %bytes)")
            first += rows
    body = "\n  ".join(lines)
    return f"""
declare void @llvm.x86.tilestored64(i8, ptr, i64)
define internal i32 @costhub_{shape.name(STORE)}(ptr %out, i64 %by, i64 %step) alwaysinline nounwind {{
  {body}
  ret i32 0
}}
"""


_LINKED: dict[str, Callable[[TileShape], str]] = {ZERO: _zero_ir, ADD: _add_ir, STORE: _store_ir}
