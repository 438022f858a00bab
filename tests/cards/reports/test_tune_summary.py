"""What a terminal shows of a search."""

from __future__ import annotations

from typing import Any

import pytest

from costhub.cards.reports.tune_summary import summary_text


def row(name: str, **more: Any) -> dict[str, Any]:
    times = {"trials": 8, "failures": 0, "seconds": 10.0, "untuned_us": None, "best_us": 10.0, "share_after": 0.5}
    return {"workload": name, "weight": 2.0, **times, "curve": [[1, 20.0], [8, 10.0]], "gflops": 50.0, **more}


def report(**more: Any) -> dict[str, Any]:
    latencies = {form: {"median_us": us} for form, us in (("tuned", 2e3), ("torch", 4e3), ("untuned", 4e5))}
    net = {
        "network": "net",
        "threads": 2,
        "error": None,
        "library": "out/net.so",
        "reference": "torch",
        "tolerance": 2e-4,
        "latencies": latencies,
        "notes": ["torch.compile was not timed."],
    }
    rows = [row(f"k{i}", share_after=i / 100) for i in range(9)]
    facts = {"device": "one", "model": "m", "method": "how", "database": "out"}
    return {**facts, "networks": [net], "workloads": rows, **more}


def test_a_network_is_shown_beside_pytorch_with_its_slowest_kernels() -> None:
    text = summary_text(report(peak_gflops=100.0))

    assert text.startswith("net, 2 threads. 2.00 ms: 2.0 times as fast as PyTorch (4.00 ms).\n")
    assert "  PyTorch             4.00 ms  costhub is 2.00 times as fast\n" in text
    assert "  TVM without tuning   400 ms  costhub is 200 times as fast\n" in text
    assert "Outputs equal PyTorch's (tolerance 0.0002 of their size).\n" in text
    assert "torch.compile was not timed." in text
    assert "\nkernel  share  calls  tuned (us)  GFLOP/s  of peak  programs\n" in text
    assert all(f"\nk{i} " in text for i in range(9))
    assert "more kernel" not in text
    assert "\nPeak: 100 GFLOP/s in float32.\n" in text
    assert "72 programs of 9 kernels measured in 90 s." in text
    assert text.endswith("library   out/net.so\nreport    out/report.html\ndatabase  out")


def test_other_engines_are_shown_with_their_precision() -> None:
    timed = report()
    timed["networks"][0]["latencies"] |= {"openvino-float32": {"median_us": 3e3}, "onnxruntime": {"median_us": 1e3}}

    text = summary_text(timed)

    assert "  ONNX Runtime        1.00 ms  costhub is 0.50 times as fast\n" in text
    assert "  OpenVINO (float32)  3.00 ms  costhub is 1.50 times as fast\n" in text


def test_of_many_kernels_the_terminal_says_how_much_of_the_time_it_leaves_out() -> None:
    text = summary_text(report(workloads=[row(f"k{i:02}", share_after=i / 100) for i in range(14)]))

    assert [f"\n{name} " in text for name in ("k13", "k04", "k03")] == [True, True, False]
    assert "\nand 4 more kernels (6% of the time)\n" in text


def test_kernels_that_add_up_to_more_than_the_network_are_explained() -> None:
    slow = report(workloads=[row("k0", best_us=4000.0, curve=[[1, 4000.0]])])
    slow["networks"][0]["kernels_tuned"] = 1

    text = " ".join(summary_text(slow).split())
    assert "add up to 8.00 ms; the network takes 2.00 ms." in text
    assert "so the sum can be larger." in text


def test_a_search_that_a_rule_ended_says_so() -> None:
    stopped = {"said": "One more batch would bring little. Measuring ended after 96 of 288 trials."}

    text = " ".join(summary_text(report(stopped=stopped)).split())

    assert stopped["said"] in text
    assert "Measuring ended" not in summary_text(report(stopped=None))


def test_a_kernel_above_the_peak_shows_that_the_probe_was_disturbed() -> None:
    fast = report(peak_gflops=100.0, workloads=[row("k0", gflops=104.0)])

    assert "so other programs disturbed its probe" in " ".join(summary_text(fast).split())
    indexed = " ".join(summary_text({**fast, "peak_source": "index"}).split())
    assert "measured on another machine of this kind" in indexed
    assert "disturbed its probe" not in indexed
    assert "disturbed its probe" not in summary_text(report(peak_gflops=1e6, workloads=[row("k0", gflops=104.0)]))


def test_a_search_that_spent_all_trials_says_so() -> None:
    spent = sum(each["trials"] for each in report()["workloads"])

    assert f"The search ended when all {spent:,} trials were spent." in summary_text(report(cap=spent))
    assert "were spent" not in summary_text(report(cap=spent + 1))
    assert "were spent" not in summary_text(report())


def test_workloads_are_a_table_without_a_headline() -> None:
    text = summary_text(report(networks=[], workloads=[row("matmul", failures=2, failed_as={"run_error": 2})]))

    assert text.startswith("workload  tuned (us)  GFLOP/s  programs  failed\n")
    assert "matmul, failed: 2 x run_error." in text
    assert "library" not in text


def test_plain_loops_are_shown_on_request() -> None:
    assert "unscheduled (us)" not in summary_text(report())
    assert "unscheduled (us)" in summary_text(report(networks=[], workloads=[row("matmul", untuned_us=99.0)]))


def test_a_wrong_network_is_said_to_differ() -> None:
    wrong = report()
    wrong["networks"][0] |= {"error": "The outputs differ.", "library": None}
    text = summary_text(wrong)

    assert text.startswith("net, 2 threads. The outputs differ.\n")
    assert "Outputs equal" not in text
    assert "library" not in text


def test_only_what_the_last_search_found_is_shown() -> None:
    summary = report(earlier=[{"device": "one", "workloads": [f"k{i}" for i in range(8)]}])
    text = summary_text(summary, networks=0)

    assert "net, 2 threads" not in text
    assert "k8" in text
    assert "k7" not in text


@pytest.mark.parametrize("load", [1.0, 9.0])
def test_a_busy_machine_is_named(load: float) -> None:
    text = " ".join(summary_text(report(load_average=load, cores=2)).split())
    alone = " ".join(summary_text(report(load_average=load, cores=2, networks=[])).split())

    said = f"Measured while other programs ran (load average {load}, 2 cores): no result to cite."
    assert (f"2.00 ms, PyTorch 4.00 ms. {said} costhub" in text) == (load > 2)
    assert ("times as fast as PyTorch" in text) != (load > 2)
    assert alone.startswith(said) == (load > 2)
    assert ("Other programs were running" in text) == (load > 2)


def test_names_of_strangers_do_not_reach_the_terminal() -> None:
    text = summary_text(report(workloads=[row("\x1b[2Jconv", failed_as={"\x1b": 1})], database="out\x1b"))

    assert "\x1b" not in text
