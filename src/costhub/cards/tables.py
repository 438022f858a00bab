"""Renders rows as a Markdown table or as aligned plain text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class TableColumn:
    """One column of a table."""

    key: str
    """Key of the value in a row."""
    title: str
    """Title, with the unit if there is one."""
    spec: str = ""
    """Number format, as in `format(value, spec)`."""
    align: Literal["left", "right"] = "left"
    is_detail: bool = False
    """Whether it is hidden on phone screens."""
    is_share: bool = False
    """Whether a page draws bars behind its numbers; the largest bar fills the column."""


def number(key: str, title: str, spec: str = ".3f", *, is_detail: bool = False, is_share: bool = False) -> TableColumn:
    """A right-aligned column of numbers; the arguments are the fields of `TableColumn`."""
    return TableColumn(key, title, spec, "right", is_detail, is_share)


def markdown_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[TableColumn], *, literal: bool = False) -> str:
    """A Markdown table, without a line break at its end; a value that is None or missing shows as a dash.

    Args:
        rows: Key -> value.
        columns: From left to right.
        literal: Show all texts literally; otherwise they may contain Markdown.

    Example:
        >>> columns = [TableColumn("name", "name"), number("us", "latency (us)", ".1f")]
        >>> print(markdown_table([{"name": "matmul", "us": 12.25}, {"name": "softmax"}], columns))
        | name | latency (us) |
        |:---|---:|
        | matmul | 12.2 |
        | softmax | - |
    """
    rule = ["---:" if column.align == "right" else ":---" for column in columns]
    escape = _inline if literal else _escape
    lines = [_row([escape(column.title) for column in columns]), "|" + "|".join(rule) + "|"]
    lines += [_row([escape(cell(row, column)) for column in columns]) for row in rows]
    return "\n".join(lines)


def plain_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[TableColumn]) -> str:
    """The same as text for a terminal: aligned columns, two spaces apart, no trailing spaces.

    Example:
        >>> columns = [TableColumn("name", "name"), number("us", "us", ".1f")]
        >>> print(plain_table([{"name": "matmul", "us": 12.25}], columns))
        name      us
        matmul  12.2
    """
    cells = [[column.title for column in columns], *([one_line(cell(r, c)) for c in columns] for r in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    lines = []
    for line in cells:
        padded = [
            text.rjust(width) if column.align == "right" else text.ljust(width)
            for text, width, column in zip(line, widths, columns, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def cell(row: Mapping[str, Any], column: TableColumn) -> str:
    """The text of one value."""
    value = row.get(column.key)
    if value is None:
        return "-"
    return format(value, column.spec) if column.spec and not isinstance(value, str) else str(value)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escape(text: str) -> str:
    return one_line(text).replace("\\", "\\\\").replace("|", "\\|")


_MARKED = re.compile(r"[\\`*\[\]<&|~#$]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.")
"""Characters with a meaning in GitHub's Markdown; an underscore inside a word has none."""
_BLOCK = re.compile(r"(\d{0,9})([-+=>]|[.)](?=\s|$))")
"""Markers of a list, quotation or rule at the start of a text."""
_ENTITIES = {"<": "&lt;", "&": "&amp;", "|": "&#124;"}
"""A backslash before a bar is not enough everywhere, and before the others some viewers display it."""


def markdown_text(text: str) -> str:
    r"""Escapes a text so that Markdown shows it literally, on one line, without HTML, emphasis, links or code.

    Example:
        >>> print(markdown_text("<img src=x>, a*b*, my_net and `c`"))
        &lt;img src=x>, a\*b\*, my_net and \`c\`
        >>> print(markdown_text("1. is no list"))
        1\. is no list
    """
    inline = _inline(text)
    start = _BLOCK.match(inline)
    return f"{start[1]}\\{inline[start.start(2) :]}" if start else inline


def _inline(text: str) -> str:
    return _MARKED.sub(lambda found: _ENTITIES.get(found[0], f"\\{found[0]}"), one_line(text))


def one_line(text: str) -> str:
    """The text without line breaks or characters that a terminal might interpret."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))
