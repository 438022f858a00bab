"""The report of a search as a page: what it says, whatever kernels and networks are called."""

from __future__ import annotations

import copy
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from costhub.cards.reports.tune import tune_markdown, tune_page, tune_pictures
from costhub.cards.reports.tune_history import with_earlier
from costhub.errors import DataError

outline: Any = runpy.run_path(str(Path(__file__).parents[1] / "page_outline.py"))["outline"]


def latency(us: float) -> dict[str, Any]:
    return {"median_us": us, "low_us": us * 0.9, "high_us": us * 1.2, "calls": 40}


def row(name: str, **more: Any) -> dict[str, Any]:
    stages = {"evolution": 5.0, "building": 2.0, "running": 3.0}
    return {
        "workload": name,
        "weight": 2.0,
        "trials": 64,
        "failures": 1,
        "seconds": 10.0,
        "untuned_us": None,
        "best_us": 100.0,
        "share_after": 0.75,
        "gflops": 180.0,
        "measured_us": [400.0, None, *[120.0] * 61, 100.0],
        "stages": stages,
        "curve": [[1, 400.0], [20, 120.0], [64, 100.0]],
        **more,
    }


def report(kernel: str = "conv", network: str = "net") -> dict[str, Any]:
    whole = {
        "network": network,
        "threads": 2,
        "error": None,
        "library": f"out/{network}.so",
        "reference": "torch",
        "tolerance": 2e-4,
        "inputs": [["float32", [1, 3, 8, 8]]],
        "kernels": 5,
        "kernels_tuned": 2,
        "latencies": {"untuned": latency(900_000.0), "tuned": latency(3000.0), "torch": latency(4500.0)},
        "notes": [f"{network} was not timed."],
    }
    return {
        "device": "acme-one",
        "machine": "ACME One, 2 cores",
        "model": "acme/model",
        "method": "search",
        "model_reason": "It is the only one.",
        "database": "out",
        "command": f"costhub tune {network}",
        "created": "2026-01-02T03:04:05+00:00",
        "versions": {"tvm": "0.27"},
        "networks": [whole],
        "peak_gflops": 720.0,
        "workloads": [row("matmul", share_after=0.25, gflops=None), row(kernel)],
    }


def test_the_page_shows_the_network_beside_pytorch() -> None:
    page = outline(tune_page(report()))

    assert "3.00 ms: 1.5 times as fast as PyTorch (4.50 ms)." in page.text
    assert "Outputs equal PyTorch's (tolerance 0.0002 of their size)." in page.text
    assert "128 programs of 2 kernels measured in 20 s, 2 of them failed." in page.text
    assert "1.50 times as long" in page.text
    assert "2 of its 5 distinct kernels" in page.text
    assert "costhub.load_network('out/net.so', threads=2)" in page.text
    assert "tvm.runtime.load_module('out/net.so')" in page.text
    assert "costhub tune net" in page.text
    assert "75.0%" in page.text
    assert "25%" in page.text  # 180 of 720 GFLOP/s
    assert page.tags.count("svg") == 3  # all kernels, and a curve of each


def test_bars_are_scaled_by_what_people_would_use_instead() -> None:
    """The untuned form takes 300 times as long: a bar of it would leave nothing of the others."""
    page = outline(tune_page(report()))
    widths = [value for name, value in page.attributes if name == "style" and value.startswith("width: ")]

    assert widths[:2] == ["width: 55.56%", "width: 83.33%"]
    assert "TVM without tuning takes 900 ms, 300 times as long" in page.text


def test_further_forms_have_bars_of_their_own() -> None:
    summary = report()
    summary["networks"][0]["latencies"] |= {"onnxruntime": latency(4000.0), "acme": latency(5000.0)}
    text = tune_markdown(summary)

    assert (
        "| costhub | 3.00 ms | 2.70 ms to 3.60 ms |  |\n| PyTorch | 4.50 ms | 4.05 ms to 5.40 ms | 1.50 times as long |"
        in text
    )
    assert "| ONNX Runtime | 4.00 ms | 3.60 ms to 4.80 ms | 1.33 times as long |\n| acme | 5.00 ms | 4.50 ms to" in text


