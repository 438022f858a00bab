"""The bar of long commands, and the lines below it, on terminals of several widths and where there is none."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager

import pyte
import pytest

from costhub.progress import BarWithLines, bar


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> Iterator[list[str]]:
    """A terminal in the place of stderr; afterwards the list holds the lines that it shows."""
    reader, writer = os.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    monkeypatch.setenv("TERM", "xterm")
    screen = pyte.Screen(max(columns, 1), 24)
    lines: list[str] = []
    with os.fdopen(writer, "w") as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        yield lines
        stream.write("END")
        stream.flush()
        drawn = b""
        while b"END" not in drawn:
            drawn += os.read(reader, 65536)
    os.close(reader)
    pyte.ByteStream(screen).feed(drawn.replace(b"END", b""))
    lines += [line.rstrip() for line in screen.display if line.strip()]


def test_says_nothing_where_stderr_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with bar(2, desc="measuring", unit="program") as progress:
        progress.update(2)

    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_bar_rate_and_both_ends_of_a_long_line_are_seen_at_any_width(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    name = "fused_conv2d_add_relu_add_multiply.1x64x56x56-64x64x3x3-3f2a91c4"
    with terminal(monkeypatch, columns) as lines:
        shown = BarWithLines(96, desc="tuning", unit="trial", lines=2)
        shown.show(f"{name}: best 1,234.5 us", now=True)
        shown.show("5 kernels: 1,234.5 us together, next batch of each expected to save 3.1%", line=1, now=True)
        for _ in range(4):
            shown.step()

    below = [line for line in lines if not line.startswith("tuning")]
    assert len(lines) == 3, lines
    assert lines[0].startswith("tuning ")
    assert lines[0].endswith("trials/s]")
    assert below[0].startswith("fused_conv2d_add_relu")
    assert below[0].endswith(": best 1,234.5 us")
    assert below[1].startswith("5 kernels: ")
    assert below[1].endswith("to save 3.1%")


def test_the_lines_are_cleared_at_the_end_and_the_bar_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        terminal(monkeypatch, 80) as lines,
        BarWithLines(2, desc="tuning", unit="trial", lines=1) as shown,
    ):
        shown.show("a kernel", now=True)
        shown.step()
        shown.step()

    (line,) = lines
    assert line.startswith("tuning 100%|")


@pytest.mark.parametrize(("columns", "term"), [(80, "dumb"), (0, "xterm")])
def test_a_terminal_that_cannot_redraw_gets_messages(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, columns: int, term: str
) -> None:
    caplog.set_level("INFO", "costhub")
    with terminal(monkeypatch, columns) as lines:
        monkeypatch.setenv("TERM", term)
        with BarWithLines(2, desc="tuning", unit="trial", lines=1, every_s=0.0) as shown:
            shown.show("a kernel", now=True)
            shown.step()
            shown.log(lambda: "1 of 2 trials")

    assert (lines, caplog.messages) == ([], ["1 of 2 trials"])


@pytest.mark.parametrize("enabled", [True, False])
def test_draws_on_a_terminal_unless_it_is_turned_off(monkeypatch: pytest.MonkeyPatch, enabled: bool) -> None:
    reader, writer = os.openpty()
    # A new terminal is 0 columns wide, too narrow for a bar.
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(writer, "w") as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        with bar(2, desc="measuring", unit="program", enabled=enabled) as progress:
            progress.update(2)
        # A mark of our own ends the stream, so that reading a silent terminal does not block.
        terminal.write("\nEND\n")
        terminal.flush()
        drawn = ""
        while "END" not in drawn:  # a terminal gives a line at a time
            drawn += os.read(reader, 65536).decode()
    os.close(reader)

    assert ("measuring: 100%" in drawn) == enabled
