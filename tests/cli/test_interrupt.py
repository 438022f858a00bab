"""One way to stop, for ^C, `kill` and a terminal that closes."""

from __future__ import annotations

import signal

import pytest

from costhub.cli.interrupt import ended_like_by_ctrl_c


def test_signals_are_heeded_once_and_left_as_they_were() -> None:
    def hang_up_and_then_end() -> None:
        with ended_like_by_ctrl_c():
            try:
                signal.raise_signal(signal.SIGHUP)
            finally:
                signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGHUP)
    with pytest.raises(KeyboardInterrupt):
        hang_up_and_then_end()
    assert signal.getsignal(signal.SIGHUP) is before
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_terminal_that_closes_does_not_end_what_runs_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_like_by_ctrl_c():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
