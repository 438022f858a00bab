"""The child process: it answers, its start is not timed, and its death or hang is told, not suffered."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from costhub.errors import MeasureError
from costhub.worker import Worker, WorkerDied, WorkerTimeout, worker_pool


def test_a_worker_answers_in_order() -> None:
    with Worker("costhub.worker:echo") as worker:
        assert [worker.call(n, timeout_s=60) for n in range(3)] == [0, 1, 2]


def test_a_worker_that_dies_says_how_and_serves_again() -> None:
    with Worker("costhub.worker:echo") as worker:
        with pytest.raises(WorkerDied, match="exit code 3"):
            worker.call({"exit": 3}, timeout_s=60)
        assert worker.call("again", timeout_s=60) == "again"


def test_a_worker_that_dies_in_the_middle_of_a_reply_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        with pytest.raises(WorkerDied, match="exit code 4"):
            worker.receive(timeout_s=60)


def test_the_current_folder_is_no_place_to_import_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stranger.py").write_text("handle = str\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MeasureError, match="No module named 'stranger'"):
        Worker("stranger:handle").start()


def test_a_request_to_end_that_reaches_the_whole_group_does_not_end_the_child() -> None:
    with Worker("costhub.worker:echo") as worker:
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGTERM)
        os.kill(worker.pid, signal.SIGINT)
        assert worker.call("still here", timeout_s=60) == "still here"


def test_a_worker_that_hangs_is_killed_and_serves_again() -> None:
    with Worker("costhub.worker:echo") as worker:
        worker.start()
        with pytest.raises(WorkerTimeout, match=r"0\.2 s"):
            worker.call({"sleep_s": 60}, timeout_s=0.2)
        assert worker.call("again", timeout_s=60) == "again"


def test_an_interrupted_request_does_not_answer_the_next_one() -> None:
    with Worker("costhub.worker:echo") as worker:
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
    with worker_pool("costhub.worker:echo", 2) as workers:
        for worker in workers:
            worker.send({"sleep_s": 0.1, "pid": os.getpid()})
        assert [w.receive(timeout_s=60)["pid"] for w in workers] == [os.getpid()] * 2
    with pytest.raises(WorkerDied):
        workers[0].receive(timeout_s=1)


def test_a_warm_flag_belongs_to_one_child() -> None:
    with Worker("costhub.worker:echo") as worker:
        worker.is_warm = True
        worker.restart()
        assert not worker.is_warm
