from __future__ import annotations

import pytest

from costhub.collector.device import identify
from costhub.collector.probe.arithmetic import find_arithmetic
from costhub.collector.probe.bench import Bench
from costhub.collector.probe.clock import clock_ghz
from costhub.collector.probe.peak import emitted, peak_gops, peak_kernel
from costhub.errors import MeasureError

MOST_VECTORS_PER_CYCLE = 4
"""Multiply-adds of full width that one core starts at once: 2 on x86, 4 on the widest ARM cores."""


def test_a_peak_is_within_what_the_clock_allows(target: str) -> None:
    bench = Bench(target, "cpu", 1)

    gops, instruction = peak_gops(bench, "float32", workers=1, budget_s=0.2)
    ghz = clock_ghz(bench, budget_s=0.5)

    lanes = (identify()["simd_bits"] or 128) / 32
    assert 0.1 < gops < 1.3 * ghz * lanes * 2 * MOST_VECTORS_PER_CYCLE
    assert instruction


def test_a_kernel_is_compiled_once(target: str) -> None:
    assert peak_kernel(Bench(target, "cpu", 1), "float64") is peak_kernel(Bench(target, "cpu", 1), "float64")


def test_code_that_does_something_else_is_refused() -> None:
    arithmetic = find_arithmetic('{"kind": "llvm", "mtriple": "x86_64-linux-gnu"}', "float32")

    with pytest.raises(MeasureError, match="1 instructions like"):
        emitted(arithmetic, "\tmulps\t%xmm1, %xmm0\n\taddps\t%xmm1, %xmm0\n")
