"""Networks in a table: medians over seeds, and nothing of a network that computes something else."""

from __future__ import annotations

from typing import Any

from scripts.tables.networks import (
    engine_details_table,
    engine_profiles_table,
    engines_table,
    network_seconds_table,
    networks_table,
    operators_table,
    zero_trials_table,
)
from scripts.tables.search import LIGHT


def row(seed: int, tuned_us: float, **more: Any) -> dict[str, Any]:
    latencies = {"untuned": 9000.0, "tuned": tuned_us, "torch": 4000.0}
    return {
        "network": "net",
        "trials": 64,
        "seed": seed,
        "method": "m",
        "error": None,
        "seconds": 100.0 * (seed + 1),
        "latencies": {form: {"median_us": us} for form, us in latencies.items()},
        **more,
    }


def test_a_line_has_medians_and_the_spread() -> None:
    shown = networks_table({"rows": [row(0, 2000.0), row(1, 1000.0), row(2, 2500.0)]}).splitlines()

    assert shown[-1] == "| net | m | 64 | 3 | 0 | 9.00 | 2.00 | 1.00 to 2.50 | 4.00 | - | 2.00 | 200 |"


def test_a_wrong_network_has_no_latency() -> None:
    shown = networks_table({"rows": [row(0, 2000.0), row(1, 1.0, error="It differs.")]}).splitlines()

    assert shown[-1] == "| net | m | 64 | 2 | 1 | 9.00 | 2.00 | 2.00 to 2.00 | 4.00 | - | 2.00 | 150 |"


def test_trials_and_methods_have_lines_of_their_own() -> None:
    rows = [row(0, 2000.0), row(0, 1000.0, trials=128), row(0, 1500.0, method="n")]

    assert len(networks_table({"rows": rows}).splitlines()) == 5


def test_without_rows_it_says_so() -> None:
    assert networks_table({"rows": []}) == "Not measured yet."


def test_a_line_shows_medians_and_the_last_one_the_mean_of_the_ratios() -> None:
    rows = [{"workload": "a", "best_us": 10.0, "torch_us": us, "seconds": 5.0} for us in (30.0, 40.0, 90.0)] + [
        {"workload": "b", "best_us": 10.0, "torch_us": 10.0, "seconds": 5.0}
    ]

    lines = operators_table({"rows": rows}).splitlines()

    assert "| a | 3 | 10.0 | 40.0 | 4.00 | 3.00 to 9.00 | 5 |" in lines
    assert "2.00" in lines[-1]
    assert lines[-1].startswith("| geometric mean |")


def engine_row(engine: str, ms: float | None, *, network: str = "net", precision: str = "float32") -> dict[str, Any]:
    latency = ms and {"median_us": ms * 1e3, "low_us": ms * 900, "high_us": ms * 1100}
    about = {"network": network, "engine": engine, "precision": precision, "relative_error": 1e-6}
    return {**about, "latency": latency, "error": None if ms else "The outputs are not torch's: by 1."}


def test_the_best_of_float32_is_bold_and_costhub_compared_with_it() -> None:
    rows = [engine_row("torch", 4.0), engine_row("costhub", 3.0), engine_row("openvino", 1.0, precision="bfloat16")]
    rows += [engine_row("torch", 2.0, network="other"), engine_row("costhub", 4.0, network="other")]

    head, _, *lines = engines_table({"rows": rows}).splitlines()

    assert head == "| ms | PyTorch | costhub | OpenVINO, its default (bfloat16) | costhub / best of float32 |"
    assert lines == [
        "| net | 4.00 | **3.00** | 1.00 | 1.00 |",
        "| other | **2.00** | 4.00 | - | 2.00 |",
        "| geometric mean | - | - | - | 1.41 |",
    ]


def test_costhub_in_bfloat16_is_compared_with_the_best_of_all_others() -> None:
    rows = [engine_row("torch", 4.0), engine_row("openvino", 1.0, precision="bfloat16")]
    rows += [engine_row("costhub-bf16", 1.5, precision="bfloat16")]

    head, _, *lines = engines_table({"rows": rows}).splitlines()

    assert head.endswith("| costhub (bfloat16) | costhub (bfloat16) / best of the others |")
    assert lines == ["| net | 4.00 | 1.00 | 1.50 | 1.50 |", "| geometric mean | - | - | - | 1.50 |"]


def test_stock_is_compared_with_costhub_where_both_were_timed() -> None:
    rows = [
        engine_row("costhub", 3.0, network="net"),
        engine_row("stock", 6.0, network="net"),
        engine_row("costhub", 4.0, network="other"),
        engine_row("costhub", 1.0, network="third"),
        engine_row("stock", 8.0, network="third"),
    ]

    head, _, *lines = engines_table({"rows": rows}).splitlines()

    assert head.endswith("| costhub / best of float32 | stock TVM / costhub |")
    assert [line.rpartition(" | ")[2] for line in lines] == ["2.00 |", "- |", "8.00 |", "4.00 |"]


