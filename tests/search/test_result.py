"""The stopwatch of a search: every second counts once, and to the innermost stage."""

from __future__ import annotations

import itertools

import pytest

from costhub.search import result as stages
from costhub.search.result import RUNNING, Health, StageTimer, TrialMeter


@pytest.fixture(autouse=True)
def a_second_at_each_look(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = itertools.count()
    monkeypatch.setattr(stages, "perf_counter", lambda: float(next(looks)))


def test_the_stages_add_up_to_the_time_that_passed() -> None:
    clock = StageTimer()
    with clock.during("features"):
        pass
    with clock.during("building"):
        pass

    assert clock.seconds() == {"other": 3.0, "features": 1.0, "building": 1.0}
    assert sum(clock.seconds().values()) == 6.0


def test_a_stage_within_another_is_not_counted_twice() -> None:
    clock = StageTimer()
    with clock.during("prediction"), clock.during("features"):
        pass

    assert clock.seconds() == {"other": 2.0, "prediction": 2.0, "features": 1.0}


def test_what_a_child_process_did_meanwhile_is_a_stage_of_its_own() -> None:
    clock = StageTimer()
    with clock.during("extracting"):
        clock.move(0.75, "extracting", "reading")

    assert clock.seconds() == {"other": 2.0, "extracting": 0.25, "reading": 0.75}


def test_an_error_ends_a_stage() -> None:
    clock = StageTimer()
    with pytest.raises(ValueError, match="no"), clock.during("running"):
        raise ValueError("no")
    before = clock.seconds()["running"]

    assert clock.seconds()["running"] == before


def test_trials_of_before_count_and_take_no_time() -> None:
    told: list[tuple[int, float | None]] = []
    meter = TrialMeter(lambda done, best_us: told.append((done, best_us)))

    meter.measured_before([3e-6, 4e-6, float("inf")])
    with meter.stages.during(RUNNING):
        meter.measured(2e-6, "ok")
        meter.measured(5e-6, "ok")
        meter.measured(None, "build_timeout")

    result = meter.result("w", Health(), 8.0, space="llvm")
    assert (result.space, result.to_json()["space"]) == ("llvm", "llvm")
    assert (result.trials, result.failures, result.best_us, result.speedup) == (6, 2, pytest.approx(2), 4)
    assert [point[0] for point in result.curve] == [3, 4, 5]
    assert result.curve[0][1] == 0.0 < result.curve[1][1]
    assert result.failed_as == {"build_timeout": 1}
    assert result.measured_us == [pytest.approx(us) if us else None for us in (3, 4, None, 2, 5, None)]
    assert [best for _, best in told] == [pytest.approx(2)] * 3
    assert [done for done, _ in told] == [4, 5, 6]


def test_waiting_for_other_tasks_is_no_time_of_the_search() -> None:
    assert TrialMeter(None).result("w", Health(), None).seconds == 0.0
