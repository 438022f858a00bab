"""Draws a terminal as SVG while a command runs, at the moment when a given text appears."""

from __future__ import annotations

import fcntl
import html
import os
import re
import struct
import termios
from pathlib import Path

import click
import pyte

FONT_PX, LINE_PX, GLYPH_PX, MARGIN_PX = 13, 18, 7.83, 16
PAPER, INK, COMMAND = "#0f1419", "#d7dde3", "#35c99b"


def screen_at(command: list[str], seen: re.Pattern[str], columns: int, lines: int) -> list[str]:
    """The lines of a terminal when the pattern first appears; the command then runs to its end.

    Raises:
        click.ClickException: The command ended before the pattern appeared.
    """
    screen = pyte.Screen(columns, lines)
    stream = pyte.ByteStream(screen)
    process, terminal = os.forkpty()
    if process == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        os.environ |= {"COLUMNS": str(columns), "LINES": str(lines), "TERM": "linux"}
        os.execvp(command[0], command)  # noqa: S606  # the command is what this script is asked to run
    taken: list[str] | None = None
    while chunk := read(terminal):
        stream.feed(chunk)
        shown = [line.rstrip() for line in screen.display]
        if taken is None and any(seen.search(line) for line in shown):
            taken = shown
    os.waitpid(process, 0)
    if taken is None:
        ending = "\n".join(line.rstrip() for line in screen.display)
        raise click.ClickException(f"{seen.pattern!r} never appeared on the terminal, which ended as:\n{ending}")
    return taken


def read(terminal: int) -> bytes:
    """What has been written to the terminal since the last call; empty when its program has ended."""
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says EIO where other systems return nothing
        return b""


def picture(prompt: str, shown: list[str], columns: int) -> str:
    """The lines as SVG, without empty lines at the end, under the command as typed."""
    while shown and not shown[-1]:
        shown = shown[:-1]
    rows = [(COMMAND, f"$ {prompt}"), *((INK, line) for line in shown)]
    width, height = columns * GLYPH_PX + 2 * MARGIN_PX, len(rows) * LINE_PX + 2 * MARGIN_PX
    texts = "\n".join(
        f'<text x="{MARGIN_PX}" y="{MARGIN_PX + FONT_PX + LINE_PX * number}" fill="{colour}" '
        f'textLength="{len(line) * GLYPH_PX:.1f}" lengthAdjust="spacingAndGlyphs">{html.escape(line)}</text>'
        for number, (colour, line) in enumerate(rows)
        if line
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="{FONT_PX}" '
        f'xml:space="preserve">\n<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>\n{texts}\n</svg>\n'
    )


@click.command()
@click.argument("command", nargs=-1, required=True)
@click.option("--seen", required=True, help="A regular expression; the picture is taken when it first matches.")
@click.option("--columns", default=116, show_default=True)
@click.option("--lines", default=24, show_default=True)
@click.option("--svg", "path", required=True, type=click.Path(path_type=Path))
def main(command: tuple[str, ...], seen: str, columns: int, lines: int, path: Path) -> None:
    """Runs COMMAND to its end on a terminal that nobody sees."""
    shown = screen_at(list(command), re.compile(seen), columns, lines)
    path.write_text(picture(" ".join(command), shown, columns))
