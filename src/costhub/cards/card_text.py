"""Provides check_card_text: a card shows text and figures, and nothing that a browser would run or fetch."""

from __future__ import annotations

import re

from costhub.errors import DataError

_FENCE = re.compile(r"(?:(`{3,})[^`]*|(~{3,}).*)")
_SPAN = re.compile(r"(?<![`\\])`[^`\n]+`(?!`)")
_FOUND = {
    # As CommonMark knows it: `list<item: string>`, a type of Arrow, is none.
    "HTML": re.compile(r"<(?:[A-Za-z][A-Za-z0-9-]*(?:[\s/>]|$)|/[A-Za-z]|!|\?)", re.MULTILINE),
    "a link that runs code": re.compile(r"(?:javascript|vbscript|data)\s*:", re.IGNORECASE),
    # It would tell another server who reads the card.
    "a picture from elsewhere": re.compile(
        r"!\[[^\]\n]{0,500}\]\(\s*(?:<\s*)?(?:[a-z][a-z0-9+.-]*:|//|/|\.\.)", re.I
    ),
    "a picture by reference": re.compile(r"!\[[^\]\n]{0,500}\]\s?\["),
    "a control character": re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]"),
}


def check_card_text(text: str, where: str) -> None:
    """Refuses what no card of costhub has: HTML, script links, pictures from elsewhere, control characters.

    Args:
        text: The text below the block of YAML.
        where: The file, for the message.

    Raises:
        DataError: It holds one of them.

    Example:
        >>> check_card_text("# Title, with `<code>` and 1 < 2", "README.md")
    """
    plain = _SPAN.sub(" ", _without_fences(text.replace("\r\n", "\n")))
    for what, pattern in _FOUND.items():
        if pattern.search(plain):
            raise DataError(f"{where} holds {what}, which a card does not need. Remove it.")


def _without_fences(text: str) -> str:
    """The text without its blocks of code; all of it where a fence is none that every reader sees as one."""
    kept: list[str] = []
    fence = ""
    for line in text.split("\n"):
        if fence:
            end = line.rstrip()
            fence = "" if len(end) >= len(fence) and set(end) == set(fence) else fence
        elif found := _FENCE.fullmatch(line):
            fence = found[1] or found[2]
        elif "```" in line or "~~~" in line:
            return text
        else:
            kept.append(line)
    return text if fence else "\n".join(kept)
