"""Every form computes what its name says, on this machine's own instructions."""

from __future__ import annotations

import json
import platform
from typing import Any

import numpy as np
import pytest

from costhub.collector.device.identity import identify
from costhub.collector.device.local import local_target
from costhub.collector.probe.forms import Arithmetic, fused, separate
from costhub.collector.probe.kernels import ProbeDevice, compile_for
from costhub.collector.probe.peak import find_arithmetic, peak_function
from costhub.errors import MeasureError

X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="instructions of x86")


def run(arithmetic: Arithmetic, target: dict[str, Any], rounds: int) -> Any:
    """(chains, lanes) accumulators after so many rounds of one worker."""
    import tvm

    size = arithmetic.chains * arithmetic.lanes
    kernel = compile_for(peak_function(arithmetic, 1), ProbeDevice(json.dumps(target), "cpu", 1))
    out = tvm.runtime.tensor(np.zeros((1, size), arithmetic.accumulator))
    start, factor = np.full(size, arithmetic.start), np.array([arithmetic.factor])
    kernel.seconds((1, rounds, tvm.runtime.tensor(start), tvm.runtime.tensor(factor), out))
    return out.numpy().reshape(arithmetic.chains, arithmetic.lanes)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_accumulators_of_floats_stay_what_they_are(dtype: str) -> None:
    try:
        arithmetic = find_arithmetic(json.dumps(local_target()), dtype)
    except MeasureError as error:
        pytest.skip(str(error))

    found = run(arithmetic, local_target(), 1000)

    assert found.view("uint8").tobytes() == np.full(found.shape, arithmetic.start).tobytes()


def test_a_product_is_added_to_the_neighbour() -> None:
    form = fused("float64", 128, 2, "")
    made = Arithmetic("float64", 2, 2, 2, form.update, np.float64(1), np.float64(0.5), "")

    # 1 + 1 * 0.5, and the second one meets the first one's new value: 1 + 1.5 * 0.5.
    assert run(made, local_target(), 1).tolist() == [[1.5, 1.5], [1.75, 1.75]]


def test_a_product_and_a_sum_run_towards_one() -> None:
    form = separate("float32", 128, 3, "")

    assert run(form, local_target(), 1).tolist() == [[1.25] * 4] * 3
    assert run(form, local_target(), 100).tolist() == [[1.0] * 4] * 3


@X86
@pytest.mark.parametrize("isa", [None, "avx512", "avx2", "sse4.2"])
def test_bytes_are_multiplied_and_summed_by_fours(isa: str | None) -> None:
    if isa and "avx512f" not in identify()["isa_features"]:
        pytest.skip("this CPU has no AVX-512")
    target = local_target(isa=isa)
    arithmetic = find_arithmetic(json.dumps(target), "int8")

    found = run(arithmetic, target, 2)

    words = [0x01010101] * arithmetic.chains
    for _ in range(2):
        for chain in range(arithmetic.chains):
            near = words[(chain + 1) % arithmetic.chains]
            words[chain] += sum(near.to_bytes(4, "little"))
    assert found.tolist() == [[word] * arithmetic.lanes for word in words]
