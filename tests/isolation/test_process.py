"""Processes of children: who may have one after whom, and what is left of them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
import pytest

from costhub.isolation import process
from costhub.isolation.child import Child, ChildDied
from costhub.isolation.limits import Limits
from costhub.isolation.pool import echo
from costhub.isolation.process import end_idle_children


def test_a_child_of_equal_limits_and_environment_is_the_same_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = Limits(cpu_s=1234)  # of no other test
    with Child(limits=limits) as child:
        child.call(echo, 1, timeout_s=60)
        first = child.pid
    monkeypatch.setenv("CHANGED", "since")
    monkeypatch.chdir(tmp_path)
    with Child(limits=limits) as child:
        assert child.call(os.getenv, "CHANGED", timeout_s=60) == "since"
        assert child.call(os.getcwd, timeout_s=60) == str(tmp_path)
        assert child.pid == first
        with Child(limits=limits) as other:
            other.start()
            assert other.pid != first
    for different in (
        Child(limits=Limits(cpu_s=1235)),
        Child(limits=limits, environment={"A": "b"}),
        Child(is_shared=False),
    ):
        with different:
            different.start()
            assert different.pid not in (first, None)
    with Child(limits=limits, most_calls=1) as child:
        child.start()
        assert child.pid != first


def test_a_process_waits_for_as_long_as_its_owner_says() -> None:
    limits = Limits(cpu_s=1236)  # of no other test
    pids = []
    for idle_s in (5000.0, None, None):
        with Child(limits=limits, idle_s=idle_s) as child:
            child.call(echo, 1, timeout_s=60)
            pids.append(child.pid)
        process._idle(os.getpid()).end(now=time.monotonic() + 4000.0)

    assert pids[0] == pids[1] != pids[2]


def test_a_child_that_is_not_shared_leaves_nobody() -> None:
    end_idle_children()
    others = psutil.Process().children()
    with Child(is_shared=False) as child:
        child.call(echo, 1, timeout_s=60)
    assert psutil.Process().children() == others


def test_last_words_are_those_of_the_one_who_died() -> None:
    with Child() as child:
        child.call(print, "of somebody else", timeout_s=60)
    with Child() as child, pytest.raises(ChildDied) as death:
        child.call(echo, {"exit": 1}, timeout_s=60)
    assert "somebody else" not in str(death.value)


def test_many_deaths_leave_nothing_open() -> None:
    this = psutil.Process()
    end_idle_children()
    with Child() as child:
        child.start()
        before = this.num_fds()
        for _ in range(20):
            with pytest.raises(ChildDied):
                child.call(echo, {"exit": 1}, timeout_s=60)
            child.start()
        assert this.num_fds() == before
        assert [c.status() for c in this.children() if c.status() == psutil.STATUS_ZOMBIE] == []


def test_idle_processes_are_few_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    end_idle_children()
    others = psutil.Process().children()
    monkeypatch.setattr(process, "MOST_IDLE", 2)
    children = [Child() for _ in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.close()
    assert len(psutil.Process().children()) == len(others) + 2

    end_idle_children()
    assert psutil.Process().children() == others


def test_a_forked_process_does_not_use_the_children_of_its_parent() -> None:
    with Child() as child:
        child.start()
        first = child.pid
    pid = os.fork()
    if pid == 0:  # no assertion here: it would run the rest of the tests twice
        with Child() as other:
            other.start()
            os._exit(0 if other.pid != first else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
