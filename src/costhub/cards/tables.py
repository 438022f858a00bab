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
    """Which value of a row it shows."""
    title: str
    """With the unit, where there is one."""
    spec: str = ""
    """How a number is formatted, as in `format(value, spec)`."""
    align: Literal["left", "right"] = "left"
    is_detail: bool = False
    """Left out on the screen of a phone."""
    is_share: bool = False
    """A page draws bars behind its numbers, that of the largest as wide as the column."""


def number(key: str, title: str, spec: str = ".3f", *, is_detail: bool = False, is_share: bool = False) -> TableColumn:
    """A right-aligned column of numbers; the arguments are the fields of `TableColumn`."""
    return TableColumn(key, title, spec, "right", is_detail, is_share)


def markdown_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[TableColumn], *, literal: bool = False) -> str:
    """A Markdown table, without a line break at its end; a value that is None or missing shows as a dash.

    Args:
        rows: Key -> value.
        columns: From left to right.
        literal: Show all texts letter by letter; otherwise they may hold Markdown.

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
    """The same as text for a terminal: columns aligned, two blanks apart, no blanks at line ends.

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
"""What may mean something in Markdown, as GitHub reads it; an underscore inside a word means nothing."""
_BLOCK = re.compile(r"(\d{0,9})([-+=>]|[.)](?=\s|$))")
"""What begins a list, a quotation or a line, at the start of a text."""
_ENTITIES = {"<": "&lt;", "&": "&amp;", "|": "&#124;"}
"""A backslash before a bar is not enough everywhere, and before the others, some readers show it."""


def markdown_text(text: str) -> str:
    r"""A text that Markdown shows letter by letter, on one line: no HTML, emphasis, link or code comes of it.

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
    """The text without line breaks, and without what a terminal might obey."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))
