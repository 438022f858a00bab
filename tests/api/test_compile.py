"""`costhub.compile`: from workloads and networks to libraries, with the embedded hub and without measuring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import costhub
from costhub.api.compile import Compilation, CompileOptions, _remove_libraries, check_folder, compile
from costhub.collector.device.local import local_target
from costhub.collector.run.evaluator import on_host
from costhub.collector.run.output_check import relaid
from costhub.collector.workloads.suites import SuiteWorkload, find_workload
from costhub.dataset.metaschedule.lines import UNMEASURED_S
from costhub.dataset.workload import argument_shapes, module_to_json, parse_target
from costhub.errors import ArgumentError, CosthubError, DataError, NetworkError, UnknownNameError
from costhub.search.database import SearchDatabase
from costhub.search.strategies.search_space import read_records

QUICK = CompileOptions(pool=16)
CONV = SuiteWorkload("made", "conv2d", (1, 14, 14, 16, 32, 3, 1, 1))
ARM = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72", "num-cores": 4}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compilation:
    """A matrix product that the hub knows, and a small convolution that it does not."""
    what = {"product": find_workload("matmul.128x128x128").module(), "conv": CONV.module()}
    return compile(what, tmp_path_factory.mktemp("compiled") / "out", options=QUICK, progress=False)


def test_each_kernel_has_a_schedule_whose_outputs_are_right(compiled: Compilation) -> None:
    product, conv = compiled.kernels

    assert [each.check for each in (product, conv)] == ["compared", "compared"]
    assert product.source in ("measured", "carried over", "model's choice")
    assert conv.source in ("carried over", "model's choice"), "nobody has measured it"
    assert conv.counts["measured"] == 0 < conv.counts["carried over"]
    assert product.counts["measured"] > 0
    assert 1 <= (conv.rank or 0) <= sum(conv.counts.values())
    assert [each.space for each in (product, conv)] == ["default", "default"]


def test_the_library_computes_the_convolution(compiled: Compilation) -> None:
    import tvm

    kernel = compiled.kernels[1]
    mod = CONV.module()
    arrays = on_host(argument_shapes(mod))
    database = SearchDatabase(compiled.database).database
    (record,) = read_records(database, target(), database.commit_workload(mod), unmeasured=True)
    scheduled = tvm.s_tir.Schedule(mod)
    record.record.trace.apply_to_schedule(scheduled, remove_postproc=False)
    laid = relaid(arrays, module_to_json(scheduled.mod), [shape for _, shape in kernel.arguments])
    tensors = [tvm.runtime.tensor(value) for value in laid]
    tvm.runtime.load_module(str(compiled.libraries["conv"]))["main"](*tensors)

    data, weight = (np.asarray(array, np.float64) for array in arrays[:2])
    padded = np.pad(data, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    expected = np.einsum("nhwcij,ijco->nhwo", windows, weight)
    np.testing.assert_allclose(tensors[-1].numpy(), expected, rtol=1e-4)


def target() -> Any:
    return parse_target(json.dumps(local_target()))


def test_stock_tvm_compiles_from_the_database_and_a_search_does_not_take_it_for_a_measurement(
    compiled: Compilation,
) -> None:
    from tvm.s_tir import meta_schedule as ms

    mod = CONV.module()
    database = ms.database.JSONDatabase(work_dir=str(compiled.database))
    assert ms.tir_integration.compile_tir(database, mod, target()) is not None
    seconds = [float(s) for record in database.get_all_tuning_records() for s in record.run_secs]
    assert seconds == [UNMEASURED_S] * 2
    assert SearchDatabase(compiled.database).records(mod, target()) == []


def test_the_report_has_the_call_that_repeats_it_but_for_modules_in_memory(compiled: Compilation) -> None:
    assert compiled.summary["command"] == (
        f"costhub.compile(what, {str(compiled.out)!r}, model={compiled.summary['model']!r}, "
        "device='auto', seed=0, options=costhub.CompileOptions(pool=16))"
    )


def test_the_report_holds_what_was_said(compiled: Compilation) -> None:
    report = json.loads((compiled.out / "report.json").read_text())

    assert report == json.loads(json.dumps(compiled.summary))
    assert (report["costhub"], report["version"], report["runs_here"]) == ("compile report", 1, True)
    assert [row["workload"] for row in report["workloads"]] == ["product", "conv"]
    stages = report["stages"]
    assert stages.keys() == {"opening", "scheduling", "finishing", "other"}
    own = sum(sum(row["stages"].values()) for row in report["workloads"])
    assert 0.0 < own < stages["scheduling"]
    text = str(compiled)
    assert text.startswith("kernel ")
    assert "Nothing was measured. Of 2 schedules" in text
    assert str(compiled.libraries["conv"]) in text


def test_a_compilation_converts_to_pandas_with_a_row_per_kernel(compiled: Compilation) -> None:
    frame = compiled.to_pandas()

    assert list(frame["workload"]) == ["product", "conv"]
    for (_, row), kernel in zip(frame.iterrows(), compiled.kernels, strict=True):
        assert (row["source"], row["rank"], row["check"]) == (kernel.source, kernel.rank, kernel.check)
        assert row["programs"] == sum(kernel.counts.values())
        assert row["library"] == str(compiled.libraries[kernel.workload])


def test_what_a_search_has_written_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, report = tmp_path / "out", json.dumps({"costhub": "tuning report"})

    def search(*_: Any, **__: Any) -> list[Any]:
        out.mkdir()
        (out / "report.json").write_text(report)
        return []

    monkeypatch.setattr("costhub.api.compile.network_jobs", search)
    with pytest.raises(DataError, match="holds the results of something else"):
        compile("matmul.128x128x128", out)
    assert (out / "report.json").read_text() == report


def test_a_compilation_replaces_an_earlier_one_and_nothing_else(compiled: Compilation, tmp_path: Path) -> None:
    check_folder(compiled.out)
    check_folder(tmp_path / "new")
    (tmp_path / "report.json").write_text(json.dumps({"costhub": "tuning report"}))
    with pytest.raises(DataError, match="holds the results of something else, such as `costhub tune`"):
        compile("matmul.128x128x128", tmp_path)
    (tmp_path / "report.json").write_text("torn")
    with pytest.raises(DataError, match="Choose another folder"):
        check_folder(tmp_path)
    (tmp_path / "report.json").write_text(json.dumps({"costhub": "compile report", "version": 99}))
    with pytest.raises(DataError, match="99"):
        check_folder(tmp_path)
    (tmp_path / "report.json").unlink()
    (tmp_path / "database_workload.json").touch()
    with pytest.raises(DataError, match="Choose another folder"):
        check_folder(tmp_path)


def test_options_of_networks_are_refused_for_kernels(tmp_path: Path) -> None:
    for changed in ({"precision": "bf16"}, {"fast_math": True}):
        with pytest.raises(ArgumentError, match="change how the operators of a network become kernels"):
            compile("matmul.128x128x128", tmp_path / "out", options=CompileOptions(**changed), progress=False)
    assert not (tmp_path / "out").exists()


def test_an_interrupted_compilation_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(job: Any, *_: Any) -> None:
        (tmp_path / "database_workload.json").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr("costhub.search.zero_trials.compile._Kernel.begin", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compile("matmul.128x128x128", tmp_path, options=QUICK, progress=False)

    check_folder(tmp_path)


def test_a_workload_is_not_a_network(compiled: Compilation) -> None:
    with pytest.raises(NetworkError, match="Which network: none is for this machine"):
        compiled.load()


def test_an_unknown_layout_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="plain"):
        compile("matmul.128x128x128", tmp_path / "out", options=CompileOptions(layout="plan"))

    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ("blokced", "no design space named 'blokced'. Did you mean blocked"),
        ("cuda", "for cuda targets, but this one is of kind llvm"),
        ("no_such_rules:space", "No module named 'no_such_rules'"),
    ],
)
def test_a_space_that_cannot_be_is_refused_before_anything_starts(tmp_path: Path, space: str, words: str) -> None:
    with pytest.raises(CosthubError, match=words):
        compile("matmul.128x128x128", tmp_path / "out", options=CompileOptions(space=space))

    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_schedules_are_from_the_space_that_was_asked_for(tmp_path: Path, marked_space: str, is_marked: Any) -> None:
    options = CompileOptions(pool=8, space=marked_space)
    made = compile("matmul.128x128x128", tmp_path, options=options, progress=False)

    (kernel,) = made.kernels
    assert (kernel.space, kernel.source, kernel.check) == (marked_space, "model's choice", "compared")
    assert is_marked(tmp_path) == [True]
    assert (made.summary["plan"]["space"], made.summary["workloads"][0]["space"]) == (marked_space, marked_space)


def test_an_unknown_source_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="'guessed' is not a source"):
        compile("matmul.128x128x128", tmp_path / "out", options=CompileOptions(sources=("guessed",)))
    with pytest.raises(ArgumentError, match=r"not a text: \('measured',\)"):
        compile("matmul.128x128x128", tmp_path / "out", options=CompileOptions(sources="measured"))  # type: ignore[arg-type]
    assert costhub.compile is compile
    assert list(tmp_path.iterdir()) == []


def test_for_another_architecture_it_is_built_to_an_object_or_a_library(tmp_path: Path) -> None:
    made = compile("matmul.128x128x128", tmp_path, device=json.dumps(ARM), options=QUICK, progress=False)

    (kernel,) = made.kernels
    assert (kernel.check, kernel.error) == ("built", None)
    header = made.libraries["matmul.128x128x128"].read_bytes()[:20]
    assert header[:4] == b"\x7fELF"
    assert int.from_bytes(header[18:20], "little") == 183, "the number of AArch64 in ELF"
    assert "another machine" in str(made)


def test_a_missing_linker_is_told_before_the_kernels_are_extracted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def extracted(*_: Any, **__: Any) -> Any:
        assert "resnet-18 will not be compiled as a whole: no linker for aarch64-linux-gnu" in caplog.text
        raise KeyboardInterrupt

    monkeypatch.setattr("costhub.search.zero_trials.compile.can_link", lambda _: False)
    monkeypatch.setattr("costhub.api.compile.network_jobs", extracted)
    with pytest.raises(KeyboardInterrupt):
        compile("resnet18", tmp_path, device=json.dumps(ARM), options=QUICK, progress=False)


def test_a_workload_without_a_known_schedule_says_so(tmp_path: Path) -> None:
    mod = SuiteWorkload("made", "matmul", (17, 19, 23)).module()
    made = compile({"odd": mod}, tmp_path, options=CompileOptions(sources=("measured",)), progress=False)

    (kernel,) = made.kernels
    assert (kernel.source, kernel.library) == (None, None)
    assert "No source has a schedule for this workload" in (kernel.error or "")
    assert "odd: No source has a schedule" in str(made)


@pytest.mark.slow
def test_a_network_is_compiled_compared_and_loaded(tmp_path: Path) -> None:
    import torch

    network = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64)).eval()
    example = torch.randn(32, 256)
    made = compile(torch.export.export(network, (example,)), tmp_path, options=QUICK, progress=False)

    (whole,) = made.networks
    assert (whole.error, whole.latencies) == (None, {})
    assert whole.kernels_tuned == len(made.kernels) > 0
    torch.testing.assert_close(made.load()(example), network(example).detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "report",
    [
        {"workloads": [1, None, "x", {"library": 7}, {"library": "a\0.so"}, {"library": "x/.."}], "networks": None},
        {"workloads": {"library": "a.so"}, "networks": [[]]},
        {"workloads": [{"library": "../own.txt"}, {"library": "report.json"}]},
    ],
)
def test_a_report_of_somebody_else_removes_nothing_but_libraries(tmp_path: Path, report: dict[str, Any]) -> None:
    out, own = tmp_path / "out", tmp_path / "own.txt"
    out.mkdir()
    for path in (own, out / "own.txt", out / "old.so"):
        path.write_text("x")
    listed = [*(report["workloads"] if isinstance(report["workloads"], list) else ()), {"library": "/away/old.so"}]
    text = json.dumps({"costhub": "compile report", "version": 1, **report, "networks": listed})
    (out / "report.json").write_text(text)

    check_folder(out)
    _remove_libraries(out)

    assert own.exists()
    assert sorted(path.name for path in out.iterdir()) == ["own.txt", "report.json"]


def test_a_library_is_not_written_through_a_link(tmp_path: Path) -> None:
    own = tmp_path / "own.txt"
    own.write_text("x")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "softmax.64x1000.so").symlink_to(own)

    found = compile("softmax.64x1000", tmp_path / "out", options=QUICK, progress=False)

    assert own.read_text() == "x"
    assert not found.libraries["softmax.64x1000"].is_symlink()
