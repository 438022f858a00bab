"""Other engines beside the forms of TVM and torch: refused where missing, timed where they compute the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.errors import CosthubError, MeasureError, NetworkError, UnknownNameError
from costhub.isolation.child import ChildDied
from costhub.search.whole_network import engines
from costhub.search.whole_network.engines import check_engines, engine_versions, export_onnx, load_engines, quiet
from costhub.search.whole_network.finish import finish_network
from costhub.search.whole_network.network_outputs import BF16_TOLERANCE, TOLERANCE
from costhub.search.whole_network.network_timer import NetworkTimer

VALUES = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)


def without(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    monkeypatch.setattr(engines, "find_spec", lambda name: None if name in packages else "here")


@pytest.mark.parametrize(
    ("missing", "names", "sentence"),
    [
        (["openvino"], ["openvino"], "OpenVINO cannot be timed without openvino, which is not installed"),
        (["onnxscript"], ["onnxruntime"], "ONNX Runtime cannot be timed without onnxscript, which is not installed"),
        (
            ["onnxruntime", "onnx", "openvino"],
            ["openvino", "onnxruntime", "openvino"],
            "OpenVINO and ONNX Runtime cannot be timed without openvino, onnxruntime and onnx, which are not installed",
        ),
    ],
)
def test_missing_packages_are_named_in_a_sentence_with_the_command(
    missing: list[str], names: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, *missing)

    with pytest.raises(CosthubError) as raised:
        check_engines(names)

    assert str(raised.value) == f"{sentence}: `pip install 'costhub[engines]'`."


def test_only_what_is_asked_for_has_to_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "openvino")
    check_engines(["onnxruntime"])
    without(monkeypatch, "onnx", "onnxscript", "onnxruntime", "openvino")
    check_engines([])

    with pytest.raises(UnknownNameError, match="Did you mean onnxruntime"):
        check_engines(["onxruntime"])


class Timer:
    """A timer whose forms have computed already."""

    inputs, threads = (VALUES,), 3

    def __init__(self, **outputs: Any) -> None:
        self.outputs = {name.replace("_", "-"): value for name, value in outputs.items()}
        self.forms: list[str] = []
        self.environments: list[dict[str, str]] = []

    def load_form(self, form: str, load: Callable[[], Any], environment: dict[str, str]) -> tuple[Any, ...]:
        if isinstance(self.outputs[form], str):
            raise MeasureError(self.outputs[form])
        self.forms.append(form)
        self.environments.append(environment)
        return (self.outputs[form],)

    def drop(self, form: str) -> None:
        self.forms.remove(form)


def loaded(
    timer: Timer, monkeypatch: pytest.MonkeyPatch, *, precision: str | None = None, export: Any = None
) -> tuple[str, ...]:
    """Notes on both engines.

    Args:
        timer: Holds what they compute.
        monkeypatch: Of the test.
        precision: That OpenVINO chooses; None if it is told to compute in float32.
        export: The error of the exporter.
    """

    def in_child(function: Any, *arguments: Any) -> Any:
        if function is not export_onnx:
            assert arguments == (path, timer.inputs, timer.threads)
            return precision
        assert arguments == ("net.pt2", timer.inputs, path)
        if export:
            raise export
        return None

    path, names = "folder/network.onnx", ["openvino", "onnxruntime"]
    monkeypatch.setattr(engines, "_in_child", in_child)
    by_default = precision is not None
    return load_engines(timer, names, "net.pt2", [VALUES], folder="folder", by_default=by_default)  # type: ignore[arg-type]


def test_engines_that_compute_what_torch_does_are_timed_with_as_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    timer = Timer(onnxruntime=VALUES, openvino_float32=VALUES * np.float32(1 + 0.4 * TOLERANCE))

    assert loaded(timer, monkeypatch) == ()
    assert timer.forms == ["onnxruntime", "openvino-float32"]
    assert timer.environments == [{"OMP_NUM_THREADS": "3"}] * 2


def test_an_engine_that_computes_something_else_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    timer = Timer(onnxruntime=2 * VALUES, openvino_float32=VALUES)

    (note,) = loaded(timer, monkeypatch)

    assert note.startswith("ONNX Runtime was not timed: its outputs are not torch's, output 0 differs in 20 of 20 ")
    assert note.endswith(" (tolerance 0.0002 of their size).")
    assert timer.forms == ["openvino-float32"]


def test_an_engine_that_does_not_run_is_a_note_and_the_other_one_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    timer = Timer(onnxruntime="The network does not run as onnxruntime: no kernel for Foo.", openvino_float32=VALUES)

    assert loaded(timer, monkeypatch) == (
        "ONNX Runtime was not timed. The network does not run as onnxruntime: no kernel for Foo.",
    )
    assert timer.forms == ["openvino-float32"]


@pytest.mark.parametrize("kind", [NetworkError, ChildDied])
def test_an_export_that_fails_is_one_note_for_all_engines(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    timer = Timer()

    assert loaded(timer, monkeypatch, export=kind("ValueError: no Foo in ONNX.")) == (
        "ONNX Runtime and OpenVINO were not timed, since torch cannot export the network to ONNX. "
        "ValueError: no Foo in ONNX.",
    )
    assert timer.forms == []


@pytest.mark.parametrize(
    ("precision", "off", "is_timed"),
    [
        ("bfloat16", 0.5 * BF16_TOLERANCE, True),
        ("float16", 0.1 * TOLERANCE, True),
        ("bfloat16", 1.5 * BF16_TOLERANCE, False),
        ("float32", 0.5 * BF16_TOLERANCE, False),
    ],
)
def test_what_openvino_chooses_is_named_and_may_differ_by_its_rounding(
    precision: str, off: float, is_timed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = f"openvino-{precision}"
    timer = Timer(onnxruntime=VALUES, **{form: VALUES * np.float32(1 + off)})

    (note,) = loaded(timer, monkeypatch, precision=precision)

    assert timer.forms == ["onnxruntime", *[form] * is_timed]
    if is_timed:
        assert note == (
            f"OpenVINO computes in {precision}, as it does by default on this CPU: its outputs differ from PyTorch's "
            f"by {100 * off:.2g} % of their size (root mean square)."
        )
    else:
        assert note.startswith("OpenVINO was not timed: its outputs are not torch's, output 0 differs in 20 of 20 ")


def test_an_unused_choice_in_float32_needs_no_note(monkeypatch: pytest.MonkeyPatch) -> None:
    timer = Timer(onnxruntime=VALUES, openvino_float32=VALUES)

    assert loaded(timer, monkeypatch, precision="float32") == ()
    assert timer.forms == ["onnxruntime", "openvino-float32"]


def test_versions_are_those_of_engines_that_were_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "onnxruntime":
            raise engines.metadata.PackageNotFoundError(name)
        return "2.0"

    monkeypatch.setattr(engines.metadata, "version", version)

    assert engine_versions(["torch", "onnxruntime", "openvino-float32", "openvino-bfloat16"]) == {"openvino": "2.0"}


def test_what_the_exporter_prints_and_warns_of_is_kept_back(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with quiet():
        print("step 1 of 3")
        warnings.warn("torchvision is not installed", stacklevel=1)
        engines.logging.getLogger("torch.onnx").warning("torchvision is not installed")
    engines.logging.getLogger("torch.onnx").warning("heard again")

    assert capsys.readouterr().out == ""
    assert caplog.messages == ["heard again"]


def test_what_torch_cannot_read_is_a_reason(tmp_path: Path) -> None:
    (tmp_path / "not.pt2").write_text("no network")

    with pytest.raises(NetworkError, match=": "):
        export_onnx(str(tmp_path / "not.pt2"), (VALUES,), str(tmp_path / "network.onnx"))


def test_the_cause_of_a_failed_export_is_its_reason(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*_: Any) -> None:
        try:
            raise ValueError("no Foo in ONNX")
        except ValueError as error:
            raise RuntimeError("Failed.\n(Refer to the full stack trace above for more information.)") from error

    monkeypatch.setattr(engines, "write_onnx", write)

    with pytest.raises(NetworkError, match=r"^ValueError: no Foo in ONNX$"):
        export_onnx(str(files[0]), (np.ones((1, 3, 32, 32), np.float32),), str(tmp_path / "network.onnx"))


def needs(*packages: str) -> None:
    for package in ("onnx", "onnxscript", *packages):
        if engines.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")


@pytest.mark.slow
@pytest.mark.parametrize("by_default", [False, True])
@pytest.mark.parametrize("engine", list(engines.ENGINES))
def test_an_engine_computes_what_torch_does_and_takes_its_turn(
    engine: str, by_default: bool, files: tuple[Path, Path], tmp_path: Path
) -> None:
    needs(engine)
    value = np.linspace(0, 1, 3072, dtype=np.float32).reshape(1, 3, 32, 32)

    with NetworkTimer((value,), threads=1) as timer:
        reference = timer.load_torch("torch", str(files[0]))
        where = {"folder": str(tmp_path), "by_default": by_default}
        notes = load_engines(timer, [engine], str(files[0]), reference, **where)  # type: ignore[arg-type]
        found = timer.measure(rounds=2, seconds=0.0)
        (wrong,) = load_engines(timer, [engine], str(files[1]), reference, **where)  # type: ignore[arg-type]
        left = timer.measure(rounds=1, seconds=0.0)

    assert [form.partition("-")[0] for form in found] == ["torch", engine]
    assert {latency.calls for latency in found.values()} == {2}
    assert all("computes in" in note for note in notes)
    assert len(notes) <= (by_default and engine == "openvino")
    # The other network has other weights.
    assert "its outputs are not torch's" in wrong
    assert list(left) == ["torch"]


@pytest.mark.slow
def test_a_network_is_timed_in_engines_beside_torch(
    files: tuple[Path, Path], database: Path, target: str, tmp_path: Path
) -> None:
    needs(*engines.ENGINES)

    found = finish_network(
        str(files[0]), label="small", target=target, database=database, out=tmp_path, beside=[*engines.ENGINES]
    )

    assert (found.error, found.notes) == (None, ())
    assert set(found.latencies) == {"tuned", "torch", "onnxruntime", "openvino-float32"}
    assert min(latency.calls for latency in found.latencies.values()) > 5
    assert [path.name for path in tmp_path.iterdir()] == ["small.so"]
    assert engine_versions(found.latencies).keys() == engines.ENGINES.keys()


@pytest.mark.slow
def test_an_operator_that_onnx_lacks_is_the_reason(tmp_path: Path) -> None:
    import torch

    needs()

    class Eigenvalues(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.eigvalsh(x)

    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(Eigenvalues(), (torch.eye(3),)), path)

    with pytest.raises(NetworkError, match="linalg_eigh"):
        export_onnx(str(path), (np.eye(3, dtype=np.float32),), str(tmp_path / "network.onnx"))
