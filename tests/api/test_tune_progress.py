"""What a search shows of itself: a message now and then in a log, bars on a terminal."""

from __future__ import annotations

import io
import logging
import sys

import pytest

from costhub.api.tune_progress import TuneProgress, progress_text
from costhub.search.scheduler import SearchProgress


class Terminal(io.StringIO):
    """What a terminal would show."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def a_terminal_that_can_redraw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def after(trials: int) -> SearchProgress:
    return SearchProgress(trials, 96, 2, 2, 1234.5, 0.031)


def test_a_log_gets_a_message_now_and_then_with_the_time_left(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "costhub")
    now = [0.0]
    with TuneProgress(96, every_s=60.0, clock=lambda: now[0]) as progress:
        for trials in range(0, 96, 16):
            progress.batch(after(trials))
            now[0] += 40.0

    lines = caplog.messages
    # At 80 and 160 s: 40 s for 16 trials, of which 64 and 32 are left.
    both = "of 96 trials, 2 kernels: 1,234.5 us together, next batch of each expected to save 3.1%, about"
    assert lines == [f"32 {both} 3 min left", f"64 {both} 80 s left"]


def test_the_first_trials_say_nothing_of_the_time_left(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "costhub")
    now = [0.0]
    with TuneProgress(96, every_s=10.0, clock=lambda: now[0]) as progress:
        progress.batch(after(0))
        now[0] = 60.0
        progress.batch(after(8))
        assert "8 of 96 trials" in caplog.text
        assert "left" not in caplog.text
        now[0] = 80.0
        progress.batch(after(32))

    assert "about 3 min left" in caplog.text


def test_what_an_earlier_search_measured_does_not_count_for_the_time_left(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "costhub")
    now = [0.0]
    with TuneProgress(96, every_s=10.0, clock=lambda: now[0]) as progress:
        progress.batch(after(64))
        now[0] = 20.0
        progress.batch(after(80))

    assert "about 20 s left" in caplog.text


def test_a_terminal_shows_trials_best_and_all_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    with TuneProgress(96, every_s=0.0) as progress:
        progress.trial("conv", 1, 12.34)
        progress.batch(after(16))

    text = shown.getvalue()
    assert "conv: best 12.3 us" in text
    assert "2 kernels: 1,234.5 us together, next batch of each expected to save 3.1%" in text
    assert "/96" in text


def test_a_terminal_shows_what_one_workload_may_still_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    with TuneProgress(64, every_s=0.0) as progress:
        progress.batch(SearchProgress(16, 64, 1, 1, 12.34, 0.05))

    assert "12.3 us in all, next batch expected to save 5.0%" in shown.getvalue()


def test_where_a_rule_ended_the_search_is_told_with_the_seconds_that_the_rest_would_have_taken() -> None:
    now = [0.0]
    with TuneProgress(128, clock=lambda: now[0], enabled=False) as progress:
        progress.batch(SearchProgress(0, 128, 0, 1, None, None))
        now[0] = 30.0
        progress.batch(SearchProgress(32, 128, 1, 1, 10.0, 0.001))
        assert progress.stopped("gain") is None
        progress.batch(SearchProgress(32, 128, 1, 1, 10.0, 0.001, stopped="Enough."))

    now[0] = 600.0  # what follows the search, such as timing unscheduled workloads, says nothing about it
    stopped = progress.stopped("gain")
    assert stopped is not None
    assert (stopped.why, stopped.trials, stopped.cap, stopped.saved_s) == ("Enough.", 32, 128, 90.0)


def test_the_order_of_the_trials_is_kept() -> None:
    with TuneProgress(3) as progress:
        for name in ("a", "b", "a"):
            progress.trial(name, 1, None)

    assert progress.order == ["a", "b", "a"]


def test_kernels_that_nobody_has_begun_with_are_said() -> None:
    assert "1 of 2 kernels begun" in progress_text(SearchProgress(3, 9, 1, 2, None, None))


def test_a_silent_search_shows_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "costhub")
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    with TuneProgress(64, every_s=0.0, enabled=False) as progress:
        progress.trial("conv", 1, 12.34)
        progress.batch(after(16))

    assert (shown.getvalue(), caplog.messages, progress.order) == ("", [], ["conv"])
