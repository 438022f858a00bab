"""The stopwatch of a search: every second counts once, and to the innermost stage."""

from __future__ import annotations

import itertools

import pytest

from costhub.transfer import stages
from costhub.transfer.stages import Stages


@pytest.fixture(autouse=True)
def a_second_at_each_look(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = itertools.count()
    monkeypatch.setattr(stages, "perf_counter", lambda: float(next(looks)))


def test_the_stages_add_up_to_the_time_that_passed() -> None:
    clock = Stages()
    with clock.during("features"):
        pass
    with clock.during("building"):
        pass

    assert clock.seconds() == {"other": 3.0, "features": 1.0, "building": 1.0}
    assert sum(clock.seconds().values()) == 6.0


def test_a_stage_within_another_is_not_counted_twice() -> None:
    clock = Stages()
    with clock.during("prediction"), clock.during("features"):
        pass

    assert clock.seconds() == {"other": 2.0, "prediction": 2.0, "features": 1.0}


def test_an_error_ends_a_stage() -> None:
    clock = Stages()
    with pytest.raises(ValueError, match="no"), clock.during("running"):
        raise ValueError("no")
    before = clock.seconds()["running"]

    assert clock.seconds()["running"] == before
