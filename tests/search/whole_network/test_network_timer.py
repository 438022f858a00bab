"""Forms of a network side by side; a form that crashes costs itself only."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from costhub.collector.boards.boards import BoardIdentity, Boards
from costhub.collector.boards.tracker import Tracker, address_of
from costhub.collector.workloads.network_source import read_network
from costhub.dataset.workload import parse_target
from costhub.errors import DeviceError, MeasureError
from costhub.search.whole_network.compile import compile_network
from costhub.search.whole_network.network_forms import hold_form
from costhub.search.whole_network.network_timer import (
    BoardNetworkTimer,
    Latency,
    NetworkTimer,
    board_network_timer,
    time_in_turns,
)


def test_a_latency_is_the_median_with_quartiles() -> None:
    assert Latency.of([5e-6]) == Latency(5.0, 5.0, 5.0, 1)
    many = Latency.of([float(i) * 1e-6 for i in range(1, 102)])
    assert (many.low_us, many.median_us, many.high_us) == pytest.approx((26.0, 51.0, 76.0))


def test_forms_take_turns_and_one_that_fails_is_asked_no_more() -> None:
    asked: list[str] = []

    def turn(name: str) -> list[float] | None:
        asked.append(name)
        return None if name == "dead" and len(asked) > 3 else [1e-6]

    found = time_in_turns(["tuned", "dead", "idle"], lambda n: [] if n == "idle" else turn(n), rounds=3)

    assert asked == ["tuned", "dead", "tuned", "dead", "tuned"]
    assert {name: latency.calls for name, latency in found.items()} == {"tuned": 3}


@pytest.mark.slow
def test_a_form_that_dies_is_left_out_and_one_that_cannot_be_loaded_is_a_sentence(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    value = np.ones((1, 3, 32, 32), np.float32)
    with NetworkTimer((value,), threads=1) as timer:
        with pytest.raises(MeasureError, match="does not run as tuned"):
            timer.load_library("tuned", str(tmp_path / "missing.so"))
        (output,) = timer.load_torch("torch", str(files[0]))
        timer.load_torch("dead", str(files[0]))
        pid = timer._children["dead"].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

        found = timer.measure(rounds=2, seconds=0.0)

    assert output.shape == (1, 10)
    assert list(found) == ["torch"]
    assert found["torch"].calls == 2
    assert timer.notes == ("The dead form failed while it was timed.",)


@pytest.mark.slow
@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="torch may have a GPU here")
def test_where_torch_has_no_gpu_its_outputs_are_those_of_the_cpu_and_it_is_not_timed(files: tuple[Path, Path]) -> None:
    value = np.ones((1, 3, 32, 32), np.float32)
    with NetworkTimer((value,), 1, "cuda") as timer, NetworkTimer((value,), 1) as on_cpu:
        (output,) = timer.load_torch("torch", str(files[0]))
        (expected,) = on_cpu.load_torch("torch", str(files[0]))

        assert timer.measure(rounds=1, seconds=0.0) == {}
        with pytest.raises(MeasureError, match=r"does not run as torch\.compile"):
            timer.load_torch("torch.compile", str(files[0]), compiled=True)

    np.testing.assert_array_equal(output, expected)
    (note,) = timer.notes
    assert note.startswith("PyTorch was not timed, since it cannot run the network on the GPU. ")


def test_a_form_that_is_dropped_is_not_timed_and_its_process_ends() -> None:
    load = partial(hold_form, partial(partial, tuple))  # computes nothing
    with NetworkTimer((), threads=1) as timer:
        assert timer.load_form("first", load, {}) == timer.load_form("second", load, {}) == ()
        pid = timer._children["first"].pid
        assert pid is not None

        timer.drop("first")

        assert list(timer.measure(rounds=1, seconds=0.0)) == ["second"]
        assert not psutil.pid_exists(pid)


def test_a_form_is_loaded_in_the_process_that_was_launched_for_it() -> None:
    load = partial(hold_form, partial(partial, tuple))  # computes nothing
    with NetworkTimer((), threads=1) as timer:
        timer.launch_library("tuned")
        timer.launch_torch("torch")
        launched = {name: child.pid for name, child in timer._launched.items()}
        assert timer.load_form("tuned", load, {}) == ()
        assert timer._children["tuned"].pid == launched["tuned"]
        assert psutil.pid_exists(launched["torch"] or 0)

        assert list(timer.measure(rounds=1, seconds=0.0)) == ["tuned"]

        assert not psutil.pid_exists(launched["torch"] or 0)


def minor_faults(pid: int | None) -> int:
    """Pages that a process was given so far without any disk."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7])


