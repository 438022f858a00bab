"""The child process: it answers, its start is not timed, and its death or hang is told, not suffered."""

from __future__ import annotations

import os
import platform
import signal
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from costhub.errors import MeasureError
from costhub.isolation.child import ChildDied, ChildTimeout, Worker, worker_pool
from costhub.isolation.limits import Limits


def test_a_worker_answers_in_order() -> None:
    with Worker("costhub.isolation.child:echo") as worker:
        assert [worker.call(n, timeout_s=60) for n in range(3)] == [0, 1, 2]


def test_a_worker_that_dies_says_how_and_serves_again() -> None:
    with Worker("costhub.isolation.child:echo") as worker:
        with pytest.raises(ChildDied, match="exit code 3"):
            worker.call({"exit": 3}, timeout_s=60)
        assert worker.call("again", timeout_s=60) == "again"


def test_a_worker_that_dies_in_the_middle_of_a_reply_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The reply is larger than a pipe holds, so the child is still writing it when it ends.
    (tmp_path / "torn_service.py").write_text(
        "import os, threading\n"
        "def handle(request):\n"
        "    threading.Timer(0.5, os._exit, [4]).start()\n"
        "    return bytes(1 << 28)\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    with Worker("torn_service:handle") as worker:
        worker.send(1)
        time.sleep(1.0)
        with pytest.raises(ChildDied, match="exit code 4"):
            worker.receive(timeout_s=60)


def test_the_current_folder_is_no_place_to_import_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stranger.py").write_text("handle = str\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MeasureError, match="No module named 'stranger'"):
        Worker("stranger:handle").start()


def test_a_request_to_end_that_reaches_the_whole_group_does_not_end_the_child() -> None:
    with Worker("costhub.isolation.child:echo") as worker:
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGTERM)
        os.kill(worker.pid, signal.SIGINT)
        assert worker.call("still here", timeout_s=60) == "still here"


def test_a_worker_that_hangs_is_killed_and_serves_again() -> None:
    with Worker("costhub.isolation.child:echo") as worker:
        worker.start()
        with pytest.raises(ChildTimeout, match=r"0\.2 s"):
            worker.call({"sleep_s": 60}, timeout_s=0.2)
        assert worker.call("again", timeout_s=60) == "again"


def test_an_interrupted_request_does_not_answer_the_next_one() -> None:
    with Worker("costhub.isolation.child:echo") as worker:
        threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt):
            worker.call({"sleep_s": 60}, timeout_s=60)
        assert worker.call("next", timeout_s=60) == "next"


def test_the_start_is_not_part_of_the_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_service.py").write_text("import time\ntime.sleep(1.5)\nhandle = str\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    with Worker("slow_service:handle") as worker:
        assert worker.call(1, timeout_s=1.0) == "1"


def test_a_service_that_cannot_be_imported_is_a_sentence() -> None:
    with pytest.raises(MeasureError, match="no_such_module"):
        Worker("no_such_module:handle").start()


def test_a_pool_serves_side_by_side_and_ends() -> None:
    with worker_pool("costhub.isolation.child:echo", 2) as workers:
        for worker in workers:
            worker.send({"sleep_s": 0.1, "pid": os.getpid()})
        assert [w.receive(timeout_s=60)["pid"] for w in workers] == [os.getpid()] * 2
    with pytest.raises(ChildDied):
        workers[0].receive(timeout_s=1)


def test_a_warm_flag_belongs_to_one_child() -> None:
    with Worker("costhub.isolation.child:echo") as worker:
        worker.is_warm = True
        worker.kill()
        worker.start()
        assert not worker.is_warm


SERVICE_OF_TROUBLES = """
import ctypes, mmap, os, subprocess, time
def handle(request):
    if request == "spin":
        while True:
            pass
    if request == "take all memory":
        return len(bytearray(1 << 40))
    if request == "illegal instruction":
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(bytes([0x0f, 0x0b]))
        ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    if request == "start a child and hang":
        print(subprocess.Popen(["sleep", "600"]).pid, file=open(os.environ["PID_FILE"], "w"), flush=True)
        time.sleep(600)
    if request == "burn 0.7 s":
        end = time.process_time() + 0.7
        while time.process_time() < end:
            pass
    return request
"""


