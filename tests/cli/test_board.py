"""The verb board: a tracker and a board as people start them, and as people end them."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from costhub.cli.board import _with_figures
from costhub.cli.main import run
from costhub.collector.boards.boards import Boards
from costhub.collector.boards.server import RunningServer
from costhub.collector.boards.session_pool import BoardSession
from costhub.collector.device.identity import identify
from costhub.dataset.schema import table_from_rows
from costhub.files import CACHE_VARIABLE
from costhub.hub.catalogue.devices import Device, keep_probed_figures
from costhub.isolation.child import Child

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts `costhub board ...` and waits for the line that says that it runs."""
    with ExitStack() as stack:

        def launch(*arguments: str) -> subprocess.Popen[str]:
            code = "from costhub.cli.main import main; main()"
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", code, "board", *arguments, "--json"],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            stack.callback(process.kill)
            return process

        yield launch


def said(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line: dict[str, Any] = json.loads(process.stdout.readline())
    return line


@pytest.mark.slow
def test_a_board_is_served_listed_and_ended_by_ctrl_c(
    start: Start, free_port: Callable[[], int], capsys: pytest.CaptureFixture[str]
) -> None:
    tracker_port, port = free_port(), free_port()
    address = f"127.0.0.1:{tracker_port}"
    tracker = start("tracker", "--port", str(tracker_port))
    assert said(tracker) == {"host": "127.0.0.1", "port": tracker_port}
    board = start("serve", "--tracker", address, "--key", "pi4", "--port", str(port))
    assert said(board)["key"] == "pi4"

    assert run(["board", "list", "--tracker", address, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"board": f"127.0.0.1:{port}", "key": "pi4"}]
    assert run(["board", "list", "--tracker", address]) == 0
    assert "pi4: 1 registered, " in capsys.readouterr().out
    assert run(["board", "serve", "--tracker", address, "--key", "pi4", "--port", str(port)]) == 1
    assert f"Port {port} of 127.0.0.1 is not available" in capsys.readouterr().err

    for process, its_port in ((board, port), (tracker, tracker_port)):
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0
        assert "full control of this machine" in errors
        assert "Traceback" not in errors
        assert children
        assert not any(child.is_running() for child in children)
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", its_port)) != 0


@pytest.fixture
def serve_once(
    two_boards: tuple[str, str], free_port: Callable[[], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], str]:
    """Runs `costhub board serve` until it serves, on a board with a cache of its own; returns what the board says."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "of-the-board"))
    identities: list[str] = []

    def interrupted(server: RunningServer) -> None:
        identities.append(json.dumps(server.identity))
        raise KeyboardInterrupt

    def once() -> str:
        monkeypatch.setattr(RunningServer, "wait", interrupted)
        assert run(["board", "serve", "--tracker", two_boards[0], "--key", "once", "--port", str(free_port())]) == 0
        return identities[-1]

    return once


def as_searches_see(identity: str) -> dict[str, Any]:
    """The row of a board, as the machine that searches keeps it."""
    with Boards("127.0.0.1", 1, "once") as boards:
        boards.note(BoardSession("127.0.0.1:2", identity, Child()))
        (found,) = boards._identities.values()
    assert found is not None
    (row,) = table_from_rows("devices", [found.device]).to_pylist()
    return dict(row)


@pytest.mark.slow
def test_a_search_gets_the_figures_that_were_probed_on_the_board(
    serve_once: Callable[[], str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("costhub.hub.catalogue.devices.find_device", lambda name: None)
    assert as_searches_see(serve_once())["peak_gflops"] is None
    assert "has not been probed" in (errors := capsys.readouterr().err)
    assert "run `costhub probe` (25 s) on this board" in errors

    probed_at = "2026-11-25T12:00:00.500000+00:00"
    keep_probed_figures({**identify(), "aliases": ["desk"], "peak_gflops": 12.5, "probed_at": probed_at})
    row = as_searches_see(serve_once())

    assert "has not been probed" not in capsys.readouterr().err
    assert (row["peak_gflops"], row["probed_at"].isoformat()) == (12.5, probed_at)


@pytest.mark.slow
def test_figures_of_the_index_are_not_taken_for_the_boards_own(
    serve_once: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = Device.from_row({**identify(), "peak_gflops": 100.0, "aliases": ["desk"]})
    monkeypatch.setattr("costhub.hub.catalogue.devices.find_device", lambda name: listed)
    keep_probed_figures({**identify(), "peak_gflops": 12.5, "dram_gbs": 3.0})

    row = as_searches_see(serve_once())

    assert (row["peak_gflops"], row["dram_gbs"], row["aliases"]) == (None, 3.0, [])


@pytest.mark.parametrize("arguments", [["tracker"], ["serve", "--tracker", "127.0.0.1:9190", "--key", "k"]])
def test_an_address_that_others_reach_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["board", *arguments, "--host", "192.0.2.1"]) == 2
    error = capsys.readouterr().err
    assert "192.0.2.1 can be reached from other machines" in error
    assert "--i-trust-this-network" in error


def test_an_address_of_another_machine_is_told_from_a_port_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["board", "tracker", "--host", "192.0.2.1", "--i-trust-this-network"]) == 1
    error = capsys.readouterr().err
    assert "192.0.2.1 is not an address of this machine (" in error
    assert "--port" not in error


def test_the_probe_that_a_board_needs_is_of_its_own_device(capsys: pytest.CaptureFixture[str]) -> None:
    _with_figures({**identify(isa="sse4.2", threads=1), "peak_gflops": None})

    assert "run `costhub probe --isa sse4.2 --threads 1` (25 s) on this board" in capsys.readouterr().err


def test_no_tracker_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["board", "serve", "--tracker", "127.0.0.1:1", "--key", "pi4"]) == 1
    assert "No TVM tracker answers at 127.0.0.1:1" in capsys.readouterr().err


def test_an_address_without_a_port_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["board", "list", "--tracker", "localhost"]) == 2
    assert "'localhost' is not the address of a tracker" in capsys.readouterr().err