def test_kernels_that_take_most_of_the_time_come_first_and_the_rest_on_request() -> None:
    summary = report()
    summary["workloads"] = [row(f"k{i}", share_after=i / 300) for i in range(25)]
    page = outline(tune_page(summary))

    assert "4 of 25 kernels take 30% of the time of all of them." in page.text
    assert page.text.index("k24") < page.text.index("k13") < page.text.index("The other 13 kernels")
    assert page.text.index("The other 13 kernels") < page.text.index("k12")
    assert "13 more kernels are not drawn" in page.text


def test_a_reader_sees_whether_more_trials_pay() -> None:
    slow = row("a", curve=[[1, 200.0], [40, 160.0], [64, 100.0]])
    assert (
        "The last quarter of the programs lowered the time by 37.5%, the last half by 50.0%. "
        "A trial is one measured program; the same command with more trials goes on from here."
    ) in outline(tune_page({**report(), "networks": [], "workloads": [slow]})).text


def test_a_busy_machine_is_named_beside_the_figures() -> None:
    assert "Other programs were running" not in tune_markdown(report())
    busy = {**report(), "load_average": 9.04, "cores": 2}
    load = "load average 9.0, 2 cores"
    said = f"Measured while other programs ran ({load}): no result to cite."
    assert f"Other programs were running ({load})" in outline(tune_page(busy)).text
    for text in (outline(tune_page(busy)).text, tune_markdown(busy).replace("\\", "")):
        assert f"3.00 ms, PyTorch 4.50 ms. {said}" in text
    assert f"matmul 100 µs. {said}" in outline(tune_page({**busy, "networks": []})).text


def test_a_network_of_a_busy_search_stays_marked_after_a_quiet_one() -> None:
    busy = {**report(), "load_average": 9.04, "cores": 2}
    quiet = {**report(), "networks": [], "workloads": [row("relu", device="acme-one")]}
    quiet |= {"load_average": 0.2, "cores": 2}

    page = outline(tune_page(with_earlier(quiet, busy)))

    assert page.text.count("no result to cite") == 1
    assert "ran when the search began (load average 9.0, 2 cores)" in page.text


def test_effort_of_several_networks_is_said_once() -> None:
    two = report()
    two["networks"].append({**copy.deepcopy(two["networks"][0]), "network": "other"})

    assert outline(tune_page(two)).text.count("128 programs of 2 kernels measured") == 1


def test_the_sum_of_the_kernels_and_the_origin_of_the_peak_are_said() -> None:
    page = outline(tune_page({**report(), "peak_source": "index"}))

    assert "times their calls, add up to 400 µs; the network takes 3.00 ms." in page.text
    assert page.text.count("720 GFLOP/s in float32, from costhub's index of devices, not measured on this") == 2
    assert "as probed" not in page.text


def test_it_fetches_nothing_and_ids_are_unique() -> None:
    two = report()
    two["networks"].append({**copy.deepcopy(two["networks"][0]), "network": "other"})
    page = outline(tune_page(two))

    assert not {"link", "img", "iframe", "object"} & set(page.tags)
    assert page.tags.count("script") == 1  # its own, which copies lines; the page's policy names its hash
    addresses = [value for name, value in page.attributes if name in ("href", "xlink:href", "src")]
    assert all(value.startswith("#") for value in addresses)
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", "a&b", '"><b onload="x">', "$x$", "\x1b[2J", "</pre>", "k" * 300]
)
def test_names_of_strangers_are_only_text(name: str) -> None:
    page = outline(tune_page(report(kernel=name, network=name)))

    assert "b" not in page.tags
    assert page.tags.count("script") == 1
    assert "onload" not in [attribute for attribute, _ in page.attributes]
    assert name in page.text or "\x1b" in name


def test_names_of_strangers_are_only_text_in_markdown_too() -> None:
    name = "<img src=x onerror=alert(1)> | `a`\n# b"
    text = tune_markdown(report(kernel=name, network=name), plots={"kernels": "plots/kernels.svg"})
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    inside = [child for token in tokens for child in token.children or []]

    assert not [token for token in [*tokens, *inside] if token.type.startswith("html")]
    assert all("alert" not in token.content for token in tokens if token.type == "code_inline")
    rows = [child.content for child in inside if child.type == "text" and "<img" in child.content]
    assert rows
    assert [t.attrs["src"] for t in inside if t.type == "image"] == ["plots/kernels.svg"]


