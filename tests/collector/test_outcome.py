"""An outcome's status is that of the last stage that it reached."""

from __future__ import annotations

from costhub.collector.builder import Built
from costhub.collector.outcome import Outcome, Surroundings
from costhub.collector.runner import Ran
from costhub.collector.sampler import Program

RANDOM = Program("p", "[[],[]]", "{}", (), "random")
QUIET = Surroundings(0.5, 1e-3, 0.01)


def test_the_status_is_that_of_the_run_and_of_the_build_where_there_was_none() -> None:
    built = Built("ok", "a.so", 0.1, None)
    unbuilt = Built("build_timeout", None, 0.1, "too long")
    assert Outcome(RANDOM, unbuilt, None, QUIET, "d").status == "build_timeout"
    assert Outcome(RANDOM, unbuilt, None, QUIET, "d").error == "too long"
    assert Outcome(RANDOM, built, Ran("ok", (1.0,), 0.1, None), QUIET, "d").status == "ok"
    assert Outcome(RANDOM, built, Ran("run_error", (), 0.1, "why"), QUIET, "d").error == "why"
