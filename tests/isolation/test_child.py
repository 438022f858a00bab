"""The child process: what it runs, what a call costs, and how it tells of a death, a hang or an error."""

from __future__ import annotations

import itertools
import math
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

from costhub.errors import MeasureError, UnknownNameError
from costhub.isolation.child import WITHOUT_TORCH, CallFailed, Child, ChildDied, ChildKilled, ChildTimeout
from costhub.isolation.limits import Limits
from costhub.isolation.pool import echo
from costhub.isolation.process import ChildProcess
from costhub.isolation.tvm_children import load_tvm

TROUBLES = """
import ctypes, mmap, os, pathlib, subprocess, threading, time

def spin():
    while True:
        pass

def take_memory(count):
    return len(bytearray(count))

def illegal_instruction():
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes([0x0f, 0x0b]))
    ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()

def start_a_child_and_hang(note):
    print(subprocess.Popen(["sleep", "600"]).pid, file=open(note, "w"), flush=True)
    time.sleep(600)

def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return seconds

def die_in_the_answer():
    # It is larger than a pipe holds, so the child is still writing it when it ends.
    threading.Timer(0.5, os._exit, [4]).start()
    return bytes(1 << 28)

def die_once(lives):
    if pathlib.Path(lives).exists():
        pathlib.Path(lives).unlink()
        os._exit(9)

class LibraryError(Exception):
    pass

def fail():
    raise LibraryError("frames\\nthe reason")

def find(name):
    from costhub.registry import Registry
    return Registry("architecture", {"mlp": 1}, group="costhub.tests", listing="The list").find(name)

def put(name, value):
    os.environ[name] = value

def add_line(path):
    with open(path, "a") as file:
        print("ready", file=file)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], ModuleType]:
    """Makes a module that this process and children can import."""

    def make(name: str, content: str) -> ModuleType:
        (tmp_path / f"{name}.py").write_text(content)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, name, raising=False)
        return import_module(name)

    return make


@pytest.fixture
def troubles(module: Callable[[str, str], ModuleType]) -> Any:
    return module("troubles", TROUBLES)


def test_calls_are_answered_in_order() -> None:
    with Child() as child:
        assert [child.call(echo, n, timeout_s=60) for n in range(3)] == [0, 1, 2]
        assert child.call(math.hypot, 3.0, 4.0, timeout_s=60) == 5.0
        assert child.call(partial(sorted, reverse=True), [1, 2], timeout_s=60) == [2, 1]


def test_what_costhub_and_python_raise_is_raised_here(troubles: Any) -> None:
    with Child() as child:
        with pytest.raises(ValueError, match=r"math domain error|nonnegative") as raised:
            child.call(math.sqrt, -1.0, timeout_s=60)
        assert "Traceback" in str(raised.value.__cause__)
        with pytest.raises(UnknownNameError) as unknown:
            child.call(troubles.find, "mpl", timeout_s=60)
        assert unknown.value.close == ("mlp",)
        assert child.call(echo, "again", timeout_s=60) == "again"


def test_what_a_library_raises_is_its_class_and_its_reason(troubles: Any) -> None:
    with Child() as child, pytest.raises(CallFailed, match=r"LibraryError: frames\nthe reason"):
        child.call(troubles.fail, timeout_s=60)


def test_what_cannot_be_pickled_is_an_error_on_either_side() -> None:
    with Child() as child:
        with pytest.raises(Exception, match="pickle"):
            child.call(lambda: None, timeout_s=60)
        with pytest.raises(Exception, match="pickle"):
            child.call(threading.Lock, timeout_s=60)
        assert child.call(echo, 1, timeout_s=60) == 1


def test_a_child_that_dies_says_how_and_serves_again() -> None:
    with Child() as child:
        with pytest.raises(ChildDied, match="exit code 3"):
            child.call(echo, {"exit": 3}, timeout_s=60)
        assert child.call(echo, "again", timeout_s=60) == "again"


def test_a_child_that_dies_in_the_middle_of_an_answer_is_dead(troubles: Any) -> None:
    with Child() as child:
        child.send(troubles.die_in_the_answer)
        time.sleep(1.0)
        with pytest.raises(ChildDied, match="exit code 4"):
            child.receive(timeout_s=60)


def test_nothing_is_imported_from_the_current_folder(
    tmp_path: Path, module: Callable[[str, str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = module("stranger", "def handle(): ...\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path != str(tmp_path)))
    monkeypatch.chdir(tmp_path)
    with (
        Child() as child,
        pytest.raises(MeasureError, match=r"not import stranger: .*No module named 'stranger'"),
    ):
        child.call(stranger.handle, timeout_s=60)


def test_a_request_to_end_that_reaches_the_whole_group_does_not_end_the_child() -> None:
    with Child() as child:
        child.call(echo, 1, timeout_s=60)
        assert child.pid is not None
        os.kill(child.pid, signal.SIGTERM)
        os.kill(child.pid, signal.SIGINT)
        assert child.call(echo, "still here", timeout_s=60) == "still here"


def test_a_child_that_hangs_is_killed_and_serves_again() -> None:
    with Child() as child:
        with pytest.raises(ChildTimeout, match=r"0\.2 s"):
            child.call(echo, {"sleep_s": 60}, timeout_s=0.2)
        assert child.call(echo, "again", timeout_s=60) == "again"


def test_a_timeout_says_how_long_the_process_was_at_work() -> None:
    with Child() as child, pytest.raises(ChildTimeout) as late:
        child.call(sum, itertools.repeat(1), timeout_s=1.0)

    assert late.value.cpu_s > 0


def test_an_interrupted_call_does_not_answer_the_next_one() -> None:
    with Child() as child:
        child.start()
        threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt):
            child.call(echo, {"sleep_s": 60}, timeout_s=60)
        assert child.call(echo, "next", timeout_s=60) == "next"


def test_neither_the_start_nor_the_import_is_part_of_the_time_limit(module: Callable[[str, str], ModuleType]) -> None:
    slow = module(
        "slow_module", "import sys, time\nif 'pytest' not in sys.modules:\n    time.sleep(1.5)\ndef f(): ...\n"
    )
    with Child() as child:
        child.call(slow.f, timeout_s=1.0)


def test_what_prepares_a_child_is_called_once_in_every_process(tmp_path: Path, troubles: Any) -> None:
    (lives := tmp_path / "lives").touch()
    with Child(prepare=partial(troubles.die_once, str(lives))) as child:
        assert child.call(echo, "it died once while it started", timeout_s=60)
    with Child(prepare=partial(troubles.put, "PREPARED", "yes"), is_shared=False) as child:
        for _ in range(2):
            assert child.call(os.getenv, "PREPARED", timeout_s=60) == "yes"
            child.kill()
        child.prepare(partial(troubles.put, "PREPARED", "again"))
        assert child.call(os.getenv, "PREPARED", timeout_s=60) == "again"


def test_a_launched_child_gets_ready_while_nobody_waits(tmp_path: Path, troubles: Any) -> None:
    ready = tmp_path / "ready"
    with Child(prepare=partial(troubles.add_line, str(ready)), is_shared=False) as child:
        child.launch()
        child.launch()
        end = time.monotonic() + 60
        while not ready.exists() and time.monotonic() < end:
            time.sleep(0.05)
        assert ready.exists()
        assert child.call(echo, 1, timeout_s=60) == 1
        assert ready.read_text() == "ready\n"

    with Child(prepare=partial(troubles.put, "PREPARED", "yes"), is_shared=False) as child:
        child.launch()
        child.prepare(partial(troubles.put, "PREPARED", "again"))
        assert child.call(os.getenv, "PREPARED", timeout_s=60) == "again"

    (lives := tmp_path / "lives").touch()
    with Child(prepare=partial(troubles.die_once, str(lives))) as child:
        child.launch()
        assert child.call(echo, "it died once while it got ready", timeout_s=60)


def test_a_launch_that_fails_is_tried_again_by_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_process(*_: Any, **__: Any) -> None:
        raise OSError("Cannot allocate memory")

    with Child(is_shared=False) as child:
        with monkeypatch.context() as no_memory:
            no_memory.setattr(ChildProcess, "launch", no_process)
            child.launch()
        assert child.call(echo, 1, timeout_s=60) == 1


def test_a_child_that_nobody_waited_for_serves_no_one_else(troubles: Any) -> None:
    limits = Limits(cpu_s=4322)  # of no other test
    with Child(prepare=partial(troubles.put, "PREPARED", "yes"), limits=limits) as child:
        child.launch()
        pid = child.pid
    with Child(limits=limits) as other:
        assert other.call(echo, 1, timeout_s=60) == 1
        assert other.pid != pid


def test_a_child_that_never_gets_ready_is_a_sentence() -> None:
    with Child(prepare=partial(echo, {"exit": 5})) as child, pytest.raises(MeasureError, match="exit code 5"):
        child.start()


@pytest.mark.slow
def test_a_limit_of_processor_time_is_that_of_one_call(troubles: Any) -> None:
    with Child(limits=Limits(cpu_s=1)) as child:
        child.start()
        pid = child.pid
        for _ in range(4):  # more than the limit in all
            assert child.call(troubles.burn, 0.7, timeout_s=60) == 0.7
        assert child.pid == pid
        with pytest.raises(ChildDied, match=r"SIGXCPU.*limit of 1 s of processor time"):
            child.call(troubles.spin, timeout_s=60)


@pytest.mark.parametrize("limits", [Limits(address_space_bytes=1 << 32), Limits(further_bytes=1 << 32)])
def test_a_limit_of_memory_holds(troubles: Any, limits: Limits) -> None:
    with Child(limits=limits) as child:
        for _ in range(3):
            assert child.call(troubles.take_memory, 1 << 30, timeout_s=60) == 1 << 30
        with pytest.raises(MemoryError):
            child.call(troubles.take_memory, 1 << 40, timeout_s=60)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the illegal instruction is one of x86")
def test_an_illegal_instruction_is_named(troubles: Any) -> None:
    with Child() as child, pytest.raises(ChildDied, match="SIGILL"):
        child.call(troubles.illegal_instruction, timeout_s=60)


def test_the_environment_is_ours_and_what_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INHERITED", "yes")
    with Child(environment={"GIVEN": "too"}) as child:
        assert child.call(os.getenv, "INHERITED", timeout_s=60) == "yes"
        assert child.call(os.getenv, "GIVEN", timeout_s=60) == "too"


def test_a_child_without_torch_imports_tvm_all_the_same() -> None:
    with Child(environment=WITHOUT_TORCH) as child:
        assert child.call(find_spec, "torch", timeout_s=60) is None
        with pytest.raises(ImportError):
            child.call(import_module, "torch", timeout_s=60)
        child.call(load_tvm, timeout_s=180)
    with Child() as child:
        assert child.call(find_spec, "torch", timeout_s=60) is not None


def test_what_a_child_has_started_ends_with_it(troubles: Any, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    with Child() as child, pytest.raises(ChildTimeout):
        child.call(troubles.start_a_child_and_hang, str(note), timeout_s=2)
    process = psutil.Process(int(note.read_text())) if psutil.pid_exists(int(note.read_text())) else None
    if process is not None:  # killed, and waiting for whoever reaps orphans here
        process.wait(timeout=30)


def test_no_time_passes_for_a_frozen_child() -> None:
    with Child() as child:
        child.start()
        child.send(echo, {"sleep_s": 0.3})
        child.freeze()
        before = child.time()
        threading.Timer(1.0, child.thaw).start()
        assert child.receive(timeout_s=0.8) == {"sleep_s": 0.3}
        assert child.time() - before < 0.8


def test_a_frozen_child_can_be_killed_and_serves_again() -> None:
    with Child() as child:
        child.start()
        child.freeze()
        child.kill()
        child.thaw()
        assert child.call(echo, 2, timeout_s=60) == 2


def test_a_call_ends_when_its_child_is_closed_or_killed_from_another_thread() -> None:
    for end in (Child.kill, Child.close):
        with Child() as child:
            child.start()
            threading.Timer(0.3, end, [child]).start()
            with pytest.raises(ChildKilled):
                child.call(echo, {"sleep_s": 60}, timeout_s=60)
    with pytest.raises(MeasureError, match="closed"):
        child.call(echo, 1)
