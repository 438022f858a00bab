from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from costhub.cards.html import html_page
from costhub.cards.plots import PALETTE, SERIES, diagram, legend, log_axis, svg_text
from costhub.cards.reports.stats_plots import plot_latencies
from costhub.cards.reports.tune_plots import plot_tuning
from scripts.tables.plots import plot_growth

CURVE = [(1, 900.0), (16, 240.0), (40, 110.0), (64, 95.5)]


def inked(path: Path) -> float:
    """Share of pixels that are not white."""
    from matplotlib.image import imread

    pixels = imread(path)[..., :3]
    return float((pixels < 0.98).any(axis=-1).mean())


def test_a_tuning_curve_is_drawn(tmp_path: Path) -> None:
    path = plot_tuning(tmp_path / "new" / "a.png", {"mlp": CURVE}, title="matmul", untuned_us=3000.0)
    bare = plot_tuning(tmp_path / "b.png", {}, title="matmul")

    assert inked(path) > inked(bare) > 0


def test_a_curve_may_carry_seconds_between_trial_and_latency(tmp_path: Path) -> None:
    with_seconds = [(trial, 0.5 * trial, best) for trial, best in CURVE]

    a = plot_tuning(tmp_path / "a.png", {"mlp": CURVE})
    b = plot_tuning(tmp_path / "b.png", {"mlp": with_seconds})

    assert a.read_bytes() == b.read_bytes()


def test_a_search_that_found_nothing_has_a_picture_too(tmp_path: Path) -> None:
    assert inked(plot_tuning(tmp_path / "a.png", {"mlp": []}, untuned_us=10.0)) > 0


def test_more_series_than_colours_are_drawn(tmp_path: Path) -> None:
    series = {f"method {i}": [(1, 100.0 + i), (9, 50.0 + i)] for i in range(9)}

    assert inked(plot_tuning(tmp_path / "a.png", series)) > 0


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
    series = {"check": [(1e4, 0.5), (1e6, 50.0)], "stats": [(1e4, 0.1), (1e6, 4.0)]}

    drawn = plot_growth(tmp_path / "a.png", series, x="rows", y="seconds")

    assert inked(drawn) > inked(plot_growth(tmp_path / "b.png", {}, x="rows", y="seconds")) > 0


def test_equal_data_give_equal_files(tmp_path: Path) -> None:
    a = plot_tuning(tmp_path / "a.png", {"mlp": CURVE}, untuned_us=3000.0)
    b = plot_tuning(tmp_path / "b.png", {"mlp": CURVE}, untuned_us=3000.0)

    assert a.read_bytes() == b.read_bytes()


def test_drawing_does_not_touch_the_state_of_pyplot(tmp_path: Path) -> None:
    code = (
        "import sys; from costhub.cards.reports.tune_plots import plot_tuning; assert 'matplotlib' not in sys.modules;"
        "plot_tuning(sys.argv[1], {'a': [(1, 2.0)]}); assert 'matplotlib.pyplot' not in sys.modules"
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


def test_a_letter_that_the_font_lacks_is_no_warning() -> None:
    assert "行列" in drawn(text="行列")
