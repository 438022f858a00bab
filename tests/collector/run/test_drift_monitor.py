"""The reference kernel says when a machine is busy, before a batch and after each program."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from costhub.collector.build.builder import Builder
from costhub.collector.propose.sampler import Program
from costhub.collector.run import drift_monitor
from costhub.collector.run.drift_monitor import DriftMonitor, DriftSeconds
from costhub.collector.run.runner import Runner, RunResult


@pytest.fixture
def readings(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the reference kernel will take, one reading after the other; the last one for ever."""
    said: list[float] = []

    def answers() -> Iterator[float]:
        yield from said
        while True:
            yield said[-1]

    found = answers()
    monkeypatch.setattr(runner, "reference_s", lambda *, quick=False: next(found))
    monkeypatch.setattr(drift_monitor, "QUIET_WAITS_S", (0.0,) * 5)
    return said


def test_a_busy_machine_is_waited_for(runner: Runner, readings: list[float], caplog: pytest.LogCaptureFixture) -> None:
    readings += [1.0, 1.0, 1.0, 2.0, 1.5, 1.05]
    with caplog.at_level("INFO", "costhub"):
        assert DriftMonitor(runner).look().reference_drift == pytest.approx(0.05)
    assert caplog.text.count("waiting for a quiet machine (load ") == 1


def test_a_machine_that_stays_busy_is_measured_and_the_row_says_so(runner: Runner, readings: list[float]) -> None:
    readings += [1.0, 1.0, 1.0, 2.0]
    assert DriftMonitor(runner).look().reference_drift == pytest.approx(1.0)


def test_a_machine_that_stays_busy_is_not_waited_for_again_and_again(
    runner: Runner, builder: Builder, programs: list[Program], readings: list[float]
) -> None:
    built = builder.build([programs[0].module_json])[0]
    assert built.artifact is not None
    readings += [1.0, 1.0, 1.0, *[2.0] * 6, 3.0, 2.5, 4.0]
    monitor = DriftMonitor(runner)

    monitor.look()
    _, around = monitor.run(built.artifact, programs[0].arguments)

    assert around.reference_after_s == 3.0, "measured once"
    assert monitor.look().reference_drift == pytest.approx(1.5), "read once"


def test_waiting_takes_a_small_share_of_a_session(
    runner: Runner, readings: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drift_monitor, "QUIET_WAITS_S", (0.01,) * 5)
    monkeypatch.setattr(drift_monitor, "FREE_WAITING_S", 0.015)
    monkeypatch.setattr(drift_monitor, "MAX_WAITING", 0.0)
    readings += [1.0, 1.0, 1.0, 2.0, 2.5, 3.0, 1.0]

    assert DriftMonitor(runner).look().reference_drift == pytest.approx(2.0), "two waits, though a third would do"


def test_a_program_after_which_the_machine_is_found_busy_is_measured_again(
    runner: Runner, builder: Builder, programs: list[Program], readings: list[float]
) -> None:
    built = builder.build([programs[0].module_json])[0]
    assert built.artifact is not None
    # Three for the baseline, one before; busy after the first run, quiet again, quiet after the second.
    readings += [1.0, 1.0, 1.0, 1.0, 1.8, 1.0, 1.02, 9.0]
    monitor = DriftMonitor(runner)

    monitor.look()
    ran, around = monitor.run(built.artifact, programs[0].arguments)

    assert ran.status == "ok"
    assert around.reference_after_s == 1.02
    assert around.reference_drift == 0.0


def test_a_short_disturbance_is_waited_for_shortly(
    runner: Runner, readings: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drift_monitor, "QUIET_WAITS_S", (0.1, 0.2, 0.4))
    monkeypatch.setattr(drift_monitor, "FREE_WAITING_S", 10.0)
    waits: list[float] = []
    monkeypatch.setattr(drift_monitor.time, "sleep", waits.append)
    found = iter([1.0, 1.0, 1.0, 2.0, 2.0, 1.0])
    monkeypatch.setattr(runner, "reference_s", lambda *, quick=False: next(found))

    assert DriftMonitor(runner).look().reference_drift == 0.0

    assert waits == [0.1, 0.2]


class Clock:
    """Stands in for the module `time`: it goes on only where somebody says how long something takes."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> float:
        self.now_s += seconds
        return seconds


@pytest.fixture
def watched(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> Callable[..., DriftSeconds]:
    """Tells what watching over one program took. The program takes 100 s, the kernel what each reading says."""

    def watch(*readings: float) -> DriftSeconds:
        clock, found = Clock(), iter(readings)
        monkeypatch.setattr(drift_monitor, "time", clock)
        monkeypatch.setattr(drift_monitor, "QUIET_WAITS_S", (0.5,) * 5)
        monkeypatch.setattr(drift_monitor, "FREE_WAITING_S", 100.0)
        monkeypatch.setattr(runner, "reference_s", lambda *, quick=False: clock.sleep(next(found)))
        monkeypatch.setattr(runner, "run", lambda *_, **__: RunResult("ok", (1.0,), clock.sleep(100.0), None))
        monitor = DriftMonitor(runner)
        monitor.look()
        monitor.run("a.so", ())
        assert next(found, None) is None
        return monitor.seconds

    return watch


def test_on_a_quiet_machine_watching_takes_the_kernel_before_the_batch_and_after_the_program(
    watched: Callable[..., DriftSeconds],
) -> None:
    assert watched(1.0, 1.0, 1.0, 1.125, 1.0625) == DriftSeconds(reference=1.125 + 1.0625)


def test_waits_and_what_was_not_kept_are_told_apart(watched: Callable[..., DriftSeconds]) -> None:
    before, after, again = (2.0, 2.0, 1.0), (3.0,), (4.0, 1.0, 1.0)

    seconds = watched(1.0, 1.0, 1.0, *before, *after, *again)

    assert seconds.reference == 2.0 + 3.0, "the first before the batch, and the one after the program"
    assert seconds.wait == (0.5 + 2.0) + (0.5 + 1.0) + (0.5 + 1.0), "twice before the batch, once before the second run"
    assert seconds.repeat == 100.0 + 4.0 + 1.0, "the first run, and the kernel before and after the second"


def test_nothing_is_timed_after_a_program_that_failed(runner: Runner, readings: list[float]) -> None:
    readings += [1.0, 1.0, 1.0, 1.0, 9.0]
    monitor = DriftMonitor(runner)
    before = monitor.look()

    result, state = monitor.run("/nowhere/program.so", ())

    assert result.status == "run_error"
    assert state == before
    assert state.reference_after_s is None


def test_the_real_reference_kernel_hardly_drifts_and_quick_agrees_with_full(runner: Runner) -> None:
    monitor = DriftMonitor(runner)
    around = monitor.look()
    assert around.reference_s > 0
    # The least of several: what else runs on the machine only ever adds.
    assert min(abs(monitor.look().reference_drift) for _ in range(5)) < 5
