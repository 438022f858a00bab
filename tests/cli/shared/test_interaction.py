"""One way to stop, for ^C, `kill` and a terminal that closes."""

from __future__ import annotations

import logging
import signal
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from costhub.cli.shared.interaction import confirmed, interruptible, messages_on_stderr, saying_what_is_kept, size_text
from costhub.errors import RefusedError


def test_signals_are_heeded_once_and_left_as_they_were() -> None:
    def hang_up_and_then_end() -> None:
        with interruptible():
            try:
                signal.raise_signal(signal.SIGHUP)
            finally:
                signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGHUP)
    with pytest.raises(KeyboardInterrupt):
        hang_up_and_then_end()
    assert signal.getsignal(signal.SIGHUP) is before
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_who_stops_a_search_is_told_what_there_is_and_how_to_go_on(tmp_path: Path) -> None:
    def stopped() -> str:
        with pytest.raises(click.Abort) as caught, saying_what_is_kept(tmp_path):
            raise KeyboardInterrupt
        return str(caught.value)

    assert stopped() == "nothing has been measured yet"
    (tmp_path / "database_tuning_record.json").write_text("[0, 1]\n[0, 2]\n")
    assert stopped() == f"{tmp_path} holds 2 measured programs, and the same command continues from there"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_that_tvm_turned_into_an_error_is_still_one(number: signal.Signals) -> None:
    def interrupted_in_tvm() -> None:
        with interruptible():
            try:
                signal.raise_signal(number)
            except KeyboardInterrupt:
                raise RuntimeError("KeyboardInterrupt") from None

    with pytest.raises(KeyboardInterrupt):
        interrupted_in_tvm()


def test_an_error_without_a_signal_stays_what_it_is() -> None:
    with pytest.raises(RuntimeError, match="mine"), interruptible():
        raise RuntimeError("mine")


def test_a_terminal_that_closes_does_not_end_what_runs_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_nobody_there_is_no_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)

    assert confirmed("Send it?", yes=True, verb="publish")
    with pytest.raises(RefusedError, match="costhub publish --yes"):
        confirmed("Send it?", yes=False, verb="publish")


@pytest.mark.parametrize("answer", [True, False])
def test_a_person_is_asked(answer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def confirm(question: str, **_: Any) -> bool:
        asked.append(question)
        return answer

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(click, "confirm", confirm)

    assert confirmed("Send it?", yes=False, verb="publish") is answer
    assert asked == ["Send it?"]


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (4_161_119, "4.2 MB"), (10**13, "10000.0 GB")],
)
def test_sizes_are_for_people(size: int, text: str) -> None:
    assert size_text(size) == text


def test_what_the_library_reports_is_on_stderr_while_a_command_runs(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("costhub")
    with messages_on_stderr():
        log.info("Model %s.", "m")
        log.debug("not this")
    log.info("nor this")

    assert capsys.readouterr() == ("", "Model m.\n")


def test_what_the_library_quotes_of_a_file_is_shown_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    with messages_on_stderr():
        logging.getLogger("costhub").warning("out holds a search on %s.", "\x1b]0;owned\x07\u202e")

    assert capsys.readouterr().err == "out holds a search on ?]0;owned??.\n"
