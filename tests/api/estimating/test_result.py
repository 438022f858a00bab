"""How an estimate is shown, as text, as JSON and as a data frame."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from costhub.api.estimating.result import MEASURED, PREDICTED, Estimate, KernelEstimate, NetworkEstimate
from costhub.errors import ArgumentError

CONV = KernelEstimate("conv", "a" * 64, "conv", 3.0, 1000.0, 900.0, 1200.0, MEASURED, 32)
NORM = KernelEstimate("norm", "b" * 64, "norm", 2.0, 500.0, 300.0, 800.0, PREDICTED, None)


def network(rest_us: float | None = 100.0) -> NetworkEstimate:
    return NetworkEstimate("net", (CONV, NORM), 4000.0, rest_us, 3500.0, 5000.0)


def test_a_network_is_its_kernels_and_the_rest() -> None:
    assert network().latency_us == 4100.0
    assert network(None).latency_us == 4000.0
    assert network().measured_share == 0.75


def test_the_table_says_where_each_figure_comes_from() -> None:
    text = str(Estimate("cpu", 64, 0.9, (replace(CONV, calls=1.0),), (network(),)))

    lines = [line.split() for line in text.splitlines() if line]
    assert "90 % intervals" in text
    assert ["conv", "1000.0", "900.0", "1200.0", "measured,", "best", "of", "32"] in lines
    assert ["conv", "3", "3.000", "2.700", "3.600", "measured,", "best", "of", "32"] in lines
    assert ["norm", "2", "1.000", "0.600", "1.600", "predicted"] in lines
    assert lines[-1][:4] == ["net", "-", "4.100", "3.500"]
    assert "75 % of the kernels' time measured" in text
    assert "small kernels, runtime" in text
    assert "small kernels" not in str(Estimate("gpu", 64, 0.9, (), (network(None),)))


def test_what_was_asked_for_alone_is_a_number_with_an_interval() -> None:
    kernel, whole = Estimate("cpu", 64, 0.9, (NORM,), ()), Estimate("cpu", 64, 0.9, (), (network(),))

    assert (float(kernel), kernel.latency_us, kernel.low_us, kernel.high_us) == (500.0, 500.0, 300.0, 800.0)
    assert (float(whole), whole.latency_us, whole.low_us, whole.high_us) == (4100.0, 4100.0, 3500.0, 5000.0)


@pytest.mark.parametrize(("kernels", "networks"), [((CONV,), (network(),)), ((CONV, NORM), ()), ((), ())])
def test_of_several_or_none_there_is_no_single_latency(
    kernels: tuple[KernelEstimate, ...], networks: tuple[NetworkEstimate, ...]
) -> None:
    with pytest.raises(ArgumentError, match=rf"^{len(kernels) + len(networks)} kernels and networks were estimated"):
        float(Estimate("cpu", 64, 0.9, kernels, networks))


def test_a_device_that_was_never_measured_is_named() -> None:
    unknown = Estimate("board", 64, 0.9, (NORM,), (), is_new_device=True)
    assert "The predictor has not learned from board: predicted figures rest on its probe" in str(unknown)
    lent = Estimate("chip-16c", 64, 0.9, (NORM,), (), is_new_device=True, figures_of="chip-1c")
    assert "rest on those of chip-1c for each core, since it has not been probed (`costhub probe`)" in str(lent)
    assert json.loads(lent.to_json())["figures_of"] == "chip-1c"
    assert "has not learned" not in str(Estimate("board", 64, 0.9, (NORM,), ()))
    # A measured figure rests on no predictor.
    assert "has not learned" not in str(Estimate("board", 64, 0.9, (CONV,), (), is_new_device=True))


def test_json_and_rows_hold_everything() -> None:
    found = Estimate("cpu", 16, 0.8, (CONV,), (network(),))

    content = json.loads(found.to_json())
    assert (content["costhub"], content["trials"], content["interval"]) == ("estimate", 16, 0.8)
    assert content["networks"][0]["latency_us"] == 4100.0
    assert content["networks"][0]["kernels"][1]["source"] == PREDICTED
    frame = found.to_pandas()
    assert frame["network"].tolist() == ["", "net", "net"]
    assert frame["latency_us"].tolist() == pytest.approx([1000.0, 1000.0, 500.0])
