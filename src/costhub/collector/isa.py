"""Provides isa_level: the instruction sets that a CPU can be limited to, each a device of its own."""

from __future__ import annotations

from dataclasses import dataclass

from costhub.errors import UnknownNameError
from costhub.names import close_names


@dataclass(frozen=True)
class IsaLevel:
    """What code for an instruction set may use."""

    mcpu: str
    """LLVM's name of a CPU that has this and no more."""
    flag: str
    """The feature, as the operating system calls it, that a CPU needs for it."""
    features: tuple[str, ...]
    simd_bits: int


_SSE = ("sse4_2",)
_AVX2 = (*_SSE, "avx", "avx2", "fma")
_AVX512 = (*_AVX2, "avx512f", "avx512vl")

# The levels of the x86-64 psABI, by the names that people know: what compilers and distributions build for.
ISA_LEVELS = {
    "sse4.2": IsaLevel("x86-64-v2", "sse4_2", _SSE, 128),
    "avx2": IsaLevel("x86-64-v3", "avx2", _AVX2, 256),
    "avx512": IsaLevel("x86-64-v4", "avx512vl", _AVX512, 512),
}


def isa_level(name: str) -> IsaLevel:
    """The level called `name`.

    Raises:
        UnknownNameError: No level has that name.

    Example:
        >>> isa_level("avx2").mcpu
        'x86-64-v3'
    """
    if name not in ISA_LEVELS:
        raise UnknownNameError(
            "instruction set", name, close_names(name, list(ISA_LEVELS)), "costhub devices"
        )
    return ISA_LEVELS[name]
