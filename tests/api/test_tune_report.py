"""The report of a search: three files that say the same."""

from __future__ import annotations

import json
import os
import runpy
import stat
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest

from costhub.api.compile import KIND as COMPILE_REPORT
from costhub.api.tune_report import (
    REPORT,
    TuneReport,
    read_report,
    stopped_before,
    warn_of_other_space,
    warn_of_other_target,
)
from costhub.cards.reports.tune_history import on_target
from costhub.cards.reports.tune_summary import summary_text
from costhub.collector.workloads.suites import find_workload
from costhub.errors import DataError
from costhub.search.options import Job
from costhub.search.result import TuneResult
from costhub.search.whole_network import engines
from costhub.search.whole_network.finish import FinishedNetwork

_MADE = runpy.run_path(str(Path(__file__).with_name("made_results.py")))
RESULTS: list[TuneResult] = _MADE["RESULTS"]
NETWORK: FinishedNetwork = _MADE["NETWORK"]
ABOUT = {"model": "m", "model_reason": "why", "method": "how", "command": "costhub tune conv"}
MISSING = {"PackageNotFoundError": PackageNotFoundError}
DEVICE = {"device_id": "acme", "kind": "cpu", "model_name": "ACME", "cores": 2, "memory_bytes": 1 << 30}


def test_three_reports_are_written_that_say_the_same(tmp_path: Path) -> None:
    weights = {RESULTS[0].workload: 3.0, RESULTS[1].workload: 1.0}
    report = TuneReport(
        RESULTS,
        tmp_path,
        weights,
        ["conv", RESULTS[1].workload, "conv"],
        DEVICE,
        {
            "model": "m",
            "model_reason": "why",
            "method": "how",
            "command": "costhub tune conv",
            "load_average": 9.5,
            "cores": 2,
        },
    )
    summary = report.write([NETWORK], stages={"searching": 2.0})

    assert json.loads((tmp_path / "report.json").read_text()) == json.loads(json.dumps(summary))
    assert summary["networks"][0]["latencies"]["tuned"]["median_us"] == 30.0
    assert summary["estimate"] == [(0, 30.0), (1, 24.0), (2, 23.0), (3, 17.0)]
    assert summary["workloads"][0]["share_before"] == 0.9
    assert summary["stages"] == {"searching": 2.0}
    for name in ("report.md", "report.html"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "30.0 µs per call" in text
        assert "load average 9.5, 2 cores" in text
        assert "ACME, 2 cores, 1 GiB" in text or name == "report.md"
        assert "<b>relu" not in text
    assert [path.name for path in sorted((tmp_path / "plots").iterdir())] == [
        "kernels.svg"
    ]  # a curve needs three points
    assert "![plots/kernels.svg](plots/kernels.svg)" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_the_versions_of_engines_that_were_timed_are_in_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "metadata", SimpleNamespace(version=lambda name: f"1.0 of {name}", **MISSING))
    timed = replace(NETWORK, latencies={**NETWORK.latencies, "openvino-float32": NETWORK.latencies["tuned"]})
    report = TuneReport(RESULTS, tmp_path, dict.fromkeys(("conv", "<b>relu<b>"), 1.0), [], DEVICE, ABOUT)

    assert report.write([timed])["versions"]["openvino"] == "1.0 of openvino"
    assert "OpenVINO (float32)" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "onnxruntime" not in report.write([timed])["versions"]


def test_the_peak_of_a_device_is_the_probed_one(tmp_path: Path) -> None:
    known = {**DEVICE, "device_id": "amd-epyc-zen5-2c"}
    report = TuneReport(RESULTS, tmp_path, dict.fromkeys(("conv", "<b>relu<b>"), 1.0), [], known, ABOUT)

    assert report.write()["peak_gflops"] > 100.0
    assert report.write()["peak_source"] == "index"
    own = TuneReport(RESULTS, tmp_path, dict.fromkeys(("conv", "<b>relu<b>"), 1.0), [], DEVICE, ABOUT)
    assert own.write()["peak_source"] == "probe"
    assert "peak_gflops" in json.loads((tmp_path / "report.json").read_text())


