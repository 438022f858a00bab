"""Signals that come while TVM works are heeded once it has returned."""

from __future__ import annotations

import signal
import threading

import pytest

from costhub.isolation.signals import uninterrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_waits_until_tvm_has_returned(number: signal.Signals) -> None:
    """KeyboardInterrupt that passes through the C++ of TVM's search sometimes ends the process with a crash."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    reached = []
    before = signal.signal(number, interrupt)

    def search() -> None:
        with uninterrupted():
            signal.raise_signal(number)
            reached.append("the end")

    try:
        with pytest.raises(KeyboardInterrupt):
            search()
        assert signal.getsignal(number) is interrupt
    finally:
        signal.signal(number, before)
    assert reached == ["the end"]


def test_signals_that_were_ignored_stay_ignored_and_other_threads_have_none() -> None:
    def search() -> None:
        with uninterrupted():
            reached.append(signal.getsignal(signal.SIGHUP))

    reached: list[object] = []
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        search()
        thread = threading.Thread(target=search)
        thread.start()
        thread.join()
    finally:
        signal.signal(signal.SIGHUP, before)
    assert reached == [signal.SIG_IGN] * 2
