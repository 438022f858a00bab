"""`costhub tune`: from a name to a database, a report and a plot, with a real model and a real search."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from costhub.dataset.workload import module_to_json
from costhub.errors import WorkloadError
from costhub.search.database import SearchFolder


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COSTHUB_CACHE", str(tmp_path / "cache"))


def test_a_named_workload_is_tuned_with_the_embedded_model(costhub: Any, tmp_path: Path) -> None:
    out = tmp_path / "tuned"
    output = costhub("tune", "matmul.128x128x128", "--trials", "8", "--out", str(out))

    assert output.code == 0, output.err
    assert "matmul.128x128x128" in output.out
    report = json.loads((out / "report.json").read_text())
    assert report["workloads"][0]["trials"] == 8
    assert report["workloads"][0]["untuned_us"] is None  # only on request
    assert (out / "report.md").read_text().startswith("# matmul.128x128x128 on ")
    assert "matmul.128x128x128" in (out / "plots" / "kernels.svg").read_text()
    assert len((out / "database_tuning_record.json").read_text().splitlines()) == 8


@pytest.mark.slow
def test_a_space_is_searched_by_name_and_said(costhub: Any, tmp_path: Path) -> None:
    out = tmp_path / "tuned"
    output = costhub("tune", "matmul.128x128x128", "--space", "llvm", "--trials", "2", "--out", str(out), "--json")

    assert output.code == 0, output.err
    report = json.loads(output.out)
    assert (report["workloads"][0]["space"], report["workloads"][0]["trials"]) == ("llvm", 2)
    assert "design space: llvm" in report["method"]
    again = costhub("tune", "matmul.128x128x128", "--trials", "2", "--out", str(out))
    assert again.code == 0, again.err
    assert "drawn from another design space (llvm) and count as trials of this search" in " ".join(again.err.split())


def test_a_folder_that_another_search_uses_is_refused_before_anything_starts(
    costhub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("costhub.api.tune.open_measurer", lambda *_: pytest.fail("a measurer was opened"))
    with SearchFolder(tmp_path):
        for what in (["matmul.128x128x128"], ["--network", "resnet18"]):
            output = costhub("tune", *what, "--out", str(tmp_path))
            assert output.code == 2
            assert f"{tmp_path} is being written by another process (pid {os.getpid()})" in output.err


def test_what_is_named_as_a_network_is_a_network(costhub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []

    def noted(what: Any, *_: Any, **__: Any) -> Any:
        found.append(what)
        raise WorkloadError("enough")

    monkeypatch.setattr("costhub.api.tune.tune", noted)
    for words in (["--network", "all"], ["softmax", "--network", "resnet18"]):
        costhub("tune", *words, "--out", str(tmp_path / "t"))

    assert [(each.workloads, each.networks) for each in found] == [((), ("all",)), (("softmax",), ("resnet18",))]
    monkeypatch.undo()
    output = costhub("tune", "--network", "softmax", "--out", str(tmp_path / "t"))
    assert (output.code, "softmax" in output.err) == (2, True)


@pytest.mark.slow
def test_two_workloads_one_after_the_other_are_both_in_the_report(costhub: Any, tmp_path: Path) -> None:
    for name in ("matmul.128x128x128", "softmax.64x1000"):
        output = costhub("tune", name, "--trials", "2", "--out", str(tmp_path))
        assert output.code == 0, output.err

    report = json.loads((tmp_path / "report.json").read_text())
    assert [(row["workload"], row["trials"]) for row in report["workloads"]] == [
        ("softmax.64x1000", 2),
        ("matmul.128x128x128", 2),
    ]
    assert [search["workloads"] for search in report["earlier"]] == [["matmul.128x128x128"]]
    text = (tmp_path / "report.md").read_text()
    assert "| matmul.128x128x128 |" in text
    assert "| softmax.64x1000 |" in text


@pytest.mark.slow
def test_a_killed_search_leaves_no_lock_no_process_and_a_database_to_continue_from(
    costhub: Any, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", "from costhub.cli.main import main; main()", "tune", "matmul.128x128x128"]
    how = ["--trials", "512", "--out", str(tmp_path)]
    with subprocess.Popen([*command, *how], stderr=subprocess.DEVNULL, start_new_session=True) as first:
        records = tmp_path / "database_tuning_record.json"
        deadline = time.monotonic() + 120
        while not records.exists() or len(records.read_bytes().splitlines()) < 4:
            assert first.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        second = costhub("tune", "matmul.128x128x128", "--trials", "2", "--out", str(tmp_path))
        assert (second.code, f"(pid {first.pid})" in second.err) == (2, True)
        children = psutil.Process(first.pid).children(recursive=True)
        first.send_signal(signal.SIGKILL)
    held = records.read_bytes().count(b"\n")
    assert children
    assert psutil.wait_procs(children, timeout=30)[1] == []
    third = costhub("tune", "matmul.128x128x128", "--trials", "2", "--out", str(tmp_path))

    assert third.code == 0, third.err
    (row,) = json.loads((tmp_path / "report.json").read_text())["workloads"]
    assert row["trials"] >= held >= 4


@pytest.mark.slow
def test_the_boards_of_a_tracker_are_tuned_for(costhub: Any, tmp_path: Path, two_boards: tuple[str, str]) -> None:
    tracker, key = two_boards
    where = ("--tracker", tracker, "--key", key, "--out", str(tmp_path / "tuned"))

    output = costhub("tune", "matmul.128x128x128", "--trials", "8", "--time-unscheduled", "--json", *where)

    assert output.code == 0, output.err
    (row,) = json.loads(output.out)["workloads"]
    assert (row["trials"], row["failures"]) == (8, 0)
    assert row["best_us"] < row["untuned_us"]


@pytest.mark.slow
def test_the_model_of_a_gpu_is_taken_for_a_cpu_where_somebody_insists(costhub: Any, tmp_path: Path) -> None:
    how = ("--model", "nvidia-h200", "--trials-per-workload", "2", "--out", str(tmp_path / "tuned"))

    assert costhub("tune", "matmul.128x128x128", *how, "--allow-other-kind").code == 0


def test_the_model_of_a_gpu_is_refused_for_a_cpu(costhub: Any, tmp_path: Path) -> None:
    for option in ("--model", "--draft"):
        output = costhub("tune", "matmul.128x128x128", option, "nvidia-h200", "--out", str(tmp_path / "tuned"))

        assert output.code == 2
        assert "costhub/nvidia-h200-blend is a model for cuda devices, but" in output.err
        assert not (tmp_path / "tuned").exists()


@pytest.mark.slow
def test_a_module_file_is_a_workload_and_a_strategy_has_a_name(costhub: Any, tmp_path: Path) -> None:
    from tvm import te

    a = te.placeholder((64, 512), name="A")
    total = te.compute((64, 512), lambda i, j: a[i, j] * 2.0, name="C")
    path = tmp_path / "double.json"
    import tvm

    path.write_text(module_to_json(tvm.IRModule({"main": te.create_prim_func([a, total])})))
    how = ("--strategy", "random", "--select", "diverse")
    output = costhub("tune", str(path), "--trials", "4", "--out", str(tmp_path / "tuned"), "--json", *how)
    assert output.code == 0, output.err
    report = json.loads(output.out)
    assert report["workloads"][0]["workload"] == "double"
    assert report["method"].startswith("random search, diverse;")


def _two_layers(path: Path) -> Path:
    import torch

    network = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64))
    torch.export.save(torch.export.export(network.eval(), (torch.zeros(32, 256),)), path)
    return path


@pytest.mark.slow
def test_the_kernels_of_a_network_share_the_trials(costhub: Any, tmp_path: Path) -> None:
    path, out = _two_layers(tmp_path / "small.pt2"), tmp_path / "tuned"

    output = costhub("tune", "--network", str(path), "--trials", "8", "--out", str(out), "--json")

    assert output.code == 0, output.err
    report = json.loads(output.out)
    rows = report["workloads"]
    assert len(rows) == 2
    assert sum(row["trials"] for row in rows) == 16
    assert all(row["best_us"] > 0 for row in rows)
    assert len((out / "database_tuning_record.json").read_text().splitlines()) == 16
    (whole,) = report["networks"]
    assert whole["error"] is None
    assert whole["kernels_tuned"] == 2
    assert set(whole["latencies"]) == {"tuned", "torch"}
    assert report["estimate"][-1][0] == 16
    assert (out / "small.so").is_file()
    assert "Outputs equal PyTorch&#39;s" in (out / "report.html").read_text()


@pytest.mark.slow
def test_a_network_is_tuned_and_run_on_boards(costhub: Any, tmp_path: Path, two_boards: tuple[str, str]) -> None:
    tracker, key = two_boards
    path, out = _two_layers(tmp_path / "small.pt2"), tmp_path / "tuned"

    output = costhub(
        "tune", str(path), "--trials", "4", "--tracker", tracker, "--key", key, "--out", str(out), "--json"
    )

    assert output.code == 0, output.err
    (whole,) = json.loads(output.out)["networks"]
    assert set(whole["latencies"]) == {"untuned", "tuned"}
    assert "on a board" in (out / "report.md").read_text()
    assert (out / "small.so").is_file()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["resnet18.c77"], "resnet18.c7"),
        (["nothing.json"], "tvm.ir.save_json"),
        (["nothing.onnx"], "There is no file nothing.onnx"),
        (["--network", "nothing.pt"], "There is no file nothing.pt"),
        (["matmul.128x128x128", "--model", "no-such-device"], "no-such-device"),
        (["matmul.128x128x128", "--draft", "no-such-draft"], "no-such-draft"),
        (["matmul.128x128x128", "--trials", "0"], "trials"),
        (["matmul.128x128x128", "--method", "bref"], "brief"),
        (["matmul.128x128x128", "--strategy", "anealing"], "annealing"),
        (["matmul.128x128x128", "--select", "divers"], "diverse"),
        (["matmul.128x128x128", "--space", "blokced"], "Did you mean blocked?"),
        (["matmul.128x128x128", "--space", "tensor-core"], "is for cuda targets"),
        (["matmul.128x128x128", "--space", "no_such_rules:space"], "PYTHONPATH=. adds this folder"),
        (["matmul.128x128x128", "--device", "amd-epyc-zen9"], "amd-epyc-zen9"),
        (["lstm", "--beside", "tflite"], "'onnxruntime', 'openvino'"),
        (["matmul.128x128x128", "--device", "rocm"], "TVM's wheel is built without ROCm"),
        (["matmul.128x128x128", "matmul.128x128x128"], "two are called matmul.128x128x128"),
        (["matmul.128x128x128", "--tracker", "127.0.0.1:9190"], "--key"),
        (["matmul.128x128x128", "--tracker", "here", "--key", "pi4"], "HOST:PORT"),
        (["matmul.128x128x128", "--device", "cuda", "--tracker", "a:1", "--key", "pi4"], "of this machine"),
        ([], "This does not say what to tune"),
    ],
)
def test_bad_input_is_one_sentence(costhub: Any, tmp_path: Path, arguments: list[str], words: str) -> None:
    output = costhub("tune", *arguments, "--out", str(tmp_path / "tuned"))
    assert output.code == 2
    assert words in output.err
    assert "Traceback" not in output.err
    assert not (tmp_path / "tuned").exists()


@pytest.mark.slow
def test_a_network_whose_outputs_are_wrong_ends_with_a_sentence_after_its_report(
    costhub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from costhub.search.whole_network import finish

    wrong = finish.FinishedNetwork("net", 1, "The outputs of the tuned network net are not torch's.")
    monkeypatch.setattr(finish, "finish_network", lambda *_, **__: wrong)
    out = tmp_path / "tuned"

    # The network is a stand-in that is not looked at: the kernel is tuned by its name.
    monkeypatch.setattr("costhub.api.tune.network_jobs", lambda *_, **__: [])
    output = costhub("tune", "matmul.128x128x128", "--network", "lstm", "--trials", "2", "--out", str(out))

    assert output.code == 1
    assert "are not torch's" in output.err
    assert "are not torch's" in (out / "report.md").read_text()


def test_a_file_that_is_no_module_is_one_sentence(costhub: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"a": 1}')
    output = costhub("tune", str(tmp_path / "bad.json"), "--out", str(tmp_path / "tuned"))
    assert output.code == 2
    assert "not a TVM module" in output.err
