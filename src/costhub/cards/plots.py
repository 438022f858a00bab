"""Provides the common look of all pictures, and writes them as PNG, as SVG, or as SVG inside a page."""

from __future__ import annotations

import io
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from costhub.files import write_replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

PALETTE = {
    "ink": ("#24292f", "#d7dde3"),
    "faint": ("#d8dee4", "#333c45"),
    "paper": ("#ffffff", "#0f1419"),
    "series-0": ("#0072b2", "#4a9fe0"),
    "series-1": ("#d55e00", "#ff8f4c"),
    "series-2": ("#009e73", "#35c99b"),
    "series-3": ("#b6578c", "#e08fbd"),
    "series-4": ("#b07d00", "#e6b43c"),
    "series-5": ("#3b9fd8", "#a0dcff"),
    "series-6": ("#6f4fb0", "#b39ae8"),
    "series-7": ("#7a6a58", "#b8a894"),
}
"""Name in a page's style sheet -> colour on a light background, used for drawing pictures, and on a dark one.

The series are distinct for colour-blind readers and in greyscale (after Okabe and Ito, 2008), the strongest first.
"""
INK, FAINT, PAPER = (PALETTE[name][0] for name in ("ink", "faint", "paper"))
SERIES = tuple(light for name, (light, _) in PALETTE.items() if name.startswith("series"))
OTHER = "#999999"
"""Color of anything that is not one of the series."""
WIDTH_INCHES = 7.6

_NAMES = {light: name for name, (light, _) in PALETTE.items()}
_COLOUR = re.compile(rf"((?:fill|stroke): ?)({'|'.join(_NAMES)})")


def new_figure(height: float, *, width: float = WIDTH_INCHES) -> Figure:
    """An empty picture, sized in inches, without pyplot's global state, which threads would share."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=150, facecolor=PAPER, layout="constrained")


def diagram(height: float, *, title: str = "", x: str = "", y: str = "", grid: str = "both") -> tuple[Figure, Axes]:
    """A picture with one diagram, `height` inches high; the other arguments are those of `furnish`."""
    figure = new_figure(height)
    axes = figure.add_subplot()
    furnish(axes, title=title, x=x, y=y, grid=grid)
    return figure, axes


def furnish(
    axes: Axes, *, title: str = "", x: str = "", y: str = "", grid: str = "both", title_size: float = 11
) -> None:
    """Gives axes their texts and the look of all pictures: no frame, a faint grid behind the data.

    Args:
        axes: Axes of a new diagram.
        title: Title above the diagram, on the left.
        x: What the x axis shows, with its unit.
        y: What the y axis shows, with its unit.
        grid: `x`, `y`, `both`, or empty for no grid.
        title_size: Size of the title in points.
    """
    axes.set_title(title, loc="left", color=INK, fontsize=title_size)
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(y, color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.tick_params(which="both", colors=INK)
    if grid:
        axes.grid(visible=True, axis=grid, color=FAINT, linewidth=0.6)  # type: ignore[arg-type]
    axes.set_axisbelow(True)


def log_axis(axes: Axes, which: Literal["x", "y"]) -> None:
    """Makes an axis that already has data logarithmic, with plain numbers: 20 and 500 instead of powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    if not axes.has_data():
        return
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axes.autoscale_view()  # the margins so far are those of a linear axis
    axis: Axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axis.get_view_interval()
    ratio = high / low if low > 0 else 10.0
    # Within a few doublings, ticks at 1, 2 and 5 are too few to read off a value; over many decades, too many.
    subs = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if ratio < 16 else (1.0, 2.0, 5.0) if ratio < 1000 else (1.0,)
    axis.set_major_locator(LogLocator(subs=subs, numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.9g}"))
    axis.set_minor_locator(NullLocator())


def log2_axis(axes: Axes) -> None:
    """Makes the x axis logarithmic, with plain numbers at powers of two."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(LogLocator(base=2, subs=(1.0,), numticks=9))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def legend(axes: Axes) -> None:
    """Adds a legend of labelled lines and points inside the diagram."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=True, facecolor=PAPER, edgecolor=FAINT, labelcolor=INK, framealpha=0.85, fontsize=8)


def save(figure: Figure, path: str | Path) -> Path:
    """Writes a picture, PNG or SVG depending on the suffix; equal data give equal bytes.

    Returns:
        The path.
    """
    from matplotlib import rc_context

    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Without a date or a version, and with ids that do not change between runs.
    with rc_context({"svg.hashsalt": "costhub"}):
        figure.savefig(target, metadata={"Date" if target.suffix == ".svg" else "Software": None})
    return target


def save_svg(figure: Figure, path: str | Path, *, label: str) -> Path:
    """Writes a picture that follows the reader's light or dark system theme, wherever it is shown.

    A link or a pipe at the path is replaced, as `costhub.files.write_replacing` does.

    Args:
        figure: The figure.
        path: Path of the picture.
        label: Description of the picture, for those who cannot see it.

    Returns:
        The path.
    """
    return write_svg(file_text(figure, label=label), path)


def write_svg(text: str, path: str | Path) -> Path:
    """Writes what `file_text` returned, as `save_svg` does."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_replacing(target, text.encode())
    return target


def file_text(figure: Figure, *, label: str) -> str:
    """Renders a figure as the text of a file; equal data give equal text. The arguments are those of `save_svg`."""

    def rules(place: int) -> str:
        return " ".join(f"--{name}: {pair[place]};" for name, pair in PALETTE.items())

    text = svg_text(figure, name="picture", label=label)
    style = f"<style>svg {{ {rules(0)} }}\n@media (prefers-color-scheme: dark) {{ svg {{ {rules(1)} }} }}</style>"
    paper = '<rect width="100%" height="100%" style="fill: var(--paper)"/>'
    head, rest = text.split(">", 1)
    head = head.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return f"{head}>\n{style}\n{paper}{rest}"


def svg_text(figure: Figure, *, name: str, label: str) -> str:
    """Renders a figure as an <svg> element with light or dark colours chosen by the page's style sheet.

    Equal data give equal text.

    Args:
        figure: The figure; untrusted texts in it are escaped.
        name: Unique among the pictures of the page, since its ids start with it.
        label: Description of the picture, for those who cannot see it.
    """
    from html import escape

    from matplotlib import rc_context

    out = io.StringIO()
    # Text stays text, so it can be searched and read aloud; the salt keeps ids the same between runs.
    with warnings.catch_warnings(), rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        # The browser supports more characters than the font that matplotlib measures with.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(out, format="svg", metadata=metadata, transparent=True)
    text = out.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{name}-", text)
    text = _COLOUR.sub(lambda match: f"{match[1]}var(--{_NAMES[match[2]]})", text)
    width, height = (round(inches * 96) for inches in figure.get_size_inches())
    return re.sub(
        r'<svg [^>]*?viewBox="([^"]*)"[^>]*>',
        lambda match: (
            f'<svg xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="{match[1]}" width="{width}" '
            f'height="{height}" role="img" aria-label="{escape(label)}">'
        ),
        text,
        count=1,
    )
