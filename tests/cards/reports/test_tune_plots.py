"""Pictures of a search, as text that says what they show."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from costhub.cards.reports.tune_plots import (
    MOST_BARS,
    MOST_CURVES,
    STAGES,
    curves_svg,
    estimate_svg,
    latencies_svg,
    stages_svg,
)


def texts(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)  # noqa: S314 - it is our own
    return ["".join(each.itertext()) for each in root.iter() if each.tag.endswith("text")]


def test_forms_are_labelled_with_their_latency() -> None:
    forms = [
        {"form": "TVM, untuned", "median_us": 9000.0, "low_us": 8000.0, "high_us": 9500.0},
        {"form": "TVM, tuned", "median_us": 3000.0, "low_us": 2900.0, "high_us": 3100.0},
    ]
    drawn = latencies_svg(forms, name="a")

    assert {"TVM, untuned", "TVM, tuned", "9", "3", "latency (ms)"} <= set(texts(drawn))
    assert "var(--series-0)" in drawn  # the tuned form has a colour of its own
    assert "var(--series-5)" in drawn


def test_the_estimate_has_axes_with_units() -> None:
    assert {"measured programs", "all kernels (ms)"} <= set(texts(estimate_svg([(0, 2000.0), (9, 1000.0)])))


@pytest.mark.parametrize("count", [1, 2, 5, MOST_CURVES + 3])
def test_every_workload_has_a_curve_as_far_as_there_is_room(count: int) -> None:
    rows = [
        {"workload": f"conv.{i}", "curve": [[1, 9.0], [4, 5.0]], "untuned_us": 20.0 if i else None}
        for i in range(count)
    ]
    shown = texts(curves_svg([*rows, {"workload": "none", "curve": [], "untuned_us": None}]))

    assert [name for name in shown if name.startswith("conv.")] == [f"conv.{i}" for i in range(min(count, MOST_CURVES))]
    assert "none" not in shown


def test_bars_are_those_of_the_longest_searches() -> None:
    rows = [
        {"workload": f"w{i}", "stages": {"running": float(i), "other": 0.1, "learning": 0.0}}
        for i in range(MOST_BARS + 2)
    ]
    shown = texts(stages_svg(rows))

    assert "w1" not in shown
    assert f"w{MOST_BARS + 1}" in shown
    assert [stage for stage in STAGES if stage in shown] == ["running", "other"]


def test_a_single_bar_has_room() -> None:
    assert "only" in texts(stages_svg([{"workload": "only", "stages": {"running": 1.0}}]))


def test_long_names_keep_the_end_that_tells_them_apart() -> None:
    rows = [{"workload": f"{'x' * 90}.3f6c6{i}", "stages": {"running": 1.0}} for i in range(2)]
    shown = [text for text in texts(stages_svg(rows)) if text.startswith("xx")]

    assert [text[-7:] for text in shown] == [".3f6c60", ".3f6c61"]
