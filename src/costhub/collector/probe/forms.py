"""Provides Arithmetic and its forms: the ways in which devices multiply and add, as updates of accumulators.

Every form keeps its floating-point accumulators finite, the products being too small to change them: infinities and
denormals may run at another speed. Each update takes a neighbouring accumulator, since a product of two constants
would be computed once, before the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

_MADD = {
    128: ("llvm.x86.ssse3.pmadd.ub.sw.128", "llvm.x86.sse2.pmadd.wd"),
    256: ("llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx2.pmadd.wd"),
    512: ("llvm.x86.avx512.pmaddubs.w.512", "llvm.x86.avx512.pmaddw.d.512"),
}
# Two numbers in 32 bits, 1.5 twice, and twice a factor too small to change it; TVM splits up pairs on a GPU.
_PAIRS = {"float16": ("f16x2", 0x3E003E00, 0x08000800), "bfloat16": ("bf16x2", 0x3FC03FC0, 0x30803080)}

_TILE_ROUNDS = 16
"""So many that clearing the registers, before them, takes no time to speak of."""

Update = Callable[[Any, Any, Any], Any]
"""(an accumulator, its neighbour, a factor) -> the accumulator's new value, as expressions of TIR."""


@dataclass(frozen=True)
class Arithmetic:
    """One way of multiplying and adding."""

    accumulator: str
    """dtype of the accumulators."""
    lanes: int
    """Accumulators in one register."""
    chains: int
    """Registers of accumulators: enough to hide the latency, few enough to stay registers."""
    operations: int
    """Multiplications and additions in one update of one lane."""
    update: Update
    start: Any
    """Initial value of the accumulators."""
    factor: Any
    """The factor they are multiplied by."""
    instruction: str
    """Regular expression that the assembly has to match once per chain."""
    llvm: str = ""
    """LLVM IR that the update calls."""


def fused(dtype: str, width: int, chains: int, instruction: str) -> Arithmetic:
    """Fused multiply-add in registers of `width` bits, which LLVM forms from a product and a sum.

    Example:
        >>> fused("float32", 512, 24, "vfmadd").lanes
        16
    """
    factor = float(np.finfo(dtype).eps) / 8
    return _floats(dtype, width, chains, instruction, lambda x, near, b: x + near * b, factor)


def separate(dtype: str, width: int, chains: int, instruction: str) -> Arithmetic:
    """A product, then a sum: x * b + b in place, where x + near * b would copy a register each time."""
    # Towards b / (1 - b) = 1.
    return _floats(dtype, width, chains, instruction, lambda x, _, b: x * b + b, 0.5)


def _floats(dtype: str, width: int, chains: int, instruction: str, update: Update, factor: float) -> Arithmetic:
    number = np.dtype(dtype).type
    lanes = width // (8 * np.dtype(dtype).itemsize)
    return Arithmetic(dtype, lanes, chains, 2, update, number(1.5), number(factor), instruction)


def dot8(intrinsic: str, width: int, chains: int, instruction: str) -> Arithmetic:
    """Adds four products of bytes to each int32."""
    lanes = width // 32

    def update(x: Any, near: Any, b: Any) -> Any:
        return _call(intrinsic, f"int32x{lanes}", x, *(_as(f"int8x{4 * lanes}", v) for v in (near, b)))

    return _bytes(lanes, chains, update, instruction)


def madd8(width: int, chains: int, instruction: str) -> Arithmetic:
    """The same in three instructions, as CPUs before VNNI do it."""
    lanes = width // 32
    bytes_to_words, words_to_int32 = _MADD[width]

    def update(x: Any, near: Any, b: Any) -> Any:
        from tvm.tirx.script.builder import ir as T

        operands = (_as(f"uint8x{4 * lanes}", near), _as(f"int8x{4 * lanes}", b))
        words = _call(bytes_to_words, f"int16x{2 * lanes}", *operands)
        return x + _call(words_to_int32, f"int32x{lanes}", words, T.Broadcast(T.int16(1), 2 * lanes))

    return _bytes(lanes, chains, update, instruction)