@pytest.mark.parametrize(
    ("mattr", "probed", "peak"),
    [([], {}, 5089.0), (["-amx-bf16"], {}, None), (["-amx-bf16"], {"peak_gflops": 300.0}, 5089.0)],
)
def test_the_peak_of_hidden_matrix_units_is_not_taken_from_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mattr: list[str], probed: dict[str, float], peak: float | None
) -> None:
    indexed = SimpleNamespace(peak_gflops=320.0)
    monkeypatch.setattr("costhub.hub.catalogue.devices.find_device", lambda name: indexed)
    figures = {"peak_gflops": 320.0, "peak_gflops_bfloat16": 5089.0}
    monkeypatch.setattr("costhub.hub.catalogue.devices.complete_device_row", lambda row: {**figures, **row})
    about = {**ABOUT, "target": json.dumps({"kind": "llvm", "mcpu": "sapphirerapids", "mattr": mattr})}
    weights = dict.fromkeys(("conv", "<b>relu<b>"), 1.0)
    report = TuneReport(RESULTS, tmp_path, weights, [], {**DEVICE, **probed}, about)

    assert report.write()["peak_gflops_bfloat16"] == peak


def report_of(names: list[str], out: Path, **more: object) -> TuneReport:
    results = [TuneResult(name, 2, 0, 1.0, 9.0, 5.0, [(1, 0.1, 7.0), (2, 0.2, 5.0)]) for name in names]
    about = {"model": "m", "model_reason": "why", "method": "how", "command": "costhub tune conv", **more}
    return TuneReport(results, out, dict.fromkeys(names, 1.0), [], DEVICE, about, read_report(out))


@pytest.mark.parametrize(("measured", "space"), [(["a"], "llvm"), ([], "blocked")])
def test_a_search_that_measured_nothing_leaves_the_space_as_it_was(
    tmp_path: Path, measured: list[str], space: str
) -> None:
    def searched(drawn_from: str, order: list[str]) -> TuneReport:
        report = report_of(["a"], tmp_path)
        return replace(report, results=[replace(report.results[0], space=drawn_from)], order=order)

    searched("blocked", ["a", "a"]).write()

    assert [row["space"] for row in searched("llvm", measured).write()["workloads"]] == [space]


def test_a_report_keeps_what_earlier_searches_in_its_folder_found(tmp_path: Path) -> None:
    for names, model, networks in ((["a", "b"], "first", [NETWORK]), (["c"], "second", []), (["b"], "third", [])):
        report = report_of(names, tmp_path, model=model)
        summary = report.write(networks)

    assert [row["workload"] for row in summary["workloads"]] == ["b", "c", "a"]
    assert [(search["model"], search["workloads"]) for search in summary["earlier"]] == [
        ("second", ["c"]),
        ("first", ["a"]),
    ]
    assert [network["network"] for network in summary["networks"]] == ["net"]
    assert read_report(tmp_path) == json.loads(json.dumps(summary))
    for name in ("report.md", "report.html"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "30.0 µs per call" in text
        assert text.count("An earlier search in the same folder") == 2
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("is_known", [True, False])
def test_a_search_that_had_nothing_left_to_measure_counts_what_was_measured_before(
    tmp_path: Path, is_known: bool
) -> None:
    weights = {"conv": 1.0}
    if is_known:
        first = TuneResult("conv", 2, 0, 9.0, None, 5.0, [(1, 0.1, 7.0), (2, 0.2, 5.0)], measured_us=[7.0, 5.0])
        TuneReport([first], tmp_path, weights, ["conv", "conv"], DEVICE, {**ABOUT, "cap": 2}).write()
    again = TuneResult("conv", 2, 0, 1.0, None, 5.0, [(2, 0.0, 5.0)], measured_us=[5.0, 7.0])

    report = TuneReport([again], tmp_path, weights, [], DEVICE, {**ABOUT, "cap": 2}, read_report(tmp_path))
    told = summary_text(report.write())

    whose = (
        "2 programs of 1 workload measured in 10 s, all of them by earlier searches."
        if is_known
        else "2 programs of 1 workload, all measured by runs that were interrupted (this one took 1 s)."
    )
    assert whose in " ".join(told.split())
    assert "The search ended when all 2 trials were spent." in told
    assert "0 programs" not in told
    (row,) = json.loads((tmp_path / REPORT).read_text())["workloads"]
    assert row["curve"] == ([[1, 7.0], [2, 5.0]] if is_known else [[2, 5.0]])
    assert whose.rstrip(".") in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        '{"workloads": "all", "device": "d"}',
        '{"device": "d", "model": "m", "method": "h", "database": "x", "workloads": [{"workload": "a"}]}',
        "[" * 100_000,
    ],
)
def test_a_report_that_the_next_one_could_not_keep_is_refused_before_the_search(tmp_path: Path, content: str) -> None:
    (tmp_path / REPORT).write_text(content)

    with pytest.raises(DataError, match="move it away"):
        read_report(tmp_path)
    assert (tmp_path / REPORT).read_text() == content


