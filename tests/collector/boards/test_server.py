"""Board servers and trackers: their ports, their sessions, and that nothing of them stays behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from costhub.collector.boards.boards import Boards
from costhub.collector.boards.server import IDENTIFY, RunningServer, board_server, identify_board, tracker_server
from costhub.collector.boards.tracker import Server, Tracker
from costhub.errors import ArgumentError, DeviceError, MeasureError

Serve = Callable[..., RunningServer]
Library = Callable[[str], str]
FreePort = Callable[[], int]

# A board whose starter is killed with -9 in the middle of a session.
KILLED = """
import os, sys, psutil
from costhub.collector.boards.server import board_server
from costhub.collector.boards.tracker import Tracker
from tvm import rpc
host, port, own = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
tracker = Tracker(host, port)
said = {"device": {"device_id": "x"}, "target": {}}
with board_server(tracker, "orphan", port=own, identity=said) as running:
    lease = tracker.take("orphan", give_up=lambda: False)
    session = rpc.connect(lease.host, lease.port, lease.match_key)
    server = psutil.Process(running.child.pid)
    print(server.pid, *(child.pid for child in server.children()), flush=True)
    os.kill(os.getpid(), 9)
"""


def test_a_board_says_what_it_is(tracker: Tracker, boards_of_key: list[RunningServer]) -> None:
    from tvm import rpc

    lease = tracker.take("test", give_up=lambda: False)
    assert lease is not None
    session = rpc.connect(lease.host, lease.port, lease.match_key, session_timeout=10.0)
    assert json.loads(session.get_function(IDENTIFY)()) == boards_of_key[0].identity


def test_this_machine_is_a_cpu_and_no_abacus() -> None:
    said = identify_board("cpu")
    assert (said["device"]["kind"], said["target"]["kind"]) == ("cpu", "llvm")
    with pytest.raises(DeviceError, match="abacus"):
        identify_board("abacus")


def test_without_a_tracker_no_board_is_served(free_port: FreePort) -> None:
    with (
        pytest.raises(MeasureError, match="No TVM tracker answers"),
        board_server(Tracker("127.0.0.1", 1), "test", port=free_port()),
    ):
        pass


@pytest.mark.parametrize("key", ["k\u00fcche", "", "a" * 201, "pi\n4", "pi 4"])
def test_a_key_that_a_tracker_would_not_give_back_is_refused(key: str) -> None:
    nobody = Tracker("127.0.0.1", 1)
    with pytest.raises(ArgumentError, match="cannot be the key of boards"), board_server(nobody, key):
        pass
    with pytest.raises(ArgumentError, match="cannot be the key of boards"):
        Boards(nobody.host, nobody.port, key)


@pytest.mark.slow
def test_the_board_of_another_machine_on_the_same_port_is_not_this_one(
    tracker: Tracker, free_port: FreePort, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, asked, servers = free_port(), [0], Tracker.servers

    def with_another(self: Tracker, key: str | None = None) -> list[Server]:
        asked[0] += 1
        registered = servers(self, key) if asked[0] > 4 else []
        return [Server(f"192.0.2.1:{port}", "shared"), *registered]

    monkeypatch.setattr(Tracker, "servers", with_another)
    with board_server(tracker, "shared", port=port, identity={"device": {}, "target": {}}):
        assert asked[0] > 4
        assert [server.name for server in servers(tracker, "shared")] == [f"127.0.0.1:{port}"]


def test_a_tracker_that_dies_is_noticed(free_port: FreePort) -> None:
    with tracker_server(port=free_port()) as running:
        os.kill(running.child.pid or 0, signal.SIGKILL)
        with pytest.raises(MeasureError, match=r"has ended: .*SIGKILL"):
            running.wait()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="children end with a killed parent on Linux only")
def test_a_board_whose_starter_is_killed_leaves_no_process(tracker: Tracker, free_port: FreePort) -> None:
    arguments = [tracker.host, str(tracker.port), str(free_port())]
    done = subprocess.run([sys.executable, "-c", KILLED, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2  # the server and its session
    assert psutil.wait_procs([psutil.Process(p) for p in pids if psutil.pid_exists(p)], timeout=30)[1] == []


def test_a_board_leaves_no_file(
    tracker: Tracker,
    library: Library,
    free_port: FreePort,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tvm import rpc

    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with board_server(tracker, "files", port=free_port(), identity={"device": {}, "target": {}}):
        lease = tracker.take("files", give_up=lambda: False)
        assert lease is not None
        session = rpc.connect(lease.host, lease.port, lease.match_key, session_timeout=10.0)
        session.upload(bytearray(Path(library("abort();")).read_bytes()), "bad.so")
        assert list(folder.rglob("bad.so"))
        with pytest.raises(Exception, match="kShutdown"):
            session.load_module("bad.so")
    assert list(folder.iterdir()) == []
