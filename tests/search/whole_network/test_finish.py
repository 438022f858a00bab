"""A network after a search: compiled, compared with torch and timed, or a sentence."""

from __future__ import annotations

import os
import shutil
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from costhub.collector.boards.boards import Boards
from costhub.collector.boards.tracker import address_of
from costhub.collector.workloads.network_kernels import network_workloads
from costhub.collector.workloads.network_source import AS_IN_TORCH, Lowering, read_network
from costhub.dataset.workload import parse_target
from costhub.errors import MeasureError, WorkloadError
from costhub.isolation.process import end_idle_children
from costhub.search.whole_network import finish
from costhub.search.whole_network.compile import compile_network
from costhub.search.whole_network.finish import (
    FinishedNetwork,
    _checked,
    _Forms,
    _loaded,
    _timed,
    finish_network,
    finish_untimed,
)
from costhub.search.whole_network.network_outputs import BF16_TOLERANCE, TOLERANCE
from costhub.search.whole_network.network_timer import ROUNDS, SECONDS, Latency, NetworkTimer

VALUES = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)


pytestmark = pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec:FutureWarning")


def test_a_network_is_written_where_its_outputs_are_torchs(
    files: tuple[Path, Path], database: Path, target: str, tmp_path: Path
) -> None:
    import tvm
    from tvm import relax

    steps: list[str] = []

    found = finish_network(
        str(files[0]),
        label="small",
        target=target,
        database=database,
        out=tmp_path,
        on_step=steps.append,
    )

    assert found.error is None
    assert (found.kernels, found.kernels_tuned) == (5, 2)
    assert found.inputs == (("float32", (1, 3, 32, 32)),)
    assert set(found.latencies) == {"tuned", "torch"}
    assert steps == ["compiling small", "checking and timing small"]
    assert found.library == str(tmp_path / "small.so")
    assert [path.name for path in tmp_path.iterdir()] == ["small.so"]
    assert list(found.stages) == ["reading", "compiling", "checking", "timing"]
    assert found.stages["timing"] > 2 * ROUNDS * SECONDS  # of two forms
    assert min(found.stages.values()) > 0.0
    machine = relax.VirtualMachine(tvm.runtime.load_module(found.library), tvm.cpu())
    (output,) = machine["main"](tvm.runtime.tensor(np.zeros((1, 3, 32, 32), np.float32)))
    assert output.shape == (1, 10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "kept"), [("untuned", {"tuned", "untuned", "torch"}), ("relax", {"tuned", "untuned"})]
)
def test_the_untuned_form_is_timed_where_it_is_asked_for_or_nothing_else_is_there(
    form: str, kept: set[str], files: tuple[Path, Path], relax_file: Path, database: Path, target: str, tmp_path: Path
) -> None:
    network, beside = (relax_file, []) if form == "relax" else (files[0], ["untuned"])

    found = finish_network(str(network), label="small", target=target, database=database, out=tmp_path, beside=beside)

    assert found.error is None
    assert set(found.latencies) == kept
    assert found.stages["compiling untuned"] > 0.0


@pytest.mark.slow
def test_a_network_in_bfloat16_states_how_far_its_outputs_are_off(
    files: tuple[Path, Path], database: Path, target: str, tmp_path: Path
) -> None:
    lowering = Lowering(layout="blocked", precision="bf16")

    found = finish_network(
        str(files[0]), label="small", target=target, database=database, out=tmp_path, lowering=lowering
    )

    assert found.error is None
    assert found.precision == "bf16"
    assert found.error_size is not None
    assert 1e-5 < found.error_size < 0.02
    assert found.library == str(tmp_path / "small.so")


@pytest.mark.slow
def test_a_network_for_a_board_is_run_there(
    files: tuple[Path, Path], database: Path, target: str, tmp_path: Path, two_boards: tuple[str, str]
) -> None:
    with Boards(*address_of(two_boards[0]), two_boards[1]) as boards:
        found = finish_network(
            str(files[0]),
            label="small",
            target=target,
            database=database,
            out=tmp_path,
            beside=["torch.compile"],
            boards=boards,
        )

    assert found.error is None
    assert set(found.latencies) == {"tuned", "untuned"}
    assert found.notes[0] == "small was run and timed on a board."
    assert "torch.compile was not timed" in found.notes[1]
    assert found.library == str(tmp_path / "small.so")


