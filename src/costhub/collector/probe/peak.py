"""Provides peak_gops: the operations per second that a device reaches using only registers.

The peak of a device is that of its widest instruction. Of matrix units, only Intel's are measured, in bfloat16, for
which there are schedules (`costhub.collector.propose.matrix_tiles`); others (SME, tensor cores) are left out.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from costhub.collector.probe.forms import (
    Arithmetic,
    bfloat16_dot,
    bfloat16_tiles,
    dot8,
    dp4a,
    fused,
    madd8,
    pairs_on_gpu,
    separate,
)
from costhub.collector.probe.kernels import (
    ProbeDevice,
    ProbeKernel,
    architecture_of,
    assembly_of,
    compile_for,
    each_worker,
    highest_rate,
    target_of,
)
from costhub.errors import MeasureError

_SUFFIX = {"float16": "ph", "float32": "ps", "float64": "pd"}
_REGISTER = {128: "xmm", 256: "ymm", 512: "zmm"}
_ARM_SHAPE = {"float16": "8h", "float32": "4s", "float64": "2d"}
_ARM_FEATURE = {"float16": "fullfp16", "bfloat16": "bf16", "int8": "dotprod"}
_GPU_CHAINS = 24


def find_arithmetic(target: str, dtype: str) -> Arithmetic:
    """Finds the fastest arithmetic of a target (JSON) for a type.

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
        if _has(target, "amx-bf16"):
            return bfloat16_tiles()
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
    raise MeasureError("the target cannot multiply vectors of int8 (ssse3)")


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


@dataclass(frozen=True)
class PeakKernel:
    """A compiled kernel of independent chains of multiply-adds, and its arithmetic."""

    kernel: ProbeKernel
    arithmetic: Arithmetic
    instruction: str
    """The instruction that the assembly computes with, such as ``vfmadd231ps zmm``."""
    arguments: tuple[Any, ...]


def peak_gops(bench: ProbeDevice, dtype: str, *, workers: int, budget_s: float) -> tuple[float, str]:
    """Measures 10^9 multiplications and additions per second on `workers` threads or blocks; names the instruction.

    Raises:
        MeasureError: The target has no such arithmetic, or LLVM compiled it to something else.
    """
    peak = peak_kernel(bench, dtype)
    arithmetic = peak.arithmetic
    per_round = arithmetic.chains * arithmetic.lanes * arithmetic.operations * workers * bench.threads

    def run(rounds: int) -> float:
        return peak.kernel.seconds((workers, rounds, *peak.arguments))

    return highest_rate(run, budget_s=budget_s) * per_round / 1e9, peak.instruction


@cache
def peak_kernel(bench: ProbeDevice, dtype: str) -> PeakKernel:
    """The kernel for a type, compiled once."""
    import tvm

    arithmetic = find_arithmetic(bench.target, dtype)
    function = peak_function(arithmetic, bench.threads)
    instruction = arithmetic.instruction
    if not bench.is_gpu:
        instruction = emitted(arithmetic, assembly_of(function, bench.target))
    lanes = arithmetic.chains * arithmetic.lanes
    out = np.zeros((bench.workers, bench.threads * lanes), arithmetic.accumulator)
    values = (np.full(lanes, arithmetic.start), np.array([arithmetic.factor]), out)
    arguments = [tvm.runtime.tensor(value, bench.device) for value in values]
    return PeakKernel(compile_for(function, bench), arithmetic, instruction, tuple(arguments))


def peak_function(arithmetic: Arithmetic, threads: int) -> Any:
    """A TIR function that updates all accumulators `rounds` times, on each of `workers` workers."""
    from tvm.script.ir_builder import IRBuilder
    from tvm.tirx.script.builder import ir as T

    size, dtype = arithmetic.chains * arithmetic.lanes, arithmetic.accumulator
    places = [_place(chain * arithmetic.lanes, arithmetic.lanes) for chain in range(arithmetic.chains)]
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        T.func_attr({"tirx.noalias": True})
        workers, rounds, rows = T.arg("workers", T.int32()), T.arg("rounds", T.int32()), T.int32()
        start = T.match_buffer(T.arg("start", T.handle()), (size,), dtype)
        factor = T.match_buffer(T.arg("factor", T.handle()), (1,), dtype)
        out = T.match_buffer(T.arg("out", T.handle()), (rows, threads * size), dtype)
        llvm = T.attr(T.int32(0), "pragma_import_llvm", arithmetic.llvm) if arithmetic.llvm else nullcontext()
        with llvm, each_worker(workers, threads) as (worker, thread):
            kept = T.alloc_buffer((size,), dtype, scope="local")
            for place in places:
                T.buffer_store(kept, start[place], [place])
            by = T.Broadcast(factor[0], arithmetic.lanes) if arithmetic.lanes > 1 else factor[0]
            with T.serial(0, rounds):
                # Unrolled here: a loop over the accumulators would keep them in memory.
                for place, near in zip(places, [*places[1:], places[0]], strict=True):
                    T.buffer_store(kept, arithmetic.update(kept[place], kept[near], by), [place])
            for place in places:
                T.buffer_store(out, kept[place], [worker, thread * size + place])
    return builder.get()


def emitted(arithmetic: Arithmetic, assembly: str) -> str:
    """The instruction that does the work, such as ``vfmadd231ps zmm``.

    Raises:
        MeasureError: It does not occur once per chain, so the kernel does not measure the intended arithmetic.
    """
    matches = re.findall(rf"{arithmetic.instruction}.*", assembly)
    if len(matches) < arithmetic.chains:
        raise MeasureError(
            f"LLVM emitted {len(matches)} instructions like {arithmetic.instruction!r} where "
            f"{arithmetic.chains} were expected, so the kernel would measure something else"
        )
    words = re.match(r"\s*([a-z0-9.]+)\s.*?%?([xyz]mm|v\d+(?:\.\d+[a-z])?|$)", matches[0])
    return " ".join(words.groups()).strip() if words else matches[0].strip()


def _place(first: int, lanes: int) -> Any:
    from tvm.tirx.script.builder import ir as T

    return T.Ramp(first, 1, lanes) if lanes > 1 else first
