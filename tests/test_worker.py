"""The child process: it answers, its start is not timed, and its death or hang is told, not suffered."""

from __future__ import annotations

import os
import sys
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


def test_a_worker_that_hangs_is_killed_and_serves_again() -> None:
    with Worker("costhub.worker:echo") as worker:
        worker.start()
        with pytest.raises(WorkerTimeout, match=r"0\.2 s"):
            worker.call({"sleep_s": 60}, timeout_s=0.2)
        assert worker.call("again", timeout_s=60) == "again"


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