def test_a_network_that_failed_is_told_without_figures() -> None:
    summary = report()
    summary["networks"][0] |= {"error": "The outputs are <wrong>.", "library": None, "latencies": {}}
    page = outline(tune_page(summary))

    assert "The outputs are <wrong>." in page.text
    assert "load_" not in page.text


def test_workloads_without_a_network_have_a_page_too() -> None:
    two = outline(tune_page({**report(), "networks": []}))
    one = outline(tune_page({**report(), "networks": [], "workloads": [row("matmul")]}))

    assert "2 workloads on acme-one" in two.text
    assert "2 workloads tuned: conv 100 µs, matmul 100 µs." in two.text
    many = {**report(), "networks": [], "workloads": [row(f"k{i}") for i in range(5)]}
    many["workloads"].append(row("broken", best_us=None, curve=[], share_after=None))
    assert "5 of 6 workloads tuned." in outline(tune_page(many)).text
    assert "128 programs of 2 workloads measured" in two.text
    assert "matmul on acme-one" in one.text
    assert "100 µs, 180 GFLOP/s, 25% of this device's peak." in one.text


def test_a_search_in_which_nothing_ran_has_a_page_too(tmp_path: Path) -> None:
    empty: dict[str, Any] = {"best_us": None, "share_after": None, "curve": [], "gflops": None}
    summary = {**report(), "networks": [], "workloads": [row("conv", **empty, stages={})]}

    page = outline(tune_page(summary))

    assert "No program ran for conv." in page.text
    assert "svg" not in page.tags
    assert tune_pictures(summary, tmp_path) == {}


def test_plain_loops_are_shown_only_where_they_were_timed() -> None:
    assert "unscheduled (µs)" not in tune_markdown(report())
    summary = {**report(), "workloads": [row("conv", untuned_us=900.0)]}
    assert "| conv | 100.0 | 180 | 25% | 900.0 | 64 | 1 |" in tune_markdown(summary)


def test_pictures_for_markdown_lie_beside_it(tmp_path: Path) -> None:
    plots = tune_pictures(report(kernel="<b>.$x$"), tmp_path)

    assert plots == {"progress": "plots/progress.svg", "kernels": "plots/kernels.svg"}
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == ["kernels.svg", "progress.svg"]
    assert "![plots/kernels.svg](plots/kernels.svg)" in tune_markdown(report(), plots=plots)


def test_equal_data_give_equal_pages() -> None:
    assert tune_page(report()) == tune_page(report())


@pytest.fixture
def summary() -> dict[str, Any]:
    conv = {
        "workload": "conv",
        "trials": 64,
        "failures": 3,
        "seconds": 40.25,
        "untuned_us": 900.0,
        "best_us": 100.0,
    }
    matmul = {
        "workload": "matmul",
        "trials": 20,
        "failures": 0,
        "seconds": 10.0,
        "untuned_us": 40.0,
        "best_us": 10.0,
    }
    return {
        "device": "acme-one",
        "model": "costhub/acme-one-mlp",
        "model_reason": "It is the only model for acme-one in the hubs here.",
        "method": "evolutionary search",
        "database": "out/database",
        "versions": {"tvm": "0.27"},
        "workloads": [
            {**conv, "curve": [(1, 0.5, 400.0), (20, 9.0, 120.0), (64, 40.0, 100.0)]},
            {**matmul, "curve": [(1, 0.5, 30.0), (18, 9.0, 10.0)]},
        ],
    }


def test_reports_of_0_1_0_can_be_rendered_again(summary: dict[str, Any]) -> None:
    text = tune_markdown(summary)

    assert "84 programs of 2 workloads measured in 50 s, 3 of them failed." in text
    assert "| conv | 100.0 | 900.0 | 64 | 3 | 16.7% |" in text
    assert "| Model | costhub/acme-one-mlp. It is the only model for acme-one in the hubs here. |" in text
    assert "JSONDatabase(work_dir='out/database')" in text


