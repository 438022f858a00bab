"""Provides the colours, axes and files that all pictures share, as PNG, as SVG and as SVG inside a page."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

Points = Sequence[Sequence[float]]

# Colours that stay apart for colour-blind readers and in grey (Okabe and Ito, 2008), the strongest first.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
OTHER = "#999999"
_INK, _FAINT = "#333333", "#dddddd"


def _canvas(title: str, x: str, y: str, *, height: float = 4.2) -> tuple[Figure, Axes]:
    """A figure of its own, free of pyplot's global state, so that threads and tests cannot meet in it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, height), dpi=150, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    furnish(axes, title=title, x=x, y=y, title_size=11)
    return figure, axes


def furnish(axes: Axes, *, title: str, x: str, y: str, title_size: float) -> None:
    """Gives axes their texts, and the look that all pictures share: no frame, a faint grid behind."""
    axes.set_title(title, loc="left", color=_INK, fontsize=title_size)
    axes.set_xlabel(x, color=_INK)
    axes.set_ylabel(y, color=_INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_INK)
    axes.tick_params(colors=_INK)
    axes.grid(visible=True, color=_FAINT, linewidth=0.6)
    axes.set_axisbelow(True)


def _log_axis(axes: Axes, which: str) -> None:
    """A logarithmic axis with plain numbers: 20 and 500 instead of powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis: Axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axis.get_view_interval()
    # Within a few doublings 1-2-5 ticks are too few to read a value off; over many decades they are too many.
    decades = np.log10(high / low) if low > 0 else 1.0
    subs = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if decades < 1.2 else (1.0, 2.0, 5.0) if decades < 3 else (1.0,)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.9g}"))
    axis.set_minor_formatter(NullFormatter())


def _cycle(n: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(n)]


def save(figure: Figure, path: str | Path) -> Path:
    """Writes a picture, PNG or SVG by the suffix; equal data give equal bytes.

    Returns:
        The path.
    """
    from matplotlib import rc_context

    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Without a date or a version, and with ids that do not change from run to run.
    with rc_context({"svg.hashsalt": "costhub"}):
        figure.savefig(target, metadata={"Date" if target.suffix == ".svg" else "Software": None})
    return target


# matplotlib writes these into the picture, and svg_text puts the names of the style sheet in their place.
INK, FAINT, PAPER = "#010203", "#020304", "#030405"
SERIES = tuple(f"#{number:x}00000" for number in range(1, 9))
_VARIABLES = {INK: "--ink", FAINT: "--faint", PAPER: "--paper"} | {
    colour: f"--series-{number}" for number, colour in enumerate(SERIES)
}

LIGHT = """\
--paper: #ffffff; --ink: #24292f; --faint: #d8dee4; --series-0: #0072b2; --series-1: #d55e00;
  --series-2: #009e73; --series-3: #b6578c; --series-4: #b07d00; --series-5: #3b9fd8; --series-6: #6f4fb0;
  --series-7: #7a6a58;"""
DARK = """\
--paper: #0f1419; --ink: #d7dde3; --faint: #333c45; --series-0: #4a9fe0; --series-1: #ff8f4c;
    --series-2: #35c99b; --series-3: #e08fbd; --series-4: #e6b43c; --series-5: #a0dcff; --series-6: #b39ae8;
    --series-7: #b8a894;"""
PAGE_COLOURS = f"""\
:root {{ {LIGHT} color-scheme: light dark; }}
@media (prefers-color-scheme: dark) {{
  :root {{ {DARK} }}
}}
"""
"""What the names in the pictures stand for: colours after Okabe and Ito (2008), for either paper."""

WIDTH_INCHES = 7.6


def page_figure(height: float, *, x: str = "", y: str = "", grid: str = "both") -> tuple[Figure, Axes]:
    """An empty diagram without a frame, `height` inches high."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
    made.patch.set_visible(False)
    axes = made.add_subplot()
    furnish_for_page(axes, grid=grid)
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(y, color=INK)
    return made, axes


def furnish_for_page(axes: Axes, *, grid: str = "both") -> None:
    """Gives axes the colours of the page and a faint grid, and takes their frame."""
    axes.patch.set_visible(False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.tick_params(which="both", colors=INK)
    if grid:
        axes.grid(visible=True, axis=grid, color=FAINT, linewidth=0.7)  # type: ignore[arg-type]
    axes.set_axisbelow(True)


def page_log_axis(axes: Axes, which: str) -> None:
    """Makes an axis logarithmic, with plain numbers on it: 20 and 500 instead of powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axes.autoscale_view()  # the margins so far are those of a linear axis
    axis: Axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 300 * low else (1.0,), numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def page_legend(axes: Axes) -> None:
    """Names the lines and points that have a label."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=True, facecolor=PAPER, edgecolor=FAINT, labelcolor=INK, framealpha=0.85, fontsize=8)


def svg_text(drawn: Figure, *, name: str, label: str) -> str:
    """Renders a figure as an <svg> element to stand in a page; equal data give equal text.

    Args:
        drawn: The figure; what is in it is data of strangers and is escaped.
        name: Unlike that of every other picture of the page, since it starts the ids in it.
        label: What the picture shows, for those who cannot see it.
    """
    from html import escape

    from matplotlib import rc_context

    out = io.StringIO()
    # Letters stay letters, to be searched and read aloud; the salt keeps ids the same from run to run.
    with warnings.catch_warnings(), rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        # The browser has more letters than the font that matplotlib measures with.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        drawn.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{name}-", text)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    width, height = (round(inches * 96) for inches in drawn.get_size_inches())
    return re.sub(
        r'<svg [^>]*?viewBox="([^"]*)"[^>]*>',
        lambda found: (
            f'<svg xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="{found[1]}" width="{width}" '
            f'height="{height}" role="img" aria-label="{escape(label)}">'
        ),
        text,
        count=1,
    )
