"""Where the time of a collection went."""

from __future__ import annotations

import time

import pytest

from costhub.collector.build_service import BuildSeconds
from costhub.collector.builder import Built
from costhub.collector.outcome import Outcome, Surroundings
from costhub.collector.profile import Profile
from costhub.collector.runner import Ran
from costhub.collector.sampler import Program

PROGRAM = Program("p", "[[],[]]", "{}", (), "random")
BUILT = Built("ok", "a.so", 0.6, None, BuildSeconds(lower=0.2, llvm=0.3, link=0.1))
OUTCOME = Outcome(PROGRAM, BUILT, Ran("ok", (1e-3,), 0.25, None), Surroundings(0.0, 1e-3, 0.0), "d")


def test_all_core_seconds_are_accounted_for() -> None:
    profile = Profile(cores=2)
    with profile.sampling():
        sum(range(200_000))
    with profile.measuring():
        time.sleep(0.01)
        profile.note(OUTCOME, is_first=True)
    profile.stop()

    assert sum(profile.seconds.values()) == pytest.approx(2 * profile.wall_s)
    assert profile.seconds["sample"] > 0
    assert profile.seconds["run"] == 0.5, "no other core may work while a program is timed"


def test_a_build_that_devices_share_is_counted_once() -> None:
    profile = Profile(cores=2)
    profile.note(OUTCOME, is_first=True)
    profile.note(OUTCOME, is_first=False)
    profile.stop()

    assert (profile.programs, profile.good) == (1, 2)
    assert profile.seconds["llvm"] == 0.3
    assert profile.floor_s == pytest.approx(0.3 / 2 + 0.25 * 2)
