"""Provides Cell, Row and filter_table: a table whose rows a search finds and whose columns sort."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from costhub.cards.tables import one_line

MOST_SHADE = 45
"""Per cent of colour in the darkest cell; text on it keeps a contrast of more than 4.5 on either paper."""


@dataclass(frozen=True)
class Cell:
    """What stands in one place of a table."""

    html: str
    """In which all texts of others are escaped already."""
    value: float | None = None
    """What a number is sorted by."""
    shade: float | None = None
    """0 to 1: how much colour is behind it."""


@dataclass(frozen=True)
class Row:
    """A line of a table; its first cell says what it is about."""

    cells: tuple[Cell, ...]
    terms: str = ""
    """What a search finds it by, besides what it shows."""


def text_cell(text: object, note: str = "") -> Cell:
    """A cell of text, with a smaller note under it.

    Example:
        >>> text_cell("a<b", "c").html
        'a&lt;b<span class="note under">c</span>'
    """
    under = f'<span class="note under">{escape(one_line(note))}</span>' if note else ""
    return Cell((escape(one_line(str(text))) or "-") + under)


def number_cell(value: float | None, spec: str = ",.0f", *, shade: float | None = None) -> Cell:
    """A cell of a number; a dash where there is none.

    Example:
        >>> number_cell(5184).html, number_cell(None).html
        ('5,184', '-')
    """
    return Cell("-") if value is None else Cell(format(value, spec), value, shade)


def filter_table(label: str, titles: Sequence[str], rows: Sequence[Row], *, numeric: range) -> str:
    """A table that can be searched, sorted and scrolled sideways, with the keyboard too.

    Args:
        label: What it shows, for those who cannot see it.
        titles: Of the columns.
        rows: As many cells as titles each.
        numeric: The columns of numbers.
    """
    head = "".join(
        f'<th scope="col"{_side(column, numeric)}>{escape(one_line(title))}</th>'
        for column, title in enumerate(titles)
    )
    body = "\n".join(_row(row, numeric) for row in rows)
    name = escape(label)
    return (
        f'<div class="scroll" role="region" aria-label="{name}" tabindex="0"><table class="sort">\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def _row(row: Row, numeric: range) -> str:
    cells = "".join(_cell(cell, column, numeric) for column, cell in enumerate(row.cells))
    return f'<tr data-terms="{escape(one_line(row.terms))}">{cells}</tr>'


def _cell(cell: Cell, column: int, numeric: range) -> str:
    value = "" if cell.value is None else f' data-value="{cell.value!r}"'
    style = ""
    if cell.shade is not None:
        style = f' style="--shade: {MOST_SHADE * min(max(cell.shade, 0.0), 1.0):.0f}%"'
    if column == 0:
        return f'<th scope="row"{value}>{cell.html}</th>'
    return f"<td{_side(column, numeric)}{value}{style}>{cell.html}</td>"


def _side(column: int, numeric: range) -> str:
    return ' class="right"' if column in numeric else ""