@pytest.mark.slow
def test_a_board_that_is_not_there_is_a_sentence_and_no_library(
    files: tuple[Path, Path], database: Path, target: str, tmp_path: Path
) -> None:
    found = finish_network(
        str(files[0]),
        label="small",
        target=target,
        database=database,
        out=tmp_path,
        boards=Boards("127.0.0.1", 1, "nobody"),
    )

    assert "No TVM tracker answers at 127.0.0.1:1" in (found.error or "")
    assert (found.library, found.notes, found.latencies) == (None, (), {})


def test_an_interruption_leaves_the_library_of_an_earlier_search(
    tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: _Forms) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(_Forms, "build", interrupted)
    (tmp_path / "small.so").write_text("of an earlier search")
    args = {"label": "small", "target": target, "database": tmp_path, "out": tmp_path}

    with pytest.raises(KeyboardInterrupt):
        finish_untimed("small.pt2", **args, runs_here=False)  # type: ignore[arg-type]
    assert (tmp_path / "small.so").read_text() == "of an earlier search"

    monkeypatch.setattr(_Forms, "build", lambda _: "no such file")
    found = finish_untimed("small.pt2", **args, runs_here=False)  # type: ignore[arg-type]

    assert found.error == "TVM cannot compile small as a whole: no such file."
    assert not (tmp_path / "small.so").exists()
    assert found.notes == ("small.so of an earlier search was removed.",)


@pytest.mark.slow
def test_outputs_that_are_not_torchs_are_a_sentence_and_no_library(
    files: tuple[Path, Path], database: Path, target: str, tmp_path: Path
) -> None:
    file = shutil.copy(files[0], tmp_path / "small.pt2")

    def falsify(step: str) -> None:
        # From here on torch has other weights than those that were compiled.
        if step.startswith("checking"):
            shutil.copy(files[1], file)

    (tmp_path / "small.so").write_text("of an earlier search")
    found = finish_network(str(file), label="small", target=target, database=database, out=tmp_path, on_step=falsify)

    assert found.error is not None
    assert "outputs of the tuned network small are not torch's: output 0 differs in" in found.error
    assert "tolerance 0.0002" in found.error
    # What TVM compiles now has the weights of torch, so the database is to blame.
    assert "The untuned network agrees, so a schedule of the database changes what a kernel computes" in found.error
    assert found.library is None
    assert not (tmp_path / "small.so").exists()


@pytest.mark.slow
def test_a_kernel_that_computes_something_else_is_told_from_a_wrong_import(
    files: tuple[Path, Path], target: str, tmp_path: Path
) -> None:
    compile_network(read_network(str(files[1])), parse_target(target), None, tmp_path / "tuned.so")
    forms = _Forms(str(files[0]), target, "", AS_IN_TORCH, str(tmp_path), with_untuned=False)
    value = np.ones((1, 3, 32, 32), np.float32)

    with NetworkTimer((value,), threads=1) as timer:
        made = FinishedNetwork("small", 1)
        found = [_checked(timer, replace(made, fast_math=fast_math), forms)[0].error for fast_math in (False, True)]

    assert "a schedule of the database changes what a kernel computes" in (found[0] or "")
    assert "a schedule of the database or fast math changes what" in (found[1] or "")


def test_a_network_that_cannot_be_compiled_is_a_sentence(tmp_path: Path, target: str) -> None:
    path = tmp_path / "broken.pt2"
    path.write_text("broken")

    found = finish_network(str(path), label="broken", target=target, database=tmp_path, out=tmp_path)

    assert "The network broken was tuned, but TVM cannot compile it as a whole" in (found.error or "")
    assert found.latencies == {}


