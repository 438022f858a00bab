"""What follows from the numbers of a report."""

from __future__ import annotations

from typing import Any

import pytest

from costhub.cards.reports.tune_facts import (
    busy_text,
    duration_text,
    effort_text,
    forms,
    gain_since,
    gain_text,
    headline,
    kernel_rows,
    outputs_text,
    own_rows,
    peak_text,
    sum_text,
    together_curve,
    together_us,
)


def row(name: str, **more: Any) -> dict[str, Any]:
    times = {"trials": 8, "failures": 0, "seconds": 10.0, "untuned_us": None, "best_us": 10.0}
    return {"workload": name, "weight": 2.0, **times, "curve": [[1, 20.0], [5, 12.5], [8, 10.0]], **more}


def network(**us: float) -> dict[str, Any]:
    latencies = {form: {"median_us": value} for form, value in us.items()}
    return {"network": "net", "error": None, "latencies": latencies}


def test_kernels_come_in_the_order_of_their_share() -> None:
    summary = {
        "device": "one",
        "peak_gflops": 200.0,
        "workloads": [
            row("a", share_after=0.2, gflops=50.0),
            row("b", share_after=0.8),
            row("c", device="two", gflops=9.0),
        ],
    }

    rows = kernel_rows(summary)

    assert [(r["workload"], r["share"], r["of_peak"]) for r in rows] == [
        ("b", 0.8, None),
        ("a", 0.2, 0.25),
        ("c", None, None),
    ]
    assert rows[0]["gain"] == pytest.approx(1 - 10.0 / 12.5)


def test_kernels_together_count_as_often_as_they_are_called() -> None:
    rows = [row("a"), row("b", weight=None, curve=[[3, 7.0]], best_us=7.0), row("c", best_us=None, curve=[])]

    assert together_us(rows, 1.0) == 27.0
    assert together_us(rows, 0.25) is None  # b had no program that ran
    assert together_us(rows[2:], 1.0) is None
    assert gain_since(rows, 0.5) == pytest.approx(1 - 27.0 / 47.0)


def test_the_curve_of_all_kernels_falls_to_their_sum() -> None:
    rows = [row("a"), row("b", trials=16)]

    curve = together_curve(rows)

    assert curve[-1] == (12.0, 40.0)
    assert [us for _, us in curve] == sorted((us for _, us in curve), reverse=True)
    assert together_curve([row("c", best_us=None, curve=[])]) == []
    assert len(together_curve([row("a", trials=5000)])) <= 64


def test_rows_of_earlier_searches_are_not_those_of_the_last() -> None:
    rows = [row("a"), row("b"), row("b", device="two")]
    summary = {"device": "one", "earlier": [{"device": "one", "workloads": ["b"]}]}

    assert [(r["workload"], r.get("device")) for r in own_rows(summary, rows)] == [("a", None), ("b", "two")]


@pytest.mark.parametrize(
    ("us", "text"),
    [
        ({"tuned": 2000.0, "torch": 4100.0, "untuned": 1e6}, "2.00 ms: 2.0 times as fast as PyTorch (4.10 ms)"),
        ({"tuned": 2000.0, "torch": 2050.0}, "2.00 ms: as fast as PyTorch (2.05 ms)"),
        ({"tuned": 2000.0, "torch": 1000.0}, "2.00 ms: slower than PyTorch (1.00 ms)"),
        ({"tuned": 2000.0, "untuned": 1e6}, "2.00 ms per call"),
        ({}, "net was compiled and checked, but it could not be timed"),
    ],
)
def test_the_headline_is_beside_pytorch_and_never_beside_plain_loops(us: dict[str, float], text: str) -> None:
    assert headline(network(**us), {"load_average": 1.0, "cores": 2}) == f"{text}."


@pytest.mark.parametrize("us", [{"tuned": 2000.0, "torch": 4100.0}, {"tuned": 2000.0}])
def test_a_headline_measured_beside_other_programs_says_that_it_is_no_result(us: dict[str, float]) -> None:
    busy = "Measured while other programs ran (load average 9.0, 2 cores): no result to cite."

    found = headline(network(**us), {"load_average": 9.04, "cores": 2})

    assert found == f"2.00 ms{', PyTorch 4.10 ms' if 'torch' in us else ' per call'}. {busy}"
    quiet = {**network(**us), "load_average": 0.1, "cores": 2}  # of an earlier search
    assert "no result" not in headline(quiet, {"load_average": 9.04, "cores": 2})


@pytest.mark.parametrize(
    ("low", "high", "is_steady"), [(1900.0, 2100.0, True), (1500.0, 2600.0, False), (None, None, True)]
)
def test_calls_that_take_differently_long_are_no_result(
    low: float | None, high: float | None, *, is_steady: bool
) -> None:
    timed = network(tuned=2000.0, torch=4100.0)
    timed["latencies"]["tuned"] |= {"low_us": low, "high_us": high}

    found = headline(timed, {"load_average": 0.1, "cores": 2})

    assert ("took 1.50 ms to 2.60 ms: the machine was busy" in found) != is_steady
    assert ("2.0 times as fast as PyTorch" in found) == is_steady


def test_an_error_is_the_headline() -> None:
    wrong = {**network(), "error": "It is wrong."}
    assert headline(wrong, {"load_average": 9.0, "cores": 2}) == "It is wrong."


