"""What builds and measures, by name."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from costhub.api.compile import CompileOptions
from costhub.api.measuring import (
    BoardsAt,
    call_text,
    check_boards,
    check_limits,
    check_space,
    folder_of,
    local_devices,
    open_measurer,
    warn_if_busy,
)
from costhub.api.subjects import Subjects, named_workloads
from costhub.api.tune import tune
from costhub.collector.boards.server import tracker_server
from costhub.collector.device.identity import identify
from costhub.collector.run.evaluator import Evaluator
from costhub.collector.workloads.suites import find_suites
from costhub.errors import ArgumentError, DeviceError, UnknownNameError, WorkloadError
from costhub.files import CACHE_VARIABLE
from costhub.hub.catalogue.devices import keep_probed_figures, load_devices


def test_a_call_has_what_differs_from_the_defaults_and_can_be_repeated() -> None:
    options = CompileOptions(data=[Path("mine"), "theirs"], pool=64, sources=["measured", "carried", "model"])  # type: ignore[arg-type]
    named = {"device": BoardsAt("h:1", key="k"), "model": Path("models/own"), "progress": False}
    subjects = Subjects(("resnet18", "softmax"), ("a.pt2",))

    text = call_text("compile", subjects, Path("out"), named, replace(options, command="costhub compile"))

    calls: list[Any] = []
    record = SimpleNamespace(
        compile=lambda *given, **rest: calls.append((given, rest)), BoardsAt=BoardsAt, CompileOptions=CompileOptions
    )
    eval(text, {"costhub": record})  # noqa: S307
    [(given, rest)] = calls
    assert given == (["resnet18.*", "softmax", "a.pt2"], "out")  # without .*, it would be the network
    assert rest.pop("options") == CompileOptions(data=("mine", "theirs"), pool=64)
    assert rest == {**named, "model": "models/own"}
    assert call_text("compile", Subjects(("softmax",)), Path("out"), {}, CompileOptions()) == (
        "costhub.compile('softmax', 'out')"
    )


def test_a_folder_has_a_row_for_the_device_that_is_measured(tmp_path: Path) -> None:
    with open_measurer("auto", evaluator=Evaluator(cache_flush=True)) as measurer:
        folder = folder_of(tmp_path / "data", measurer)
        folder_of(tmp_path / "data", measurer)

        assert folder.devices()["device_id"].to_pylist() == [measurer.devices[0].device_id]
        assert measurer.evaluator.cache_flush
        with open_measurer(measurer) as same:
            assert same is measurer
        found = named_workloads(["resnet18"], [], measurer.target)
        assert [each.name for each in found] == [each.name for each in find_suites(["resnet18"])]


def test_no_device_at_all_is_a_sentence() -> None:
    with pytest.raises(DeviceError, match="name at least one, or auto"), open_measurer([]):
        pass


def test_what_is_learned_of_a_device_later_completes_its_row(tmp_path: Path) -> None:
    with open_measurer("auto", evaluator=Evaluator()) as measurer:
        folder = folder_of(tmp_path / "data", measurer)
        (first,) = folder.devices().to_pylist()
        (device,) = measurer.devices
        for peak in (12.5, 99.0):
            now = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
            probed = {**device.row, "peak_gflops": peak, "probed_at": now, "cores": 99}
            measurer.devices = (replace(device, row=probed),)
            folder_of(tmp_path / "data", measurer)

    (row,) = folder.devices().to_pylist()
    assert row == {**first, "peak_gflops": 12.5, "probed_at": row["probed_at"]}, "what was known stays"
    assert row["probed_at"] is not None


def test_the_figures_that_were_probed_here_come_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    probed_at = "2026-11-25T12:00:00+00:00"
    keep_probed_figures({**identify(), "aliases": ["desk"], "peak_gflops": 12.5, "probed_at": probed_at})

    with open_measurer("auto", evaluator=Evaluator()) as measurer:
        (row,) = folder_of(tmp_path / "data", measurer).devices().to_pylist()

    assert (row["peak_gflops"], row["probed_at"].isoformat()) == (12.5, probed_at)
    assert row["aliases"] != ["desk"], "only figures"


def test_an_alias_of_this_machine_stands_for_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    here = str(identify()["device_id"])
    device = replace(load_devices()[0], device_id=here, aliases=("my-desk",))
    monkeypatch.setattr("costhub.hub.catalogue.names.load_devices", lambda: [device])

    assert local_devices("My Desk") == [here]
    assert local_devices(("auto", "my-desk", "toaster")) == ["auto", here, "toaster"]


@pytest.mark.parametrize(("over", "told"), [(-0.5, False), (0.5, True)])
def test_a_machine_with_more_to_do_than_cores_is_named(
    over: float, told: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("costhub.api.measuring.load_average", lambda: (os.cpu_count() or 1) + over)

    warn_if_busy()

    assert ("latencies will be noisy" in caplog.text) is told


def test_boards_are_at_the_address_of_a_tracker() -> None:
    assert local_devices(BoardsAt("127.0.0.1:9190", key="pi4")) == []
    assert (local_devices("cuda"), local_devices(["a", "b"])) == (["cuda"], ["a", "b"])
    with pytest.raises(ArgumentError, match="HOST:PORT"):
        BoardsAt("here", key="pi4")


@pytest.mark.parametrize(
    "call",
    [
        "tune('softmax.64x1000', 'out', trials=0)",
        "collect('softmax.64x1000', 'out', trials=-1)",
        "collect('softmax.64x1000', 'out', budget_s=-1)",
    ],
)
def test_limits_under_which_nothing_is_measured_are_refused_before_heavy_imports(call: str, tmp_path: Path) -> None:
    code = (
        "import sys, costhub\n"
        f"try: costhub.{call}\n"
        "except costhub.errors.ArgumentError as error: print(error)\n"
        "print(sorted({'tvm', 'torch'} & set(sys.modules)))\n"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)

    sentence, loaded = done.stdout.splitlines()
    assert ("is too few: give" in sentence or "is not a time: give" in sentence, loaded) == (True, "[]")
    assert list(tmp_path.iterdir()) == []


def test_a_key_without_boards_is_said_before_the_long_wait(
    free_port: Callable[[], int], caplog: pytest.LogCaptureFixture
) -> None:
    with tracker_server(port=free_port()) as running:
        where = f"127.0.0.1:{running.port}"
        check_boards(BoardsAt(where, "pi4"))

    assert f"The tracker at {where} has no board under the key 'pi4' yet" in caplog.text


def test_options_and_limits_of_another_type_are_sentences() -> None:
    with pytest.raises(ArgumentError, match=r"options is a dict, and costhub\.TuneOptions was expected"):
        tune("matmul.128x128x128", "out", options={"stop": "never"})  # type: ignore[arg-type]
    for trials in ("8", 2.5):
        with pytest.raises(ArgumentError, match=f"trials={trials!r} is not a whole number: give one of at least 1"):
            check_limits(trials)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="budget_s=5s is not a time"):
        check_limits(8, budget_s="5s")  # type: ignore[arg-type]


def test_a_design_space_fits_every_device_or_is_refused(marked_space: str) -> None:
    for space, devices in ((None, ["auto"]), ("sdot", ["auto"]), ("tensor-core", []), (marked_space, ["auto", "cuda"])):
        check_space(space, devices)
    for space, devices, words in (
        ("cuda", ["auto"], "for cuda targets, but this one is of kind llvm"),
        ("blocked", ["auto", "cuda"], "for llvm targets, but this one is of kind cuda"),
        (marked_space.replace(":space", ":lost"), [], "has no attribute 'lost'"),
    ):
        with pytest.raises(WorkloadError, match=words):
            check_space(space, devices)
    with pytest.raises(UnknownNameError, match="Did you mean sdot"):
        check_space("sdott", [])