def test_a_report_of_a_newer_costhub_or_a_pipe_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / REPORT).write_text('{"version": 99}')
    with pytest.raises(DataError, match="Update costhub"):
        read_report(tmp_path)
    (tmp_path / REPORT).unlink()
    os.mkfifo(tmp_path / REPORT)
    with pytest.raises(DataError, match="named pipe"):
        read_report(tmp_path)


METHOD = "evolutionary search, ranked"


def test_a_search_that_proceeds_in_another_way_is_not_the_one_that_ended() -> None:
    told = {"rule": "gain", "why": "w", "trials": 32, "cap": 64, "saved_s": 9.0, "saved_trials": 32, "said": "w"}
    earlier = {"stopped": told, "method": METHOD, "workloads": [{"workload": "conv"}]}

    assert stopped_before(earlier, "gain", 64, ["conv"], METHOD) == told
    assert stopped_before(earlier, "gain", 64, ["conv"], "annealing search, ranked") is None


def test_a_search_that_a_rule_ended_is_not_begun_again_by_the_same_command() -> None:
    told = {"rule": "gain", "why": "w", "trials": 96, "cap": 128, "saved_s": 9.0, "saved_trials": 32, "said": "w"}
    earlier = {"stopped": told, "workloads": [{"workload": "conv"}, {"workload": "relu"}]}

    names = ["conv", "relu"]
    assert stopped_before(earlier, "gain", 128, names, METHOD) == told
    for rule, cap, others in (
        ("never", 128, names),
        ("gain", 256, names),
        ("gain", 128, [*names, "new"]),
        ("gain", 128, ["conv"]),  # of both together: with as many trials in all, one of them gets more
    ):
        assert stopped_before(earlier, rule, cap, others, METHOD) is None
    for wrong in (None, "yes", {**told, "trials": "many"}, {**told, "trials": 0}, {**told, "trials": 129}):
        assert stopped_before({**earlier, "stopped": wrong}, "gain", 128, names, METHOD) is None
    assert stopped_before(None, "gain", 128, names, METHOD) is None


def test_what_ended_the_last_search_of_a_folder_does_not_end_those_before_it() -> None:
    told = {"rule": "gain", "why": "w", "trials": 32, "cap": 64, "saved_s": 9.0, "saved_trials": 32, "said": "w"}
    rows = [{"workload": "last"}, {"workload": "first"}]
    earlier = {"stopped": told, "workloads": rows, "earlier": [{"model": "m", "workloads": ["first"]}]}

    assert stopped_before(earlier, "gain", 64, ["last"], METHOD) == told
    assert stopped_before(earlier, "gain", 64, ["first"], METHOD) is None
    assert stopped_before(earlier, "gain", 64, ["last", "first"], METHOD) is None


def test_a_search_of_the_same_workload_on_another_device_is_not_the_search_that_ended() -> None:
    told = {"rule": "gain", "why": "w", "trials": 32, "cap": 64, "saved_s": 9.0, "saved_trials": 32, "said": "w"}
    rows = [{"workload": "conv", "device": "b"}, {"workload": "conv", "device": "a"}]
    older = [{"device": "a", "workloads": ["conv"]}]
    earlier = {"device": "b", "stopped": told, "workloads": rows, "earlier": older}

    assert stopped_before(earlier, "gain", 64, ["conv"], METHOD) == told
    assert stopped_before({**earlier, "earlier": [{**older[0], "device": "b"}]}, "gain", 64, ["conv"], METHOD) is None


