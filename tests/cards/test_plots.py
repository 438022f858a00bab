from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from costhub.cards.html import html_page
from costhub.cards.plots import PALETTE, SERIES, diagram, legend, log_axis, save_svg, svg_text
from costhub.cards.reports.stats_plots import plot_latencies
from scripts.tables.plots import plot_growth

GROWTH = {"check": [(1e4, 0.5), (1e6, 50.0)], "stats": [(1e4, 0.1), (1e6, 4.0)]}


def inked(path: Path) -> float:
    """Share of pixels that are not white."""
    from matplotlib.image import imread

    pixels = imread(path)[..., :3]
    return float((pixels < 0.98).any(axis=-1).mean())


def test_latencies_are_drawn_without_empty_operators(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = {"conv2d": rng.lognormal(4, 1, 300), "softmax": np.array([12.0]), "norm": np.zeros(0)}

    assert inked(plot_latencies(tmp_path / "a.png", values)) > 0
    assert inked(plot_latencies(tmp_path / "b.png", {})) > 0


@pytest.mark.parametrize("name", ["$\\frac{$", "x" * 100_000, "a\x1b[2J\nb"])
def test_the_names_of_strangers_are_labels_of_an_ordinary_picture(name: str, tmp_path: Path) -> None:
    values = np.array([1.0, 2.0, 3.0])

    hostile = plot_latencies(tmp_path / "a.png", {name: values}, title=name)

    assert inked(hostile) > 0
    assert hostile.stat().st_size < 200_000


def test_a_picture_has_room_for_a_hundred_operators(tmp_path: Path) -> None:
    values = {f"operator {number}": np.array([1.0, 2.0]) for number in range(3000)}

    assert inked(plot_latencies(tmp_path / "a.png", values)) > 0


def test_growth_is_drawn_on_two_logarithmic_axes(tmp_path: Path) -> None:
    drawn = plot_growth(tmp_path / "a.png", GROWTH, x="rows", y="seconds")

    assert inked(drawn) > inked(plot_growth(tmp_path / "b.png", {}, x="rows", y="seconds")) > 0


def test_equal_data_give_equal_files(tmp_path: Path) -> None:
    a, b = (plot_growth(tmp_path / name, GROWTH, x="rows", y="seconds") for name in ("a.png", "b.png"))

    assert a.read_bytes() == b.read_bytes()


def test_drawing_does_not_touch_the_state_of_pyplot(tmp_path: Path) -> None:
    code = (
        "import sys; from costhub.cards.reports.tune_plots import plot_together as plot;"
        "assert 'matplotlib' not in sys.modules;"
        "plot([(1, 2.0)], sys.argv[1]); assert 'matplotlib.pyplot' not in sys.modules"
    )
    src = str(Path(__file__).parents[2] / "src")

    subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {src!r}); {code}", str(tmp_path / "a.png")],
        check=True,
    )


def drawn(*, name: str = "one", text: str = "label", high: float = 100.0) -> str:
    picture, axes = diagram(2.0, x="x", y="y")
    axes.plot([1, high], [1, high], color=SERIES[1], label=text)
    legend(axes)
    log_axis(axes, "x")
    return svg_text(picture, name=name, label="a line")


def test_every_colour_is_a_name_of_the_style_sheet() -> None:
    text = drawn()

    used = set(re.findall(r"var\((--[\w-]+)\)", text))
    assert {"--ink", "--series-1"} <= used <= {f"--{name}" for name in PALETTE}
    assert re.findall(r"(?:fill|stroke): *#[0-9a-f]{6}", text) == []


def test_a_page_knows_each_colour_for_light_and_for_dark() -> None:
    page = html_page("a", [])

    for name, colours in PALETTE.items():
        assert [page.count(f"--{name}: {colour};") for colour in colours] == [2, 2]


def test_letters_stay_letters_and_are_escaped() -> None:
    root = ET.fromstring(drawn(text="<script>&"))  # noqa: S314 - our own

    assert "<script>&" in ["".join(e.itertext()).strip() for e in root.iter() if e.tag.endswith("text")]


def test_pictures_of_a_page_share_no_ids() -> None:
    first, second = (set(re.findall(r'\bid="([^"]+)"', drawn(name=name))) for name in ("one", "two"))

    assert first
    assert first.isdisjoint(second)
    for text in (drawn(name="one"),):
        referred = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
        assert referred <= set(re.findall(r'\bid="([^"]+)"', text))


def test_equal_data_give_equal_text() -> None:
    assert drawn() == drawn()


@pytest.mark.parametrize(("high", "labels"), [(100.0, {"1", "10", "100"}), (3e6, {"1,000", "1,000,000"})])
def test_a_logarithmic_axis_shows_plain_numbers(high: float, labels: set[str]) -> None:
    texts = set(re.findall(r">([\d,.]+)</text>", drawn(high=high)))

    assert labels <= texts


def test_a_picture_in_a_file_is_light_or_dark_as_the_system_is(tmp_path: Path) -> None:
    picture, axes = diagram(2.0, x="x", y="y")
    axes.plot([1, 2], [1, 2], color=SERIES[1])
    text = save_svg(picture, tmp_path / "new" / "a.svg", label="a <line>").read_text()

    root = ET.fromstring(text)  # noqa: S314 - our own
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    style = next(e.text or "" for e in root.iter() if e.tag.endswith("style"))
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    for name, colours in PALETTE.items():
        assert f"--{name}: {colours[0]};" in light
        assert f"--{name}: {colours[1]};" in dark
    paper = next(e for e in root.iter() if e.tag.endswith("rect"))
    assert "var(--paper)" in paper.attrib["style"]
    assert root.attrib["aria-label"] == "a <line>"


@pytest.mark.parametrize("make", [Path.symlink_to, lambda path, _: os.mkfifo(path)], ids=["link", "pipe"])
def test_a_picture_replaces_what_lies_in_its_place(tmp_path: Path, make: Callable[[Path, Path], None]) -> None:
    (tmp_path / "mine").write_text("mine")
    make(tmp_path / "a.svg", tmp_path / "mine")

    path = save_svg(diagram(2.0)[0], tmp_path / "a.svg", label="empty")

    assert (tmp_path / "mine").read_text() == "mine"
    assert not path.is_symlink()
    assert path.read_text().startswith("<svg")


def test_a_letter_that_the_font_lacks_is_no_warning() -> None:
    assert "行列" in drawn(text="行列")
