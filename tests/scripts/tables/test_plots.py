"""Pictures of models: what they name, and that equal data give equal bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from scripts.tables.plots import (
    FRONT,
    PER_TRIALS,
    mean_course,
    plot_calibration,
    plot_curves,
    plot_front,
    plot_intervals,
    plot_seconds,
    plot_stages,
    plot_trials,
)
from scripts.tables.search import LIGHT, seconds_a_trial, title_of

CURVE = {"label": "gbt", "x": [1, 2, 4], "y": [0.5, 0.6, 0.7], "se": [0.1, 0.05, 0.0]}
COVERED = {"covered": {"0.5": 0.4, "0.9": 0.7}, "bins": [[0.1, 0.2], [0.2, 0.3]]}


def words(path: Path) -> str:
    # matplotlib draws letters as outlines, and says in a comment what they read.
    parser = ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))  # noqa: S314 - our own
    tree = ET.parse(path, parser)  # noqa: S314
    return " ".join(str(element.text) for element in tree.iter() if element.tag is ET.Comment)


def test_curves_have_a_panel_for_each_device_and_one_legend(tmp_path: Path) -> None:
    panels = {name: [CURVE, {**CURVE, "label": "mlp"}] for name in ("cpu0", "cpu1", "cpu2", "cpu3")}

    text = words(plot_curves(tmp_path / "c.svg", panels, x="trials", y="best so far", log=True))

    assert all(name in text for name in panels)
    assert text.count("mlp") == 1
    assert "best so far" in text


def test_intervals_name_every_line(tmp_path: Path) -> None:
    rows = [
        {"label": "gbt rank", "value": 0.8, "error": 0.02, "colour": 1},
        {"label": "random", "value": 0.3, "error": None},
    ]

    text = words(plot_intervals(tmp_path / "i.svg", {"cpu0": rows}, x="top-1"))

    assert "gbt rank" in text
    assert "random" in text


def test_calibration_has_the_line_of_what_is_right(tmp_path: Path) -> None:
    text = words(plot_calibration(tmp_path / "k.svg", {"trees": COVERED}))

    assert "share that it holds" in text
    assert "trees" in text
    assert "right" in text


def test_equal_data_give_equal_bytes_and_a_suffix_chooses_the_format(tmp_path: Path) -> None:
    first, second = (plot_curves(tmp_path / n, {"d": [CURVE]}, x="x", y="y") for n in ("a.svg", "b.svg"))

    assert first.read_bytes() == second.read_bytes()
    assert plot_curves(tmp_path / "c.png", {}, x="x", y="y").read_bytes().startswith(b"\x89PNG")


def row(method: str, points: dict[int, tuple[float, float]], workload: str = "w") -> dict[str, Any]:
    curve = [{"trials": n, "seconds": s, "best_us": us} for n, (s, us) in points.items()]
    stages = {"building": 2.0, "running": 1.0}
    return {
        "workload": workload,
        "seed": 0,
        "method": method,
        "curve": curve,
        "stages": stages,
        "trials": 128,
    }


ROWS = [
    row(LIGHT, {64: (60.0, 40.0), 512: (400.0, 20.0)}),
    row("ours", {16: (8.0, 40.0), 64: (20.0, 20.0), 128: (40.0, 10.0)}),
    row(LIGHT, {64: (60.0, 40.0), 512: (400.0, 20.0)}, "v"),
    row("ours", {16: (20.0, 40.0), 64: (30.0, 20.0), 128: (50.0, 10.0)}, "v"),
]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Method -> curve, of the next picture."""
    found: dict[str, Any] = {}

    def note(path: Path, panels: Any, **_: Any) -> Path:
        found.update({curve["label"]: (curve["x"], curve["y"]) for curve in panels[""]})
        return path

    monkeypatch.setattr("scripts.tables.plots.plot_curves", note)
    return found


def test_latencies_are_over_the_last_one_of_the_base_and_end_with_the_search(drawn: dict[str, Any]) -> None:
    plot_trials("unused.png", ROWS)

    assert drawn["ours"] == ((16, 64, 128), pytest.approx((2.0, 1.0, 0.5)))
    assert drawn[title_of(LIGHT)] == ((64, 128, 512), pytest.approx((2.0, 2.0, 1.0)))


def test_seconds_count_from_when_every_search_has_a_program(drawn: dict[str, Any]) -> None:
    plot_seconds("unused.png", ROWS)

    assert drawn["ours"] == ((24, 32, 48), pytest.approx((2**0.5, 1.0, 0.5**0.5)))
    assert drawn[title_of(LIGHT)][0] == (64, 96, 128, 192, 256, 384)


def test_pictures_are_made(tmp_path: Path) -> None:
    for plot in (plot_trials, plot_seconds, plot_stages):
        assert plot(tmp_path / f"{plot.__name__}.png", ROWS).stat().st_size > 5000


def test_stages_are_of_a_hundred_trials() -> None:
    assert PER_TRIALS * seconds_a_trial(ROWS, "ours", "building") == pytest.approx(100 * 2.0 / 128)


def test_the_front_page_shows_the_courses_of_its_methods_by_name(tmp_path: Path) -> None:
    rows = [row(method, {16: (8.0, 40.0), 64: (20.0, 20.0), 512: (40.0, 10.0)}) for method in FRONT]

    text = words(plot_front(tmp_path / "front.svg", rows))

    assert all(title in text for title in FRONT.values())
    assert "mean of 1 searches" in text


def test_a_course_has_only_the_points_that_all_searches_have() -> None:
    course = mean_course([*ROWS, row("ours", {64: (9.0, 40.0)}, "v")], "ours")

    assert [trials for trials, _, _ in course] == [64]
    assert course[0][1] == pytest.approx(2 ** (1 / 3))