def bfloat16_dot(intrinsic: str, width: int, instruction: str) -> Arithmetic:
    """Adds two products of bfloat16 to each float32, in LLVM IR: TVM turns bfloat16 into float32."""
    lanes = width // 32
    vector, pairs = f"<{lanes} x float>", f"<{2 * lanes} x bfloat>"
    llvm = f"""
declare {vector} @{intrinsic}({vector}, {pairs}, {pairs})
define internal {vector} @costhub_dot({vector} %x, {vector} %near, {vector} %b) alwaysinline nounwind {{
  %p = bitcast {vector} %near to {pairs}
  %q = bitcast {vector} %b to {pairs}
  %r = call {vector} @{intrinsic}({vector} %x, {pairs} %p, {pairs} %q)
  ret {vector} %r
}}
"""

    start, factor = (np.array([bits], "uint32").view("float32")[0] for bits in _PAIRS["bfloat16"][1:])
    return Arithmetic("float32", lanes, 24, 4, _linked(f"float32x{lanes}"), start, factor, instruction, llvm)


def bfloat16_tiles() -> Arithmetic:
    """Products of bfloat16 in the tile registers of Intel's matrix units, which hold no accumulators of TVM's."""
    from costhub.dataset.tile_ir import ROWS, ZERO, TileShape, tile_ir

    shape, updates = TileShape(ROWS, blocks=2, places=32, pairs=16, lanes=16, stride=1), 16
    products = "\n  ".join(
        f"call void @llvm.x86.tdpbf16ps(i8 {update % 4}, i8 {4 + update % 2}, i8 {6 + update // 2 % 2})"
        for update in range(updates)
    )
    llvm = f"""{tile_ir(ZERO, shape)}
declare void @llvm.x86.tdpbf16ps(i8, i8, i8)
define internal float @costhub_dot(float %x, float %near, float %b) alwaysinline nounwind {{
  %done = call i32 @costhub_{shape.name(ZERO)}()
  br label %again
again:
  %round = phi i32 [ 0, %0 ], [ %next, %again ]
  {products}
  %next = add i32 %round, 1
  %more = icmp ult i32 %next, {_TILE_ROUNDS}
  br i1 %more, label %again, label %out
out:
  ret float %x
}}
"""

    operations, one = _TILE_ROUNDS * updates * 4 * shape.pairs * shape.lanes * shape.rows, np.float32(1.0)
    return Arithmetic("float32", 1, 1, operations, _linked("float32"), one, one, r"\ttdpbf16ps\s", llvm)


def dp4a(chains: int) -> Arithmetic:
    """Adds four products of bytes to each int32, on a GPU."""

    def update(x: Any, near: Any, b: Any) -> Any:
        from tvm.tirx.script.builder import ir as T

        return T.call_pure_extern("int32", "__dp4a", near, b, x)

    return _bytes(1, chains, update, "__dp4a")


def pairs_on_gpu(dtype: str, chains: int) -> Arithmetic:
    """Fused multiply-add of two 16-bit floats in one register of a GPU, in PTX."""
    suffix, start, factor = _PAIRS[dtype]
    source = f"""
__device__ __forceinline__ unsigned costhub_fma2(unsigned a, unsigned b, unsigned c) {{
  unsigned r;
  asm("fma.rn.{suffix} %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}}
"""

    def update(x: Any, near: Any, b: Any) -> Any:
        from tvm.tirx.script.builder import ir as T

        return T.cuda.func_call("costhub_fma2", near, b, x, source_code=source, return_type="uint32")

    return Arithmetic("uint32", 1, chains, 4, update, np.uint32(start), np.uint32(factor), suffix)


def _linked(dtype: str) -> Update:
    """Calls ``costhub_dot`` of the form's LLVM IR."""

    def update(x: Any, near: Any, b: Any) -> Any:
        from tvm.tirx.script.builder import ir as T

        return T.call_extern(dtype, "costhub_dot", x, near, b)

    return update


def _bytes(lanes: int, chains: int, update: Update, instruction: str) -> Arithmetic:
    # Sums of int32 wrap around, and any bytes are as fast as any others.
    ones = np.int32(0x01010101)
    return Arithmetic("int32", lanes, chains, 8, update, ones, ones, instruction)


def _call(intrinsic: str, dtype: str, *operands: Any) -> Any:
    from tvm.tirx.script.builder import ir as T

    return T.call_llvm_pure_intrin(T.llvm_lookup_intrinsic_id(intrinsic), *operands, dtype=dtype)


def _as(dtype: str, value: Any) -> Any:
    from tvm.tirx.script.builder import ir as T

    return T.reinterpret(value, dtype=dtype)