@pytest.mark.slow
def test_torch_does_not_wait_for_new_pages_at_each_call(tmp_path: Path) -> None:
    import torch

    layers = [torch.nn.Conv2d(3, 64, 1), torch.nn.ReLU6(), torch.nn.Conv2d(64, 256, 1), torch.nn.ReLU6()]
    network, image = torch.nn.Sequential(*layers).eval(), torch.ones(1, 3, 128, 128)
    torch.export.save(torch.export.export(network, (image,)), tmp_path / "wide.pt2")
    with NetworkTimer((image.numpy(),), threads=1) as timer:
        timer.load_torch("torch", str(tmp_path / "wide.pt2"))
        pid = timer._children["torch"].pid
        before = minor_faults(pid)
        calls = timer.measure(rounds=1, seconds=0.2)["torch"].calls
        found = (minor_faults(pid) - before) / calls

    pages_of_the_output = 256 * 128 * 128 * 4 / 4096
    assert found < pages_of_the_output / 4


VALUE = np.linspace(0, 1, 3072, dtype=np.float32).reshape(1, 3, 32, 32)


@pytest.fixture(scope="module")
def library(files: tuple[Path, Path], target: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("board") / "small.so"
    compile_network(read_network(str(files[0])), parse_target(target), None, path)
    return str(path)


@contextmanager
def entered(two_boards: tuple[str, str]) -> Iterator[BoardNetworkTimer]:
    address, key = two_boards
    with board_network_timer((VALUE,), Boards(*address_of(address), key)) as timer:
        yield timer


@pytest.mark.slow
def test_forms_compute_what_torch_does_and_are_timed_in_turns(
    two_boards: tuple[str, str], library: str, files: tuple[Path, Path]
) -> None:
    with entered(two_boards) as timer:
        (first,) = timer.load_library("first", library)
        (second,) = timer.load_library("second", library)
        (wanted,) = timer.load_torch("torch", str(files[0]))
        found = timer.measure(rounds=2, seconds=0.0)

    assert first.shape == (1, 10)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, wanted, rtol=1e-3, atol=1e-5)
    assert {name: latency.calls for name, latency in found.items()} == {"first": 2, "second": 2}
    assert all(0 < latency.median_us < 1e6 for latency in found.values())
    tracker, deadline = Tracker(*address_of(two_boards[0])), time.monotonic() + 30
    while tracker.free(two_boards[1]) < 2:  # The board is there for others again.
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.slow
def test_what_does_not_load_is_a_sentence_and_the_session_goes_on(
    two_boards: tuple[str, str], library: str, tmp_path: Path
) -> None:
    (tmp_path / "not.so").write_text("no library")
    with entered(two_boards) as timer:
        with pytest.raises(MeasureError, match="does not run as wrong on the board"):
            timer.load_library("wrong", str(tmp_path / "not.so"))
        timer.load_library("right", library)
        found = timer.measure(rounds=1, seconds=0.05)

    assert list(found) == ["right"]
    assert found["right"].calls > 1


@pytest.mark.slow
def test_what_was_taken_before_the_session_was_lost_is_kept(
    two_boards: tuple[str, str], library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with entered(two_boards) as timer:
        timer.load_library("first", library)
        ask, asked = timer._ask, []

        def lost_at_the_second_turn(request: Any, timeout_s: float) -> object:
            asked.append(request)
            if len(asked) == 2:
                assert timer.child.pid is not None
                os.kill(timer.child.pid, signal.SIGKILL)
            return ask(request, timeout_s)

        monkeypatch.setattr(timer, "_ask", lost_at_the_second_turn)
        assert timer.measure(rounds=3, seconds=0.0)["first"].calls == 1
        monkeypatch.undo()
        with pytest.raises(MeasureError, match=r"was lost before .* as second .*session .* has ended\)"):
            timer.load_library("second", library)


@pytest.mark.slow
def test_a_board_of_another_kind_than_those_of_the_search_is_refused(two_boards: tuple[str, str]) -> None:
    address, key = two_boards
    boards = Boards(*address_of(address), key)
    boards._identities["of the search"] = BoardIdentity({"device_id": "another"}, {})
    with pytest.raises(DeviceError, match="of different kinds"), board_network_timer((VALUE,), boards):
        pass


@pytest.mark.slow
def test_torch_is_not_compiled_for_a_board(two_boards: tuple[str, str]) -> None:
    with entered(two_boards) as timer, pytest.raises(MeasureError, match="for a board"):
        timer.load_torch("torch.compile", "lstm", compiled=True)


def test_threads_of_a_library_are_bound_though_this_process_leaves_its_own_unbound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TVM_BIND_THREADS", "0")  # as `costhub.load_network` does

    assert NetworkTimer((), 1)._of_library["TVM_BIND_THREADS"] == "1"
    assert "TVM_BIND_THREADS" not in NetworkTimer((), 1, device_kind="cuda")._of_library
