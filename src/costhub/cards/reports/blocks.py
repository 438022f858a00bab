"""Provides the blocks of a report, and writes them as Markdown or as one HTML file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote

from costhub.cards.html import html_page, render_part
from costhub.cards.tables import TableColumn, markdown_table, markdown_text


@dataclass(frozen=True)
class Heading:
    """A heading below the title of the report."""

    text: str
    level: int = 2
    kind: ClassVar[str] = "heading"


@dataclass(frozen=True)
class Paragraph:
    """Some sentences."""

    text: str
    is_strong: bool = False
    is_note: bool = False
    kind: ClassVar[str] = "paragraph"


@dataclass(frozen=True)
class Table:
    """Rows of values."""

    rows: Sequence[Mapping[str, Any]]
    columns: Sequence[TableColumn]
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class Code:
    """Lines of Python."""

    text: str
    kind: ClassVar[str] = "code"


@dataclass(frozen=True)
class Figure:
    """A picture; only a page draws it."""

    svg: Callable[[], str]
    """Draws it, as `costhub.cards.plots.svg_text` does."""
    caption: str
    files: Sequence[str] = ()
    """Pictures beside the report that show the same, for Markdown."""
    kind: ClassVar[str] = "figure"


@dataclass(frozen=True)
class Details:
    """Blocks that a page shows on request."""

    summary: str
    blocks: Sequence[Heading | Paragraph | Table | Code | Figure]
    kind: ClassVar[str] = "details"


Block = Heading | Paragraph | Table | Code | Figure | Details


def markdown_report(title: str, blocks: Iterable[Block]) -> str:
    r"""A report in Markdown; all texts are shown letter by letter, as on the page of `html_report`.

    Example:
        >>> markdown_report("Tuned", [Heading("Result"), Paragraph("Faster.")])
        '# Tuned\n\n## Result\n\nFaster.\n'
    """
    return "\n\n".join([f"# {markdown_text(title)}", *_markdown(blocks)]) + "\n"


def html_report(title: str, blocks: Iterable[Block]) -> str:
    """A report as one HTML file that loads nothing; all texts are escaped, and equal data give equal text."""
    return html_page(title, [render_part("blocks", list(blocks))])


def _markdown(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        match block:
            case Heading():
                yield f"{'#' * block.level} {markdown_text(block.text)}"
            case Paragraph():
                text = markdown_text(block.text)
                yield f"**{text}**" if block.is_strong else text
            case Table():
                yield markdown_table(block.rows, block.columns, literal=True)
            case Code():
                fence = "`" * max(3, *(1 + len(ticks) for ticks in re.findall("`+", block.text)), 3)
                yield f"{fence}python\n{block.text}\n{fence}"
            case Figure():
                yield from (f"![{markdown_text(name)}]({quote(name)})" for name in block.files)
            case Details():
                yield markdown_text(block.summary)
                yield from _markdown(block.blocks)
