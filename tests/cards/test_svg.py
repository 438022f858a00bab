from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from costhub.cards.svg import SERIES, STYLE, figure, legend, log_axis, svg_text


def drawn(*, name: str = "one", text: str = "label", high: float = 100.0) -> str:
    picture, axes = figure(2.0, x="x", y="y")
    axes.plot([1, high], [1, high], color=SERIES[1], label=text)
    legend(axes)
    log_axis(axes, "x")
    return svg_text(picture, name=name, label="a line")


def test_every_colour_is_a_name_of_the_style_sheet() -> None:
    text = drawn()

    used = set(re.findall(r"var\((--[\w-]+)\)", text))
    assert {"--ink", "--series-1"} <= used <= set(re.findall(r"(--[\w-]+):", STYLE))
    assert re.findall(r"(?:fill|stroke): *#[0-9a-f]{6}", text) == []


def test_the_style_sheet_names_each_colour_for_light_and_for_dark() -> None:
    light, dark = (re.findall(r"(--[\w-]+):", half) for half in STYLE.split("@media"))

    assert light == dark
    assert len(light) == 3 + len(SERIES)


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
