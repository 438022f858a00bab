"""Provides find_arithmetic: the fastest way in which a target multiplies and adds numbers of a type.

The peak of a device is that of its widest instruction. Matrix units (AMX, SME, tensor cores) are left out: a
program of TVM uses them only where its schedule was written for them.
"""

from __future__ import annotations

from costhub.collector.probe.bench import architecture_of, target_of
from costhub.collector.probe.forms import (
    Arithmetic,
    bfloat16_dot,
    dot8,
    dp4a,
    fused,
    madd8,
    pairs_on_gpu,
    separate,
)
from costhub.errors import MeasureError

_SUFFIX = {"float16": "ph", "float32": "ps", "float64": "pd"}
_REGISTER = {128: "xmm", 256: "ymm", 512: "zmm"}
_ARM_SHAPE = {"float16": "8h", "float32": "4s", "float64": "2d"}
_ARM_FEATURE = {"float16": "fullfp16", "bfloat16": "bf16", "int8": "dotprod"}
_GPU_CHAINS = 24


def find_arithmetic(target: str, dtype: str) -> Arithmetic:
    """The fastest arithmetic of a target (JSON) on a type.

    Raises:
        MeasureError: The target has none.

    Example:
        >>> target = '{"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "x86-64-v3"}'
        >>> find_arithmetic(target, "float32").lanes
        8
    """
    kind = target_of(target).kind.name
    if kind == "cuda":
        return _of_gpu(dtype)
    if kind != "llvm":
        raise MeasureError(f"the probe has no kernels for targets of kind {kind!r}")
    architecture = architecture_of(target)
    if architecture == "x86_64":
        return _of_x86(target, dtype)
    if architecture == "aarch64":
        return _of_arm(target, dtype)
    raise MeasureError(f"the probe has no {dtype} arithmetic for {architecture}")


def _of_x86(target: str, dtype: str) -> Arithmetic:
    width = 512 if _has(target, "avx512f") else 256 if _has(target, "avx") else 128
    chains = 24 if width == 512 else 12  # of 32 or 16 registers
    register = _REGISTER[width]
    if dtype == "int8":
        return _int8_of_x86(target)
    if dtype == "bfloat16":
        if not _has(target, "avx512bf16"):
            raise MeasureError("the target has no bfloat16 instructions (avx512bf16)")
        return bfloat16_dot("llvm.x86.avx512bf16.dpbf16ps.512", 512, r"\tvdpbf16ps\s.*%zmm")
    if dtype == "float16" and not _has(target, "avx512fp16"):
        raise MeasureError("the target converts float16 but does not compute in it (avx512fp16)")
    if _has(target, "fma"):
        return fused(dtype, width, chains, rf"\tvfmadd\d+{_SUFFIX[dtype]}\s.*%{register}")
    return separate(dtype, width, chains, rf"\tv?mul{_SUFFIX[dtype]}\s.*%{register}")


def _int8_of_x86(target: str) -> Arithmetic:
    if _has(target, "avx512vnni"):
        return dot8("llvm.x86.avx512.vpdpbusd.512", 512, 24, r"\tvpdpbusd\s.*%zmm")
    if _has(target, "avxvnni"):
        return dot8("llvm.x86.avx512.vpdpbusd.256", 256, 12, r"\tvpdpbusd\s.*%ymm")
    if _has(target, "avx512bw"):
        return madd8(512, 24, r"\tvpmaddubsw\s.*%zmm")
    if _has(target, "avx2"):
        return madd8(256, 12, r"\tvpmaddubsw\s.*%ymm")
    if _has(target, "ssse3"):
        return madd8(128, 12, r"\tv?pmaddubsw\s.*%xmm")
    raise MeasureError("the target multiplies no vectors of int8 (ssse3)")


def _of_arm(target: str, dtype: str) -> Arithmetic:
    feature = _ARM_FEATURE.get(dtype)
    if feature and not _has(target, feature):
        raise MeasureError(f"the target has no {dtype} arithmetic ({feature})")
    if dtype == "bfloat16":
        return bfloat16_dot("llvm.aarch64.neon.bfdot.v4f32.v8bf16", 128, r"\tbfdot[\s.]")
    if dtype == "int8":
        return dot8("llvm.aarch64.neon.sdot.v4i32.v16i8", 128, 24, r"\tsdot[\s.]")
    # Linux writes `fmla v0.4s`, macOS `fmla.4s v0`.
    return fused(dtype, 128, 24, rf"\tfmla(?:\s+v\d+)?\.{_ARM_SHAPE[dtype]}")


def _of_gpu(dtype: str) -> Arithmetic:
    if dtype == "int8":
        return dp4a(_GPU_CHAINS)
    if dtype in ("float16", "bfloat16"):
        return pairs_on_gpu(dtype, _GPU_CHAINS)
    return fused(dtype, 64 if dtype == "float64" else 32, _GPU_CHAINS, "fma")


def _has(target: str, feature: str) -> bool:
    import tvm

    return bool(tvm.target.codegen.target_has_features(feature, target_of(target)))
