"""Provides TileShape and tile_ir: sums in the tile registers of Intel's matrix units (AMX), and code for them.

A tile register holds 16 rows of 64 bytes. One instruction, ``tdpbf16ps``, multiplies 16 rows of 16 pairs of bfloat16
by 16 pairs for each of 16 columns, and adds the products to 16 rows of 16 sums in float32 (Intel, "Architecture
Instruction Set Extensions and Future Features", chapter 3). There are eight registers.

Before a process uses tiles it asks Linux for permission (``arch_prctl``, Linux 5.16). Each function that clears sums
does so when it first runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from costhub.errors import WorkloadError

IMAGE, FLAT, LINE, ROWS = "image", "flat", "line", "rows"
"""Forms: one row of an image in a blocked layout, all its rows in one, an image whose few channels are in one row with
its places, and a product's rows."""
ZERO, ADD, STORE = "zero", "add", "store"
STEPS = (ZERO, ADD, STORE)
MOST_LANES = 16
"""Columns of a tile: as many float32 as a row holds."""
MOST_PAIRS = 16
REGISTERS = 8
_MOST_ROWS = 16
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
"""Linux, arch/x86/include/uapi/asm/prctl.h and Documentation/arch/x86/xstate.rst."""


def pairs_at_a_time(depth: int) -> int:
    """The most pairs of a sum of so many that one instruction can add.

    Example:
        >>> pairs_at_a_time(384), pairs_at_a_time(50), pairs_at_a_time(17)
        (16, 10, 1)
    """
    return max(size for size in range(1, MOST_PAIRS + 1) if depth % size == 0)


@dataclass(frozen=True)
class TileShape:
    """The sums that stay in tile registers, and what is added to them at a time.

    Example:
        >>> shape = TileShape("image", blocks=2, places=28, pairs=16, lanes=16, stride=1)
        >>> shape.rows, shape.starts, shape.name("add")
        (14, (0, 14), 'amx_bf16_add_image_2x28x16x16_by1')

    Raises:
        WorkloadError: A size is impossible, or there are not enough registers.
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
        if min(sizes) < 1 or self.pairs > MOST_PAIRS or self.lanes > MOST_LANES:
            raise WorkloadError(f"A tile has 1 to {MOST_LANES} columns and 1 to {MOST_PAIRS} pairs: {sizes} has not.")
        # With one block, each tile of the image is used once, and two registers serve all of them.
        kept = self.tiles if self.blocks > 1 else min(self.tiles, 2)
        if self.sums + kept + 1 > REGISTERS:
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


def tile_ir(step: str, shape: TileShape) -> str:
    """The function in LLVM IR, ``costhub_`` and the name of an intrinsic, that the intrinsic calls.

    Example:
        >>> text = tile_ir("add", TileShape("rows", blocks=1, places=32, pairs=16, lanes=16, stride=1))
        >>> text.count("call void @llvm.x86.tdpbf16ps")
        2
    """
    return _LINKED[step](shape)


def _zero_ir(shape: TileShape) -> str:
    """LLVM IR that clears the sums.

    It configures the registers unless they are configured like that already: that takes as long as 20 products, and
    another library may have configured them differently between two kernels.
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


_LINKED: dict[str, Callable[[TileShape], str]] = {ZERO: _zero_ir, ADD: _add_ir, STORE: _store_ir}
