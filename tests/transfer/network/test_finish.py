"""From a database to a library: checked against torch, and not written where the check fails."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from costhub.collector.boards.boards import Boards
from costhub.collector.boards.tracker import address_of
from costhub.collector.network_source import read_network
from costhub.dataset.target import parse_target
from costhub.transfer.network.compile import compile_network
from costhub.transfer.network.contest import Contest
from costhub.transfer.network.finish import FinishedNetwork, _checked, finish_network

pytestmark = pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec:FutureWarning")


def test_a_network_is_written_where_its_outputs_are_torchs(
    files: tuple[Path, Path], database: Path, target: str, tmp_path: Path
) -> None:
    import tvm
    from tvm import relax

    steps: list[str] = []

    found = finish_network(
        str(files[0]), label="small", target=target, database=database, out=tmp_path, threads=1,
        on_step=steps.append,
    )  # fmt: skip

    assert found.error is None
    assert (found.kernels, found.kernels_tuned) == (5, 2)
    assert found.inputs == (("float32", (1, 3, 32, 32)),)
    assert set(found.latencies) == {"tuned", "untuned", "torch"}
    assert steps == ["compiling small", "checking and timing small"]
    assert found.library == str(tmp_path / "small.so")
    assert [path.name for path in tmp_path.iterdir()] == ["small.so"]
    machine = relax.VirtualMachine(tvm.runtime.load_module(found.library), tvm.cpu())
    (output,) = machine["main"](tvm.runtime.tensor(np.zeros((1, 3, 32, 32), np.float32)))
    assert output.shape == (1, 10)


def test_a_network_for_a_board_is_run_there(
    files: tuple[Path, Path], database: Path, target: str, tmp_path: Path, two_boards: tuple[str, str]
) -> None:
    with Boards(*address_of(two_boards[0]), two_boards[1]) as boards:
        found = finish_network(
            str(files[0]), label="small", target=target, database=database, out=tmp_path, threads=1,
            torch_compile=True, boards=boards,
        )  # fmt: skip

    assert found.error is None
    assert set(found.latencies) == {"tuned", "untuned"}
    assert found.notes[0] == "small was run and timed on a board."
    assert "torch.compile was not timed" in found.notes[1]
    assert found.library == str(tmp_path / "small.so")


def test_a_board_that_is_not_there_is_a_sentence_and_no_library(
    files: tuple[Path, Path], database: Path, target: str, tmp_path: Path
) -> None:
    found = finish_network(
        str(files[0]), label="small", target=target, database=database, out=tmp_path, threads=1,
        boards=Boards("127.0.0.1", 1, "nobody"),
    )  # fmt: skip

    assert "No TVM tracker answers at 127.0.0.1:1" in (found.error or "")
    assert (found.library, found.notes, found.latencies) == (None, (), {})


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
    found = finish_network(
        str(file), label="small", target=target, database=database, out=tmp_path, threads=1, on_step=falsify
    )

    assert found.error is not None
    assert "outputs of the tuned network small are not torch's: output 0 differs in" in found.error
    assert "tolerance 0.0002" in found.error
    assert "The untuned network differs as well" in found.error
    assert found.library is None
    assert not (tmp_path / "small.so").exists()


@pytest.mark.slow
def test_a_kernel_that_computes_something_else_is_told_from_a_wrong_import(
    files: tuple[Path, Path], target: str, tmp_path: Path
) -> None:
    for name, file in zip(("plain", "wrong"), files, strict=True):
        compile_network(read_network(str(file)), parse_target(target), None, tmp_path / f"{name}.so")
    value = np.ones((1, 3, 32, 32), np.float32)

    with Contest((value,), threads=1) as contest:
        made = FinishedNetwork("small", 1)
        found = [
            _checked(
                contest, replace(made, fast_math=fast_math), str(files[0]), str(tmp_path / "wrong.so"),
                str(tmp_path / "plain.so"),
            ).error
            for fast_math in (False, True)
        ]  # fmt: skip

    assert "a schedule of the database changes what a kernel computes" in (found[0] or "")
    assert "a schedule of the database or fast math changes what" in (found[1] or "")


def test_a_network_that_cannot_be_compiled_is_a_sentence(tmp_path: Path, target: str) -> None:
    path = tmp_path / "broken.pt2"
    path.write_text("broken")

    found = finish_network(
        str(path), label="broken", target=target, database=tmp_path, out=tmp_path, threads=1
    )

    assert "The network broken was tuned, but TVM cannot compile it as a whole" in (found.error or "")
    assert found.latencies == {}