def test_forms_come_in_one_order_and_new_ones_under_their_own_name() -> None:
    engines = {"openvino-bfloat16": 7.0, "openvino-float32": 6.0, "onnxruntime": 4.0}
    found = network(untuned=5.0, **engines, torch=3.0, acme=2.0, tuned=1.0)

    assert [name for _, name, _ in forms(found)] == [
        "costhub",
        "PyTorch",
        "ONNX Runtime",
        "OpenVINO (float32)",
        "OpenVINO (bfloat16)",
        "TVM without tuning",
        "acme",
    ]


def test_what_the_last_programs_gained_is_said_where_it_is_known() -> None:
    assert gain_text([row("a")]) == (
        "The last quarter of the programs lowered the time by 20.0%, the last half by 50.0%."
    )
    assert gain_text([row("a", trials=3)]) == ""
    assert gain_text([row("a", best_us=None, curve=[])]) == ""
    assert gain_text([row("a"), row("b")]).startswith(
        "The last quarter of each kernel's programs lowered the time of all kernels together by 20.0%"
    )
    assert "each workload's programs lowered the time of all workloads together" in gain_text(
        [row("a"), row("b")], "workload"
    )


@pytest.mark.parametrize(("before", "whose"), [((0, 0), ""), ((8, 0), ", 8 of them"), ((8, 8), ", all of them")])
def test_programs_of_earlier_searches_are_counted(before: tuple[int, int], whose: str) -> None:
    rows = [row(name, trials_before=count) for name, count in zip("ab", before, strict=True)]

    assert effort_text(rows) == f"16 programs of 2 kernels measured in 20 s{whose and f'{whose} by earlier searches'}"


def test_the_effort_is_a_sentence() -> None:
    assert effort_text([row("a", failures=2, seconds=130.0), row("b")]) == (
        "16 programs of 2 kernels measured in 2.3 min, 2 of them failed"
    )


def test_only_a_busy_machine_is_named() -> None:
    quiet = {"load_average": 1.9, "cores": 2}
    assert busy_text(quiet, is_network=True) == busy_text({}, is_network=True) == ""
    assert busy_text({"load_average": 2.1, "cores": 1}, is_network=True).startswith(
        "Other programs were running (load average 2.1, 1 core)"
    )


def test_measuring_again_says_what_is_measured_again() -> None:
    """A search that goes on measures no program again, only the network as a whole."""
    busy = {"load_average": 9.0, "cores": 2}

    assert "times the network again; kernels keep" in busy_text(busy, is_network=True)
    assert "with another --out" in busy_text(busy, is_network=False)


def test_kernels_may_add_up_to_more_than_their_network() -> None:
    def beside(us: float, **more: Any) -> dict[str, Any]:
        return {"networks": [{**network(tuned=us), "kernels_tuned": 2}], **more}

    rows = [row("a"), row("b")]  # 2 calls of 10 us each
    more, less = sum_text(beside(30.0), rows), sum_text(beside(50.0), rows)

    assert more.startswith(
        "The latencies of the kernels, times their calls, add up to 40.0 µs; the network takes 30.0 µs. "
    )
    assert more.endswith("so the sum can be larger.")
    assert less.endswith("the network takes 50.0 µs.")
    assert sum_text(beside(50.0), rows, always=False) == ""
    assert sum_text(beside(30.0), [*rows, row("besides")]) == ""
    assert sum_text(beside(30.0, earlier=[{}]), rows) == ""
    assert sum_text(beside(30.0), [row("a", best_us=None)]) == ""


def test_a_peak_says_where_it_comes_from() -> None:
    peak = {"peak_gflops": 256.2}

    assert peak_text({}) == ""
    assert peak_text(peak) == "256 GFLOP/s in float32"
    assert peak_text({**peak, "peak_source": "probe"}).endswith("as costhub probe measured it on this device")
    assert peak_text({**peak, "peak_source": "index"}).endswith("index of devices, not measured on this machine")


@pytest.mark.parametrize(
    ("us", "text"), [(0.5, "0.50 µs"), (999.0, "999 µs"), (1000.0, "1.00 ms"), (250_000.0, "250 ms")]
)
def test_times_have_three_digits(us: float, text: str) -> None:
    assert duration_text(us) == text


def test_kernels_in_bfloat16_have_a_peak_of_their_own() -> None:
    names = ("matmul_pairs_add.128x384", "conv2d_NCHWc_pairs.1x4", "conv2d_NCHWc_add.1x4")
    peaks = {"peak_gflops": 200.0, "peak_gflops_bfloat16": 400.0}
    summary = {"device": "one", **peaks, "workloads": [row(name, gflops=100.0) for name in names]}

    assert {r["workload"]: r["of_peak"] for r in kernel_rows(summary)} == dict(
        zip(names, (0.25, 0.25, 0.5), strict=True)
    )
    assert peak_text(summary) == "200 GFLOP/s in float32 and 400 in bfloat16"
    assert peak_text({**summary, "workloads": [row(names[2])]}) == "200 GFLOP/s in float32"
    unknown = {**summary, "peak_gflops_bfloat16": None}
    assert {r["workload"]: r["of_peak"] for r in kernel_rows(unknown)}[names[0]] is None


def test_outputs_in_bfloat16_state_their_error() -> None:
    checked = {"reference": "torch", "tolerance": 0.1, "error_size": 0.00428}

    said = outputs_text({**checked, "precision": "bf16"})

    assert said == "Computed in bfloat16: outputs differ from PyTorch's by 0.43 % of their size (root mean square)."
    equal = "Outputs equal PyTorch's (tolerance 0.1 of their size)"
    assert outputs_text(checked) == f"{equal}; the root mean square of the differences is 0.004 of it."
    for nothing in (None, 0.0):
        assert outputs_text({**checked, "error_size": nothing}) == f"{equal}."