def test_a_search_in_another_space_than_those_before_it_says_what_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mod = find_workload("matmul.128x128x128").module()
    spaces = {"conv": "blocked", "relu": "default", "pool": "default"}
    rows = [{"workload": name, "device": "acme", "space": space} for name, space in spaces.items()]
    of_older_versions = [{"workload": "old"}, {"workload": "older", "device": "acme"}]
    earlier = {"device": "acme", "workloads": [*rows, *of_older_versions]}

    def said(asked: str | None, *names: str, device_id: str = "acme") -> str:
        caplog.clear()
        warn_of_other_space(tmp_path, earlier, asked, device_id, [Job(name, mod) for name in names])
        return "\n".join(caplog.messages)

    assert said("llvm", "conv", "relu", "pool", "new") == (
        f"{tmp_path} holds programs of the same workloads that were drawn from another design space (blocked and "
        "default) and count as trials of this search, which measures fewer programs, or none: to search in llvm only, "
        "choose another folder."
    )
    assert "another design space (blocked) and" in said("default", "conv", "relu")
    assert "to search in default only" in said(None, "conv"), "costhub's choice for a matrix product"
    assert (said("default", "relu", "pool"), said(None, "relu")) == ("", ""), "the same search goes on"
    assert said("llvm", "new") == "", "nothing of this workload was measured"
    assert said("llvm", "conv", device_id="other") == ""
    assert said("llvm", "old", "older") == "", "their reports do not say the space"


def test_records_of_another_target_do_not_count_and_it_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    earlier = {"device": "acme", "target": "with AMX", "workloads": []}
    for report, device_id, target in (
        (None, "acme", "without"),
        ({**earlier, "target": None}, "acme", "without"),
        (earlier, "acme", "with AMX"),
        (earlier, "other", "without"),
    ):
        warn_of_other_target(tmp_path, report, device_id, target)
    assert caplog.messages == []
    assert on_target(earlier, "with AMX") is earlier
    assert on_target(earlier, "without") is None

    warn_of_other_target(tmp_path, earlier, "acme", "without")

    assert [f"{tmp_path} holds a search on acme for another target" in text for text in caplog.messages] == [True]


def test_the_first_search_in_a_folder_says_nothing_of_spaces(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    warn_of_other_space(tmp_path, None, "llvm", "acme", [Job("conv", None)])

    assert caplog.messages == []


def test_the_folder_of_a_compilation_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / REPORT).write_text(json.dumps({"costhub": COMPILE_REPORT, "version": 1, "is_finished": True}))

    with pytest.raises(
        DataError, match=r"`costhub compile` chose without measuring.* choose another folder with --out"
    ):
        read_report(tmp_path)


PICTURES = ("plots/kernels.svg", "plots/progress.svg")


@pytest.mark.parametrize("make", [Path.symlink_to, lambda path, _: os.mkfifo(path)], ids=["link", "pipe"])
def test_a_report_is_written_through_nothing_that_lies_in_the_folder(
    tmp_path: Path, make: Callable[[Path, Path], None]
) -> None:
    own, out = tmp_path / "own", tmp_path / "out"
    names = [*PICTURES, *(f"report.{kind}{end}" for kind in ("md", "html", "json") for end in ("", ".part"))]
    for name in names:
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).write_text("mine")
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        make(out / name, own / name)
    results = [TuneResult(name, 3, 0, 1.0, 9.0, 5.0, [(1, 0.1, 7.0), (3, 0.2, 5.0)]) for name in ("a", "b")]
    TuneReport(results, out, {"a": 1.0, "b": 1.0}, ["a", "b"] * 3, DEVICE, ABOUT).write()

    assert {name: (own / name).read_text() for name in names} == dict.fromkeys(names, "mine")
    for name in (*PICTURES, "report.md", "report.html", "report.json"):
        assert (out / name).lstat().st_size > len("mine")
        assert stat.S_ISREG((out / name).lstat().st_mode)


def test_pictures_are_not_drawn_into_a_folder_elsewhere_and_the_search_does_not_begin(tmp_path: Path) -> None:
    own, out = tmp_path / "own", tmp_path / "out"
    own.mkdir()
    out.mkdir()
    (out / "plots").symlink_to(own)

    with pytest.raises(DataError, match="plots is a symbolic link"):
        read_report(out)
    with pytest.raises(DataError, match="plots is a symbolic link"):
        TuneReport(RESULTS, out, dict.fromkeys(("conv", "<b>relu<b>"), 1.0), [], DEVICE, ABOUT).write()
    assert list(own.iterdir()) == []
