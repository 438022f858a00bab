"""Provides card_html: a card as HTML that is text and tables, whatever its Markdown holds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape

from costhub.cards.html import html_table
from costhub.cards.tables import TableColumn

_HEADING = re.compile(r"(#{1,6})[ \t]+(.*)")
_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})")
_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^()\s]+)\)")
_SPAN = re.compile(r"`([^`\n]+)`")
_BAR = re.compile(r"(?<!\\)\|")
_STARTS = ("#", "|", "- ", "```", "~~~", "    ")


def card_html(text: str, pictures: Mapping[str, str]) -> str:
    r"""Renders headings, tables, lists, code and paragraphs; HTML and links in the card stay letters.

    Args:
        text: A card without its block of YAML.
        pictures: File in the card's folder -> address in the page; other pictures are not shown.

    Example:
        >>> card_html("# Title\n\nOf `a` and <b>.", {})
        '<h4>Title</h4>\n<p>Of <code>a</code> and &lt;b&gt;.</p>'
    """
    return "\n".join(_blocks(text.replace("\r\n", "\n").split("\n"), pictures))


def inline_html(text: str) -> str:
    """A line with its code as code, and all the rest as letters.

    Example:
        >>> inline_html("`a<b` & [x](javascript:y)")
        '<code>a&lt;b</code> &amp; [x](javascript:y)'
    """
    parts = _SPAN.split(text)
    return "".join(f"<code>{escape(part)}</code>" if place % 2 else escape(part) for place, part in enumerate(parts))


def _blocks(lines: list[str], pictures: Mapping[str, str]) -> Iterator[str]:
    place = 0
    while place < len(lines):
        line = lines[place]
        if not line.strip():
            place += 1
        elif fence := _FENCE.match(line):
            end = _closing(lines, place + 1, fence[1])
            yield _code(lines[place + 1 : end])
            place = end + 1
        elif heading := _HEADING.fullmatch(line):
            # The page has headings of its own above those of a card.
            level = min(len(heading[1]) + 3, 6)
            yield f"<h{level}>{inline_html(heading[2].rstrip())}</h{level}>"
            place += 1
        elif picture := _PICTURE.fullmatch(line.strip()):
            yield _picture(picture[1], picture[2], pictures)
            place += 1
        else:
            end = _end(lines, place)
            yield _lines(lines[place:end])
            place = end


def _closing(lines: list[str], start: int, fence: str) -> int:
    """Where a block of code ends: at a line of as many of the same letters, or with the card."""
    for place in range(start, len(lines)):
        line = lines[place].strip()
        if len(line) >= len(fence) and set(line) == set(fence):
            return place
    return len(lines)


def _end(lines: list[str], start: int) -> int:
    """Where lines of one kind end."""
    kind = _kind(lines[start])
    place = start + 1
    while place < len(lines) and lines[place].strip() and _continues(kind, lines[place]):
        place += 1
    return place


def _continues(kind: str, line: str) -> bool:
    return _kind(line) == kind or (kind == "- " and line.startswith("  "))


def _kind(line: str) -> str:
    return next((start for start in _STARTS if line.startswith(start)), "")


def _lines(lines: list[str]) -> str:
    kind = _kind(lines[0])
    if kind == "    ":
        return _code([line[4:] for line in lines])
    if kind == "- ":
        return _list(lines)
    cells = [_cells(line) for line in lines] if kind == "|" else []
    # Rows of one width only: a wide head over many short rows would make a page of gigabytes.
    if len(cells) > 1 and set("".join(cells[1])) <= set(":- ") and len({len(row) for row in cells}) == 1:
        return _table(cells)
    return f"<p>{inline_html(' '.join(lines))}</p>"


def _code(lines: list[str]) -> str:
    return f'<pre class="scroll" tabindex="0">{escape(chr(10).join(lines))}</pre>'


def _list(lines: list[str]) -> str:
    points: list[str] = []
    for line in lines:
        if line.startswith("- "):
            points.append(line[2:])
        else:
            points[-1] += " " + line.strip()
    return "<ul>" + "".join(f"<li>{inline_html(point)}</li>" for point in points) + "</ul>"


def _table(cells: list[list[str]]) -> str:
    titles, sides, *body = cells
    columns = [
        TableColumn(str(place), title, "", "right" if side.endswith(":") else "left")
        for place, (title, side) in enumerate(zip(titles, sides, strict=True))
    ]
    rows = [{str(place): text for place, text in enumerate(row)} for row in body]
    return html_table(rows, columns, shown=inline_html)


def _cells(line: str) -> list[str]:
    parts = _BAR.split(line.strip().removeprefix("|").removesuffix("|"))
    return [part.strip().replace("\\|", "|").replace("\\\\", "\\") for part in parts]


def _picture(text: str, name: str, pictures: Mapping[str, str]) -> str:
    if name not in pictures:
        return f'<p class="note">{escape(f"Picture {name}, not shown: {text}")}</p>'
    return picture_html(pictures[name], text)


def picture_html(address: str, caption: str) -> str:
    """A picture that lies beside the page, with text under it; a click shows it alone."""
    return (
        f'<figure><a href="{escape(address)}"><img src="{escape(address)}" alt="{escape(caption)}" '
        f'loading="lazy"></a><figcaption>{escape(caption)}</figcaption></figure>'
    )