@pytest.mark.parametrize(("runs_here", "untuned"), [(True, True), (False, False)])
def test_a_network_of_tvm_for_another_machine_is_not_compiled_only_to_be_compared(
    runs_here: bool, untuned: bool, tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[bool] = []

    def build(forms: _Forms) -> str:
        compiled.append(forms.with_untuned)
        return "nothing was compiled"

    monkeypatch.setattr(_Forms, "build", build)
    whole: dict[str, Any] = {
        "label": "net",
        "target": target,
        "database": tmp_path,
        "out": tmp_path,
        "runs_here": runs_here,
    }

    finish_untimed("net.json", **whole)

    assert compiled == [untuned]


ON_CUDA = '{"kind": "cuda", "arch": "sm_90"}'


@pytest.mark.parametrize(
    ("network", "where", "launched"),
    [
        ("net.pt2", "here", ["tuned", "torch"]),
        ("net.json", "here", ["tuned"]),
        ("net.pt2", "boards", []),
        ("net.pt2", "cuda", []),
        ("net.pt2", "another machine", []),
    ],
)
def test_processes_get_ready_only_for_forms_that_will_run_on_the_cpu_of_this_machine(
    network: str, where: str, launched: list[str], tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    for name in ("launch_library", "launch_torch"):
        monkeypatch.setattr(NetworkTimer, name, lambda _, form: found.append(form))
    monkeypatch.setattr(_Forms, "build", lambda _: "nothing was compiled")
    whole: dict[str, Any] = {
        "label": "net",
        "target": ON_CUDA if where == "cuda" else target,
        "database": tmp_path,
        "out": tmp_path,
    }

    if where == "another machine":
        finish_untimed(network, **whole, runs_here=False)
    else:
        boards = Boards("127.0.0.1", 1, "nobody") if where == "boards" else None
        finish_network(network, **whole, boards=boards)

    assert found == launched


class Outputs:
    """A timer whose forms have computed already."""

    def __init__(self, tuned: np.ndarray, untuned: np.ndarray | None = VALUES) -> None:
        self.tuned, self.untuned = tuned, untuned

    def load_library(self, form: str, path: str) -> list[np.ndarray]:
        if form == "tuned":
            return [self.tuned]
        if self.untuned is None:
            raise MeasureError("The network does not run as untuned: it crashed.")
        return [self.untuned]

    def load_torch(self, form: str, network: str) -> list[np.ndarray]:
        return [VALUES]


LOADED = _Forms("net.pt2", '{"kind": "llvm"}', "", AS_IN_TORCH, "", with_untuned=True)


@pytest.mark.parametrize(
    ("untuned", "sentence"),
    [
        (VALUES, "The untuned network agrees, so a schedule of the database changes what a kernel computes."),
        (2 * VALUES, "The untuned network differs as well, so TVM's importer or compiler causes the difference."),
        (None, "Whether the untuned network differs as well is not known: TVM cannot compile it: no.pt2 is not there."),
    ],
)
def test_wrong_outputs_have_a_culprit(
    untuned: np.ndarray | None, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    timer: Any = Outputs(2 * VALUES, untuned)
    monkeypatch.setattr(finish, "_built", lambda _: "no.pt2 is not there.")

    found, reference = _checked(timer, FinishedNetwork("net", 1), replace(LOADED, with_untuned=untuned is not None))

    assert "outputs of the tuned network net are not torch's" in (found.error or "")
    assert f"of their size). {sentence} No library was written." in (found.error or "")
    assert reference[0] is VALUES


@pytest.mark.parametrize("factor", [1, 2])
def test_a_network_with_wrong_outputs_is_not_timed(factor: int) -> None:
    class Timed(Outputs):
        notes = ()

        def measure(self) -> dict[str, Latency]:
            return {"tuned": Latency(1.0, 1.0, 1.0, 1)}

    timer: Any = Timed(factor * VALUES)

    found = _timed(FinishedNetwork("net", 1), nullcontext(timer), LOADED, None, ())

    assert (found.error is None, bool(found.latencies)) == (factor == 1, factor == 1)


def test_an_optional_form_that_fails_is_a_note_and_a_needed_one_an_error() -> None:
    timer: Any = Outputs(VALUES, untuned=None)

    found, _ = _checked(timer, FinishedNetwork("net", 1), LOADED)

    assert found.error is None
    assert found.notes == ("The untuned form was not timed. The network does not run as untuned: it crashed.",)
    with pytest.raises(MeasureError, match="it crashed"):
        _checked(timer, FinishedNetwork("net", 1), replace(LOADED, network="net.json"))


class Here(Outputs, NetworkTimer):
    """The same on this machine, where other engines can run beside."""


@pytest.mark.parametrize(
    ("timer", "network", "precision", "asked"),
    [
        (Here(VALUES), "net.pt2", "float32", [(["onnxruntime", "openvino"], "net.pt2", False)]),
        (Here(VALUES), "net.pt2", "bf16", [(["onnxruntime", "openvino"], "net.pt2", True)]),
        (Here(VALUES), "net.json", "float32", []),
        (Outputs(VALUES), "net.pt2", "float32", []),
    ],
)
def test_engines_run_networks_of_torch_on_this_machine(
    timer: Any, network: str, precision: str, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []

    def load(_: Any, names: list[str], network: str, reference: list[Any], *, folder: str, by_default: bool) -> Any:
        assert reference[0] is VALUES
        found.append((names, network, by_default))
        return ("OpenVINO was not timed.",)

    monkeypatch.setattr(finish, "load_engines", load)
    loaded = _loaded(
        timer,
        FinishedNetwork("net", 1, precision=precision, reference="torch" if network == "net.pt2" else "untuned"),
        replace(LOADED, network=network),
        ["openvino", "untuned", "onnxruntime"],
    )

    assert found == asked
    assert loaded.notes == ("OpenVINO was not timed.",) * len(asked)
    assert loaded.error is None


def test_each_form_that_fails_has_its_note(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(Here):
        def load_torch(self, form: str, network: str, *, compiled: bool = False) -> Any:
            if compiled:
                raise MeasureError("There is no compiler.")
            return super().load_torch(form, network)

    timer: Any = Failing(VALUES, untuned=None)
    monkeypatch.setattr(finish, "load_engines", lambda *_, **__: ("OpenVINO was not timed.",))

    found = _loaded(timer, FinishedNetwork("net", 1), LOADED, ["torch.compile", "openvino"])

    assert [note.split(".")[0] for note in found.notes] == [
        "The untuned form was not timed",
        "torch",
        "OpenVINO was not timed",
    ]
    assert found.notes[1] == "torch.compile was not timed. There is no compiler."


@pytest.mark.parametrize(
    ("precision", "off", "is_right"),
    [
        ("float32", 0.5 * TOLERANCE, True),
        ("float32", 0.5 * BF16_TOLERANCE, False),
        ("bf16", 0.5 * BF16_TOLERANCE, True),
        ("bf16", 1.5 * BF16_TOLERANCE, False),
    ],
)
def test_bfloat16_may_differ_by_its_error_and_float32_by_rounding(precision: str, off: float, is_right: bool) -> None:
    timer: Any = Outputs(VALUES * np.float32(1 + off))

    found, _ = _checked(timer, FinishedNetwork("net", 1, precision=precision), LOADED)

    assert (found.error is None) == is_right
    assert found.error_size == pytest.approx(off, rel=0.01)
    if precision == "bf16" and not is_right:
        assert "a schedule of the database or bfloat16 changes what a kernel computes" in (found.error or "")


@pytest.mark.parametrize(
    "wrong",
    [
        [np.where(VALUES.max() == VALUES, np.float32(np.nan), VALUES), VALUES],
        [VALUES.T, VALUES],
        [VALUES.astype(np.float64), VALUES],
        [VALUES],
        [VALUES, VALUES, VALUES],
    ],
)
def test_bfloat16_excuses_rounding_only(wrong: list[np.ndarray]) -> None:
    class Two(Outputs):
        def load_library(self, form: str, path: str) -> list[np.ndarray]:
            return wrong if form == "tuned" else [VALUES, VALUES]

        def load_torch(self, form: str, network: str) -> list[np.ndarray]:
            return [VALUES, VALUES]

    timer: Any = Two(VALUES)

    assert _checked(timer, FinishedNetwork("net", 1, precision="bf16"), LOADED)[0].error


@pytest.mark.slow
def test_the_process_that_found_the_kernels_compiles_the_network(tmp_path: Path, target: str) -> None:
    """It has imported torch and TVM, which takes seconds."""
    end_idle_children()
    (tmp_path / "no.json").write_text("{}")
    before = {child.pid for child in psutil.Process().children()}
    with pytest.raises(WorkloadError):
        network_workloads([str(tmp_path / "no.json")], target=target)
    (finder,) = {child.pid for child in psutil.Process().children()} - before

    assert finish._built(os.getpid) == finder  # type: ignore[type-var]
