from __future__ import annotations

import fcntl
import os
import struct
import sys
import termios

import pytest

from costhub.progress import bar


def test_says_nothing_where_stderr_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with bar(2, desc="measuring", unit="program") as progress:
        progress.update(2)

    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("enabled", [True, False])
def test_draws_on_a_terminal_unless_it_is_turned_off(monkeypatch: pytest.MonkeyPatch, enabled: bool) -> None:
    reader, writer = os.openpty()
    # A new terminal is 0 columns wide, too narrow for a bar.
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
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