def test_an_engine_that_computes_something_else_has_no_latency() -> None:
    rows = [engine_row("torch", 4.0), engine_row("onnxruntime", None)]

    assert engines_table({"rows": rows}).splitlines()[2] == "| net | 4.00 | - | - |"
    assert engine_details_table({"rows": rows}).splitlines()[-1].endswith("| The outputs are not torch's |")


def test_details_have_the_precision_and_the_ratio_to_the_best_of_float32() -> None:
    rows = [engine_row("torch", 4.0), engine_row("openvino", 1.0, precision="bfloat16")]

    *_, line = engine_details_table({"rows": rows}).splitlines()

    assert line.startswith("| net | OpenVINO, its default | bfloat16 | 1.00 | 0.90 to 1.10 | 0.25 | 1.0e-06 |")


def test_profiles_have_a_column_for_each_kind_that_occurs() -> None:
    kinds = {"matmul": 2500.0, "attention": 500.0}
    profile = {"network": "net", "engine": "torch", "whole_us": 3000.0, "kinds": kinds, "unscheduled_us": None}
    tuned = {**profile, "engine": "costhub", "unscheduled_us": 250.0}

    shown = engine_profiles_table(
        {"profiles": [profile, tuned, {"network": "net", "engine": "stock", "error": "died"}]}
    )

    assert (
        shown.splitlines()[0] == "| ms | engine | whole | matmul | attention | of these, kernels without a schedule |"
    )
    assert shown.splitlines()[2:] == [
        "| net | PyTorch | 3.00 | 2.50 | 0.50 | - |",
        "| net | costhub | 3.00 | 2.50 | 0.50 | 0.25 |",
    ]


def test_without_rows_of_engines_it_says_so() -> None:
    assert engines_table({"rows": []}) == engine_profiles_table({"profiles": []}) == "Not measured yet."


def zero_trial_row(subject: str, method: str, gain: float | None, **facts: Any) -> dict[str, Any]:
    return {"subject": subject, "method": method, "seed": 0, "trials": 0, "best_us": 1.0, "gain": gain, **facts}


def test_gains_are_geometric_means_and_kernels_without_a_schedule_are_counted() -> None:
    rows = [
        zero_trial_row("a", LIGHT, 1.0, trials=512),
        zero_trial_row("a", "model alone", 2.0, kernels=[{"seconds": 1.0}, {"seconds": 3.0}]),
        zero_trial_row("b", "model alone", 0.5, kernels=[{"seconds": 2.0}]),
        zero_trial_row("c", "model alone", None, kernels=[]),
    ]
    lines = zero_trials_table({"rows": rows}).splitlines()

    assert lines[2] == "| stock (start-up removed) | 512 | 1 | 0 | 1.000 | 1.000 | - |"
    assert lines[3] == "| model alone | 0 | 3 | 1 | 1.000 | 0.500 | 2.0 |"
    assert lines[7:] == ["| a | 1.000 | 2.000 |", "| b | - | 0.500 |", "| c | - | - |"]


def test_no_rows_are_no_table() -> None:
    assert zero_trials_table({"rows": []}) == "Not measured yet."


def seconds_row(command: str, seed: int, seconds: float, **more: Any) -> dict[str, Any]:
    row = {"command": command, "network": "net", "trials": 16 if command == "tune" else 0, "seed": seed}
    row |= {"seconds": seconds, "error": None, "kernels": 4, "kernels_s": None, "kernel_aim_s": None, "measured": 64}
    return row | {"stages": {"start": 1.0, "other": seconds - 1.0}, "latencies_us": {"tuned": 2500.0}} | more


def test_each_command_has_a_table_with_a_column_for_each_network() -> None:
    rows = [seconds_row("tune", seed, seconds, aim_s=90.0, before_s=328.0) for seed, seconds in ((0, 80.0), (1, 100.0))]
    rows += [seconds_row("tune", 0, 7.0, network="other", error="Its outputs differ.")]
    rows += [seconds_row("compile", 0, 20.0, kernels_s=10.0, kernel_aim_s=3.0, measured=0, latencies_us={})]

    tuned, compiled = network_seconds_table({"rows": rows}).split("\n\n")

    assert tuned.splitlines()[0] == "| `costhub tune`, seconds | net, 16 trials | other, 16 trials |"
    assert tuned.splitlines()[2:] == [
        "| **from start to exit** | **90** (80 to 100) | **7** |",
        "| aim | 90 | - |",
        "| version 0.1.0, AMD EPYC (Zen 4) | 328 | - |",
        "| starting Python, checking names | 1.0 | 1.0 |",
        "| other | 89.0 | 6.0 |",
        "| kernels | 4 | 4 |",
        "| programs measured | 64 | 64 |",
        "| tuned (ms) | 2.50 | 2.50 |",
        "| outputs wrong | 0 of 2 | 1 of 1 |",
    ]
    assert compiled.splitlines()[0] == "| `costhub compile`, seconds | net |"
    assert compiled.splitlines()[-4:] == [
        "| kernels | 4 |",
        "| for each kernel | 2.5 |",
        "| aim for each kernel | 3.0 |",
        "| outputs wrong | 0 of 1 |",
    ]


def test_seconds_that_nobody_measured_are_no_table() -> None:
    assert network_seconds_table({"rows": []}) == "Not measured yet."
