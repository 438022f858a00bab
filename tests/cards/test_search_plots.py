"""The pictures of the search benchmark say what the rows say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costhub.cards.search_plots import _seconds, plot_seconds, plot_stages, plot_trials
from costhub.cards.search_table import LIGHT


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

    monkeypatch.setattr("costhub.cards.search_plots.plot_curves", note)
    return found


def test_latencies_are_over_the_last_one_of_the_base_and_end_with_the_search(drawn: dict[str, Any]) -> None:
    plot_trials("unused.png", ROWS)

    assert drawn["ours"] == ((16, 64, 128), pytest.approx((2.0, 1.0, 0.5)))
    assert drawn[LIGHT] == ((64, 128, 512), pytest.approx((2.0, 2.0, 1.0)))


def test_seconds_count_from_when_every_search_has_a_program(drawn: dict[str, Any]) -> None:
    plot_seconds("unused.png", ROWS)

    assert drawn["ours"] == ((24, 32, 48), pytest.approx((2**0.5, 1.0, 0.5**0.5)))
    assert drawn[LIGHT][0] == (64, 96, 128, 192, 256, 384)


def test_pictures_are_made(tmp_path: Path) -> None:
    for plot in (plot_trials, plot_seconds, plot_stages):
        assert plot(tmp_path / f"{plot.__name__}.png", ROWS).stat().st_size > 5000


def test_stages_are_of_a_hundred_trials() -> None:
    assert _seconds(ROWS, "ours", "building") == pytest.approx(100 * 2.0 / 128)
