"""Pictures of a search, as text that says what they show."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from costhub.cards.reports import tune_plots
from costhub.cards.reports.tune_plots import (
    MOST_CURVES,
    curve_svg,
    plot_curves,
    plot_together,
    scale_of,
    together_svg,
)


def texts(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)  # noqa: S314 - it is our own
    return ["".join(each.itertext()) for each in root.iter() if each.tag.endswith("text")]


ROW = {
    "workload": "conv",
    "trials": 6,
    "curve": [[1, 9.0], [4, 5.0]],
    "measured_us": [9.0, 12.0, None, 5.0, 5.5, 70_000.0],
}


def markers(svg: str) -> int:
    root = ElementTree.fromstring(svg)  # noqa: S314 - it is our own
    return sum(each.tag.endswith("use") and "clip" not in each.attrib.get("class", "") for each in root.iter())


def test_the_curve_of_all_kernels_has_axes_with_units(tmp_path: Path) -> None:
    shown = texts(together_svg([(1, 2000.0), (9, 1000.0)]))

    assert {"programs of each", "all together (ms)"} <= set(shown)
    assert {"programs of each", "all together (ms)"} <= set(
        texts(plot_together([(1, 2000.0), (9, 1000.0)], tmp_path / "a.svg").read_text())
    )


def test_a_curve_shows_what_is_near_the_best() -> None:
    ticks = [float(text.replace(",", "")) for text in texts(curve_svg(ROW, name="a"))]

    assert max(ticks) <= 12.5  # two and a half times the best, whatever the slowest program took


def test_every_program_is_a_mark_and_slow_ones_are_marks_of_their_own() -> None:
    all_ran = curve_svg(ROW, name="a")
    without = curve_svg({**ROW, "measured_us": [9.0, 12.0, None, 5.0, 5.5, None]}, name="a")

    assert markers(all_ran) == markers(without) + 1
    assert curve_svg({**ROW, "measured_us": None}, name="a").startswith("<svg")


def test_the_pictures_of_a_report_are_drawn_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def note(*args: Any, **more: Any) -> Any:
        drawn.append(args)
        return new_figure(*args, **more)

    new_figure = tune_plots.new_figure
    monkeypatch.setattr(tune_plots, "new_figure", note)
    row = {**ROW, "workload": "drawn once"}
    together = [(1, 2001.0), (9, 1000.0)]

    def report() -> list[str]:
        files = plot_curves([row, row], tmp_path / "a.svg"), plot_together(together, tmp_path / "b.svg")
        return [curve_svg(row, name="a"), together_svg(together), *(file.read_text() for file in files)]

    first = report()
    assert len(drawn) == 4
    assert report() == first
    assert len(drawn) == 4
    assert curve_svg({**row, "measured_us": [9.0]}, name="a") != first[0]
    assert len(drawn) == 5


def test_thousands_of_programs_are_thinned_out() -> None:
    many = {**ROW, "trials": 4000, "measured_us": [5.0 + i / 1e4 for i in range(4000)]}

    assert len(curve_svg(many, name="a")) < 120_000


@pytest.mark.parametrize(
    ("latencies", "scale"),
    [
        ([10.0], (9.9, 11.0)),
        ([10.0] * 9, (9.9, 11.0)),
        ([10.0, 11.0, 12.0, 13.0, 900.0], (9.5, 15.0)),
        ([10.0, 2000.0, 3000.0, 4000.0], (8.5, 25.0)),
    ],
)
def test_the_scale_ends_above_the_middle_half(latencies: list[float], scale: tuple[float, float]) -> None:
    assert scale_of(latencies) == pytest.approx(scale)


@pytest.mark.parametrize("count", [1, 2, 5, MOST_CURVES + 3])
def test_every_workload_has_a_curve_as_far_as_there_is_room(tmp_path: Path, count: int) -> None:
    rows = [{**ROW, "workload": f"conv.{i}"} for i in range(count)]
    path = plot_curves([*rows, {**ROW, "workload": "none", "curve": []}], tmp_path / "plots" / "a.svg")
    shown = texts(path.read_text())

    assert [name for name in shown if name.startswith("conv.")] == [f"conv.{i}" for i in range(min(count, MOST_CURVES))]
    assert "none" not in shown


def test_long_names_keep_the_end_that_tells_them_apart(tmp_path: Path) -> None:
    rows = [{**ROW, "workload": f"{'x' * 90}.3f6c6{i}"} for i in range(2)]
    shown = [text for text in texts(plot_curves(rows, tmp_path / "a.svg").read_text()) if text.startswith("xx")]

    assert [text[-7:] for text in shown] == [".3f6c60", ".3f6c61"]
