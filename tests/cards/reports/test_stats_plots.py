from __future__ import annotations

import re
import runpy
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from costhub.cards.reports.stats_plots import (
    MOST_FAILURES,
    MOST_OPERATORS,
    MOST_WORKLOADS,
    coverage_svg,
    failures_svg,
    noise_svg,
    roofline_svg,
    spread_svg,
)
from costhub.dataset.stats.folder_stats import CoverageCell

make_stats: Any = runpy.run_path(str(Path(__file__).with_name("folder_of_stats.py")))["make_stats"]

RIGHT_TO_LEFT = "\u202e"


def labels(svg: str) -> list[str]:
    root = ET.fromstring(svg)  # noqa: S314 - our own
    return ["".join(e.itertext()).strip() for e in root.iter() if e.tag.endswith("text")]


def places(svg: str) -> list[float]:
    """Heights at which the labels right of nothing stand: those of the vertical axis."""
    return [float(y) for y in re.findall(r'text-anchor: end[^>]*?y="([\d.]+)"', svg)]


@pytest.mark.parametrize("devices", [1, 3, 4, 12])
def test_coverage_names_every_operator_and_device(devices: int) -> None:
    shown = labels(coverage_svg(make_stats(devices=devices).coverage))

    assert {"family0", "family2", "board-0", f"board-{devices - 1}"} <= set(shown)
    assert ("600 programs of 3 workloads" if devices <= 3 else "600 / 3") in shown


def test_of_a_million_operators_the_first_are_drawn() -> None:
    cells = [
        CoverageCell(f"family{n}", "board", workloads=1, programs=1, measured=1) for n in range(MOST_OPERATORS + 9)
    ]

    assert len(places(coverage_svg(cells))) == MOST_OPERATORS


@pytest.mark.parametrize("workloads", [1, 61, MOST_WORKLOADS + 9])
def test_the_names_of_many_workloads_do_not_overlap(workloads: int) -> None:
    svg = spread_svg(make_stats(devices=1, workloads=workloads).workloads, name="spread")

    heights = sorted(places(svg))
    assert len(heights) == min(workloads, MOST_WORKLOADS)
    # In points, the unit of the picture; the letters are 7.5 high.
    assert all(below - above > 9 for above, below in pairwise(heights))


def test_workloads_without_latencies_are_left_out() -> None:
    from dataclasses import replace

    first, second = make_stats(devices=1, workloads=2).workloads
    failed = replace(first, name="never ran", best_us=None, median_us=None)

    assert "never ran" not in labels(spread_svg([failed, second], name="spread"))


def test_noise_has_a_line_for_each_device_and_kind() -> None:
    shown = labels(noise_svg(make_stats(devices=2).noise))

    assert {"board-0, repeats (90)", "board-1, repeats (90)"} <= set(shown)
    assert not any("measured again" in text for text in shown)


def test_the_most_frequent_failures_are_shown_with_their_error() -> None:
    shown = [text for text in labels(failures_svg(make_stats().failures)) if "run_error" in text]

    assert len(shown) == MOST_FAILURES
    assert shown[0].split() == ["20", "run_error:", "no", "registers", "0"]


def test_the_roofline_shows_the_fastest_level_and_memory() -> None:
    stats = make_stats(devices=1, workloads=20)
    shown = labels(roofline_svg(stats.workloads, stats.roofs["board-0"], name="roof"))

    assert "DRAM 42 GB/s, peak 250 GFLOP/s" in shown
    assert "L2 180 GB/s, peak 250 GFLOP/s" in shown


def test_names_of_strangers_are_only_text() -> None:
    stats = make_stats(devices=1, name=r"<script>$x_1$ \frac{1}{0} $\nonsense{$" + RIGHT_TO_LEFT)
    pictures = [
        coverage_svg(stats.coverage),
        spread_svg(stats.workloads, name="spread"),
        noise_svg(stats.noise),
        failures_svg(stats.failures),
    ]

    for picture in pictures:
        assert "<script>" not in picture
        assert any("<script>$x_1$" in text for text in labels(picture))
        assert RIGHT_TO_LEFT not in picture
