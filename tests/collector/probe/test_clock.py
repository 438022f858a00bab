from __future__ import annotations

import platform
import re

import numpy as np
import pytest

from costhub.collector.probe.bench import Bench, assembly_of, compile_for
from costhub.collector.probe.clock import PAIRS_PER_ROUND, clock_function, clock_ghz


def test_a_clock_of_today_is_found(target: str) -> None:
    assert 0.2 < clock_ghz(Bench(target, "cpu", 1), budget_s=0.2) < 10


def test_nothing_of_the_chain_is_computed_beforehand(target: str) -> None:
    import tvm

    values = tvm.runtime.tensor(np.array([3, 5, 7], "int64"))
    compile_for(clock_function(), Bench(target, "cpu", 1)).seconds((2, values))

    expected = 3
    for _ in range(2 * PAIRS_PER_ROUND):
        expected = (expected + 5) ^ 7
    assert values.numpy()[0] == expected


@pytest.mark.skipif(platform.machine() != "x86_64", reason="assembly of x86")
def test_every_operation_of_the_chain_is_in_the_code(target: str) -> None:
    assembly = assembly_of(clock_function(), target)

    assert len(re.findall(r"\txorq\t", assembly)) >= PAIRS_PER_ROUND
