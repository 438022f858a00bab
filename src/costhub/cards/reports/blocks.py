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
    """Lines to copy."""

    text: str
    language: str = "python"
    kind: ClassVar[str] = "code"


@dataclass(frozen=True)
class Bar:
    """A value, and the text beside its bar."""

    label: str
    value: float
    text: str
    """The value, with its unit."""
    note: str = ""
    low: float | None = None
    high: float | None = None
    """Ends of the error line over the end of the bar."""
    span: str = ""
    """Both ends, with their unit, for Markdown."""
    is_ours: bool = False


@dataclass(frozen=True)
class Bars:
    """A list of values: a page draws them as bars, as wide as the screen; Markdown has a table."""

    bars: Sequence[Bar]
    titles: tuple[str, str, str, str]
    """Titles of labels, texts, spans and notes, for Markdown and for those who cannot see the bars."""
    caption: str = ""
    of_line: str = ""
    """What the error line is, for those who see it."""
    kind: ClassVar[str] = "bars"

    @property
    def most(self) -> float:
        """The value represented by the full width."""
        return (
            max((bar.value if bar.high is None else max(bar.value, bar.high) for bar in self.bars), default=0.0) or 1.0
        )


@dataclass(frozen=True)
class Parts:
    """Parts of a whole: a page draws one bar of them with a legend; Markdown has a sentence."""

    parts: Sequence[tuple[str, float, str]]
    """Name, size and text of each."""
    kind: ClassVar[str] = "parts"

    @property
    def whole(self) -> float:
        """The sum of the sizes."""
        return sum(size for _, size, _ in self.parts) or 1.0


@dataclass(frozen=True)
class Figure:
    """A picture; only a page draws it."""

    svg: Callable[[], str]
    """Draws it, like `costhub.cards.plots.svg_text`."""
    caption: str
    files: Sequence[str] = ()
    """Equivalent picture files beside the report, for Markdown."""
    is_small: bool = False
    """Whether it is readable on a phone screen; others scroll sideways there."""
    kind: ClassVar[str] = "figure"


@dataclass(frozen=True)
class Gallery:
    """Small pictures, side by side as space permits; Markdown has one picture that shows them all."""

    figures: Sequence[Figure]
    caption: str
    files: Sequence[str] = ()
    """As for a `Figure`."""
    kind: ClassVar[str] = "gallery"


@dataclass(frozen=True)
class Details:
    """Blocks that a page shows on request."""

    summary: str
    blocks: Sequence[Heading | Paragraph | Table | Code | Figure | Gallery]
    kind: ClassVar[str] = "details"


Block = Heading | Paragraph | Table | Code | Bars | Parts | Figure | Gallery | Details


def markdown_report(title: str, blocks: Iterable[Block]) -> str:
    r"""A report in Markdown; all texts are shown literally, as on the page of `html_report`.

    Example:
        >>> markdown_report("Tuned", [Heading("Result"), Paragraph("Faster.")])
        '# Tuned\n\n## Result\n\nFaster.\n'
    """
    return "\n\n".join([f"# {markdown_text(title)}", *_markdown(blocks)]) + "\n"


def html_report(title: str, blocks: Iterable[Block]) -> str:
    """A report as one HTML file that loads nothing; all texts are escaped, and equal data give equal text.

    Its only script, present if the report has lines of code, copies them on a click.
    """
    shown = list(blocks)
    script = "report.js" if any(block.kind == "code" for block in shown) else ""
    return html_page(title, [render_part("blocks", shown)], style="report.css", script=script)


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
                yield f"{fence}{block.language}\n{block.text}\n{fence}"
            case Bars():
                titles = dict(zip(("label", "text", "span", "note"), block.titles, strict=True))
                if not any(bar.span for bar in block.bars):
                    del titles["span"]
                rows = [{key: getattr(bar, key) for key in titles} for bar in block.bars]
                columns = [TableColumn(key, title) for key, title in titles.items()]
                yield markdown_table(rows, columns, literal=True)
                if block.caption:
                    yield markdown_text(f"{block.caption}.")
            case Parts():
                yield markdown_text("; ".join(f"{name}: {text}" for name, _, text in block.parts) + ".")
            case Figure() | Gallery():
                yield from (f"![{markdown_text(name)}]({quote(name)})" for name in block.files)
            case Details():
                yield markdown_text(block.summary)
                yield from _markdown(block.blocks)