@pytest.fixture
def troubles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "troubles.py").write_text(SERVICE_OF_TROUBLES)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    return "troubles:handle"


def test_a_limit_of_processor_time_is_that_of_one_request(troubles: str) -> None:
    with Worker(troubles, limits=Limits(cpu_s=1)) as worker:
        pid = worker.pid
        for _ in range(4):  # more than the limit in all
            assert worker.call("burn 0.7 s", timeout_s=60) == "burn 0.7 s"
        assert worker.pid == pid
        with pytest.raises(ChildDied, match=r"SIGXCPU.*limit of 1 s of processor time"):
            worker.call("spin", timeout_s=60)


def test_a_limit_of_memory_is_named(troubles: str) -> None:
    with (
        Worker(troubles, limits=Limits(address_space_bytes=1 << 32)) as worker,
        pytest.raises(ChildDied, match="memory limit of 4 GiB"),
    ):
        worker.call("take all memory", timeout_s=60)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the illegal instruction is one of x86")
def test_an_illegal_instruction_is_named(troubles: str) -> None:
    with Worker(troubles) as worker, pytest.raises(ChildDied, match="SIGILL"):
        worker.call("illegal instruction", timeout_s=60)


def test_the_environment_is_the_parents_and_what_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "environment.py").write_text("import os\nhandle = os.environ.get\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.setenv("INHERITED", "yes")
    with Worker("environment:handle", environment={"GIVEN": "too"}) as worker:
        assert worker.call("INHERITED", timeout_s=60) == "yes"
        assert worker.call("GIVEN", timeout_s=60) == "too"


def test_what_a_child_has_started_ends_with_it(troubles: str, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    with Worker(troubles, environment={"PID_FILE": str(note)}) as worker, pytest.raises(ChildTimeout):
        worker.call("start a child and hang", timeout_s=2)
    process = psutil.Process(int(note.read_text())) if psutil.pid_exists(int(note.read_text())) else None
    if process is not None:  # killed, and waiting for whoever reaps orphans here
        process.wait(timeout=30)


def test_a_frozen_child_answers_when_it_is_thawed() -> None:
    with Worker("costhub.isolation.child:echo") as worker:
        worker.start()
        worker.freeze()
        worker.send(1)
        assert worker.connection is not None
        assert not worker.connection.poll(0.3)
        worker.thaw()
        assert worker.receive(timeout_s=60) == 1


def test_a_frozen_child_can_be_killed_and_serves_again() -> None:
    with Worker("costhub.isolation.child:echo") as worker:
        worker.start()
        worker.freeze()
        with pytest.raises(ChildTimeout):
            worker.call(1, timeout_s=0.2)
        assert worker.call(2, timeout_s=60) == 2


def test_a_child_killed_while_it_starts_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mortal.py").write_text(
        "import os, pathlib\n"
        "lives = pathlib.Path(os.environ['LIVES'])\n"
        "def die_for(name):\n"
        "    if (lives / name).exists():\n"
        "        (lives / name).unlink()\n"
        "        os._exit(9)\n"
        "die_for('import')\n"
        "def handle(request):\n"
        "    die_for(request)\n"
        "    return request\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    for name in ("import", "warm up"):
        (tmp_path / name).touch()
    with Worker("mortal:handle", environment={"LIVES": str(tmp_path)}) as worker:
        worker.warm_up("warm up")
        assert worker.is_warm
        assert worker.call("request", timeout_s=60) == "request"


def test_a_child_that_dies_every_time_is_given_up() -> None:
    with Worker("costhub.isolation.child:echo") as worker, pytest.raises(ChildDied, match="exit code 5"):
        worker.warm_up({"exit": 5})


def test_many_deaths_leave_nothing_open(troubles: str) -> None:
    this = psutil.Process()
    with Worker("costhub.isolation.child:echo") as worker:
        worker.start()
        before = this.num_fds()
        for _ in range(20):
            with pytest.raises(ChildDied):
                worker.call({"exit": 1}, timeout_s=60)
            worker.start()
        assert this.num_fds() == before
        assert [c.status() for c in this.children() if c.status() == psutil.STATUS_ZOMBIE] == []
