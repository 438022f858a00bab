"""The widest instructions of every target are really emitted: the assembly says so, for other CPUs too."""

from __future__ import annotations

import json
import re

import pytest

from costhub.collector.device.identity import identify
from costhub.collector.probe.kernels import ProbeDevice, assembly_of, clock_ghz
from costhub.collector.probe.peak import emitted, find_arithmetic, peak_function, peak_gops, peak_kernel
from costhub.errors import MeasureError


def cpu(mcpu: str, triple: str = "x86_64-linux-gnu") -> str:
    return json.dumps({"kind": "llvm", "mtriple": triple, "mcpu": mcpu, "num-cores": 1})


def arm(mcpu: str) -> str:
    return cpu(mcpu, "aarch64-linux-gnu")


CUDA = json.dumps({"kind": "cuda", "arch": "sm_90", "max_threads_per_block": 1024, "thread_warp_size": 32})


@pytest.mark.parametrize(
    ("target", "dtype", "instruction"),
    [
        (cpu("znver5"), "float32", "vfmadd231ps zmm"),
        (cpu("znver5"), "float64", "vfmadd231pd zmm"),
        (cpu("znver5"), "bfloat16", "vdpbf16ps zmm"),
        (cpu("znver5"), "int8", "vpdpbusd zmm"),
        (cpu("sapphirerapids"), "float16", "vfmadd231ph zmm"),
        (cpu("sapphirerapids"), "bfloat16", "tdpbf16ps"),
        (cpu("skylake-avx512"), "float32", "vfmadd231ps zmm"),
        (cpu("alderlake"), "int8", "vpdpbusd ymm"),
        (cpu("x86-64-v4"), "int8", "vpmaddubsw zmm"),
        (cpu("x86-64-v3"), "float32", "vfmadd231ps ymm"),
        (cpu("x86-64-v3"), "int8", "vpmaddubsw ymm"),
        (cpu("sandybridge"), "float32", "vmulps ymm"),
        (cpu("x86-64-v2"), "float64", "mulpd xmm"),
        (cpu("x86-64-v2"), "int8", "pmaddubsw xmm"),
        (arm("neoverse-n1"), "float32", "fmla v0.4s"),
        (arm("neoverse-n1"), "float16", "fmla v0.8h"),
        (arm("neoverse-n1"), "int8", "sdot v0.4s"),
        (arm("neoverse-v1"), "bfloat16", "bfdot v0.4s"),
        (cpu("apple-m1", "arm64-apple-macos"), "float32", "fmla.4s v0"),
    ],
)
def test_the_widest_instruction_is_emitted(target: str, dtype: str, instruction: str) -> None:
    arithmetic = find_arithmetic(target, dtype)

    found = emitted(arithmetic, assembly_of(peak_function(arithmetic, 1), target))

    assert re.sub(r"v\d+", "v0", found) == instruction


@pytest.mark.parametrize(("mcpu", "too_wide"), [("x86-64-v2", "[yz]mm"), ("x86-64-v3", "zmm")])
def test_no_wider_register_than_the_target_allows_is_used(mcpu: str, too_wide: str) -> None:
    for dtype in ("float32", "float64", "int8"):
        assembly = assembly_of(peak_function(find_arithmetic(cpu(mcpu), dtype), 1), cpu(mcpu))

        assert re.search(rf"%{too_wide}", assembly) is None


@pytest.mark.parametrize(
    ("target", "dtype", "why"),
    [
        (cpu("znver5"), "float16", "avx512fp16"),
        (cpu("x86-64-v3"), "bfloat16", "avx512bf16"),
        (cpu("x86-64"), "int8", "ssse3"),
        (arm("cortex-a53"), "int8", "dotprod"),
        (cpu("generic-rv64", "riscv64-linux-gnu"), "float32", "riscv64"),
        ('{"kind": "vulkan"}', "float32", "vulkan"),
    ],
)
def test_what_a_target_cannot_compute_is_said(target: str, dtype: str, why: str) -> None:
    with pytest.raises(MeasureError, match=why):
        find_arithmetic(target, dtype)


@pytest.mark.parametrize(
    ("dtype", "words"),
    [
        ("float32", "_ptr_3[0] = (_ptr_3[0] + (_ptr_3[1] * _ptr_1[0]))"),
        ("float64", "double"),
        ("float16", "fma.rn.f16x2"),
        ("bfloat16", "fma.rn.bf16x2"),
        ("int8", "__dp4a("),
    ],
)
def test_kernels_of_a_gpu_are_bound_to_blocks_and_threads(dtype: str, words: str) -> None:
    import tvm

    function = peak_function(find_arithmetic(CUDA, dtype), 256)
    built = tvm.tirx.build(function, target=tvm.target.Target(json.loads(CUDA)))

    source = built.imports[0].inspect_source("cuda")
    assert words in source
    assert "blockIdx.x" in source
    assert "threadIdx.x" in source


MOST_VECTORS_PER_CYCLE = 4
"""Multiply-adds of full width that one core starts at once: 2 on x86, 4 on the widest ARM cores."""


def test_a_peak_is_within_what_the_clock_allows(target: str) -> None:
    bench = ProbeDevice(target, "cpu", 1)

    gops, instruction = peak_gops(bench, "float32", workers=1, budget_s=0.2)
    ghz = clock_ghz(bench, budget_s=0.5)

    lanes = (identify()["simd_bits"] or 128) / 32
    assert 0.1 < gops < 1.3 * ghz * lanes * 2 * MOST_VECTORS_PER_CYCLE
    assert instruction


def test_a_kernel_is_compiled_once(target: str) -> None:
    assert peak_kernel(ProbeDevice(target, "cpu", 1), "float64") is peak_kernel(
        ProbeDevice(target, "cpu", 1), "float64"
    )


def test_code_that_does_something_else_is_refused() -> None:
    arithmetic = find_arithmetic('{"kind": "llvm", "mtriple": "x86_64-linux-gnu"}', "float32")

    with pytest.raises(MeasureError, match="1 instructions like"):
        emitted(arithmetic, "\tmulps\t%xmm1, %xmm0\n\taddps\t%xmm1, %xmm0\n")