def test_seconds_are_shown_by_stage_where_they_are_known(summary: dict[str, Any]) -> None:
    assert "Where the time of the search went" not in tune_markdown(summary)
    summary["workloads"][0]["stages"] = {"evolution": 10.0, "features": 4.0, "prediction": 1.0, "running": 25.0}

    text = tune_markdown(summary)

    assert "evolution: 10 s, 25%; features: 4 s, 10%; prediction: 1 s, 2%; running: 25 s, 62%." in text
    assert "| conv | 10.0 | 4.0 | 1.0 | - | - | 25.0 | - |" in text
    assert "| matmul | 10.0 | 4.0" not in text


def test_progress_stops_where_a_search_stopped(summary: dict[str, Any]) -> None:
    text = tune_markdown(summary)

    assert "| workload | 8 (µs) | 16 (µs) | 32 (µs) | 64 (µs) |" in text
    assert "| conv | 400.0 | 400.0 | 120.0 | 100.0 |" in text
    assert "| matmul | 30.0 | 30.0 | - | - |" in text


def test_a_last_trial_that_failed_takes_no_milestone_away(summary: dict[str, Any]) -> None:
    summary["workloads"][0]["curve"].pop()

    text = tune_markdown(summary)

    assert "| workload | 8 (µs) | 16 (µs) | 32 (µs) | 64 (µs) |" in text
    assert "| conv | 400.0 | 400.0 | 120.0 | 120.0 |" in text


def test_a_search_that_found_nothing_says_so(summary: dict[str, Any]) -> None:
    summary["workloads"] = [{**summary["workloads"][0], "best_us": None, "failures": 64, "curve": []}]

    text = tune_markdown(summary)

    assert "No program ran for conv." in text
    assert "| conv | - | 900.0 | 64 | 64 |" in text


@pytest.mark.parametrize("key", ["device", "model", "method", "database", "workloads"])
def test_a_summary_with_a_gap_is_refused(summary: dict[str, Any], key: str) -> None:
    del summary[key]

    with pytest.raises(DataError, match=f"needs {key}, which the summary lacks"):
        tune_markdown(summary)


def test_a_row_with_a_gap_is_refused(summary: dict[str, Any]) -> None:
    del summary["workloads"][1]["best_us"]

    with pytest.raises(DataError, match="needs best_us, which the row of matmul lacks"):
        tune_markdown(summary)


def test_types_that_torch_lacks_are_shown_with_tvm() -> None:
    summary = report()
    summary["networks"] = [{**summary["networks"][0], "inputs": [["uint64", [2]]]}]

    text = tune_markdown(summary)

    assert "np.zeros((2,), 'uint64')" in text
    assert "torch.zeros" not in text


def of_many(kernels: str, network: str) -> dict[str, Any]:
    shares = [0.5, 0.4, *[0.1 / 11] * 11]
    rows = [row(f"{kernels}{i}", share_after=share, device="acme-one") for i, share in enumerate(shares)]
    return {**report(network=network), "workloads": rows}


def test_shares_of_several_searches_are_not_added_up() -> None:
    page = tune_markdown(with_earlier(of_many("j", "second"), of_many("k", "first")))

    shares = [int(found) for found in re.findall(r"take (\d+)% of the time of all", page)]
    assert shares == [90]
    assert "2 of 13 kernels of the last search take 90%" in page


def test_the_picture_shows_what_the_text_speaks_of(tmp_path: Path) -> None:
    new, old = ({**report(), "workloads": [row(name, device="acme-one")]} for name in ("new", "old"))

    plots = tune_pictures(with_earlier(new, old), tmp_path)

    drawn = (tmp_path / plots["kernels"]).read_text()
    assert ("new" in drawn, "old" in drawn) == (True, False)


def test_a_search_that_ended_by_itself_says_how_it_goes_on() -> None:
    ended = {**report(), "stopped": {"rule": "gain", "said": "Enough.", "trials": 64, "cap": 128}}

    assert "with more trials goes on from here" in tune_markdown(report())
    assert "with more trials and --stop never goes on from here" in tune_markdown(ended)
