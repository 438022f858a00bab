"""Learning curves: which points they have, and how steep they are at their end and before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from costhub.models.evaluate import METRICS
from scripts.bench.models.report import BEFORE, BEND, LAST, curves_of, draw_learning, learning, slopes

PROGRAMS = 1600
WORKLOADS = 160


def row(variant: str, programs: float, workloads: float, figures: Sequence[float], **more: Any) -> dict[str, Any]:
    """One row of one seed: a figure for each tested workload; `pairwise` is 0.1 less than the other metrics."""
    by_workload = {name: [value - 0.1 * (name == "pairwise") for value in figures] for name in METRICS}
    return {
        **{"dataset": "d", "device": "cpu0", "split": "s", "also": "", "fold": 0, "seed": 0},
        **{"model": "conditioned", "objective": "", "spec": "tiles@1", "variant": variant},
        **{"train_programs": programs, "train_workloads": workloads},
        **{"train_s": 1.0, "predictions_per_s": 1.0, "bytes": 1},
        **{"workload_ids": [f"w{place}" for place in range(len(figures))], "by_workload": by_workload},
        **more,
    }


def bent(steep: Sequence[float], flat: Sequence[float], **more: Any) -> list[dict[str, Any]]:
    """Rows of the shares 1/16 to 1: each workload gains so much per doubling up to 1/4, and so much from there on."""
    return [
        row(
            f"blend, programs 1/{2**k}",
            PROGRAMS / 2**k,
            WORKLOADS,
            [0.5 + min(4 - k, 2) * s + max(2 - k, 0) * f for s, f in zip(steep, flat, strict=True)],
            **more,
        )
        for k in range(5)
    ]


SHARES = [row(f"blend, workloads 1/{2**k}", PROGRAMS / 2**k, WORKLOADS / 2**k, [0.4, 0.5]) for k in (1, 2)]


def test_all_the_data_are_a_point_of_both_curves() -> None:
    curves = curves_of([*bent([0.02, 0.04], [0.01, 0.01]), *SHARES])

    sizes = {curve[2:]: [point.about["size"] for point in points] for curve, points in curves.items()}
    assert sizes == {
        ("conditioned blend", "programs"): ["1/16", "1/8", "1/4", "1/2", "1/1"],
        ("conditioned blend", "workloads"): ["1/4", "1/2", "1/1"],
    }
    (curve,) = learning(curves, "workloads", "top_1")
    assert (curve["x"], curve["y"]) == ([40, 80, 160], pytest.approx([0.45, 0.45, 0.58]))


def test_a_curve_has_the_mean_over_seeds_with_the_error_over_workloads() -> None:
    rows = [row("programs 1/1", 8, 2, figures, seed=seed) for seed, figures in ((0, [0.5, 0.7]), (1, [0.7, 0.9]))]

    (curve,) = learning(curves_of(rows), "programs", "pairwise")

    assert (curve["label"], curve["x"]) == ("conditioned", [8])
    assert (curve["y"], curve["se"]) == (pytest.approx([0.6]), pytest.approx([0.1]))


def test_shares_that_leave_the_same_programs_are_one_point() -> None:
    rows = [row(f"programs 1/{2**k}", max(100, 1600 / 2**k), 50, [0.5, 0.6]) for k in range(7)]

    (curve,) = learning(curves_of(rows), "programs", "top_1")

    assert curve["x"] == [100, 200, 400, 800, 1600]


def test_curves_of_two_splits_are_apart() -> None:
    rows = [*bent([0.02, 0.04], [0.01, 0.01]), *bent([0.03, 0.03], [0.0, 0.0], split="t")]

    assert [curve["split"] for curve in learning(curves_of(rows), "programs", "top_1")] == ["s", "t"]


@pytest.mark.parametrize("metric", ["top_1", "pairwise"])
def test_the_slope_is_in_points_per_doubling_with_the_error_over_workloads(metric: str) -> None:
    found = slopes(curves_of(bent([0.02, 0.04], [0.01, 0.01])))

    own = {line["part"]: line for line in found if (line["metric"], line["kind"]) == (metric, "programs")}
    shown = {part: (line["points"], line["standard_error"]) for part, line in own.items()}
    assert shown == {
        BEFORE: (pytest.approx(3.0), pytest.approx(1.0)),
        LAST: (pytest.approx(1.0), pytest.approx(0.0, abs=1e-9)),
        BEND: (pytest.approx(-2.0), pytest.approx(1.0)),
    }
    ends = {part: (line["from"], line["to"], line["workloads"]) for part, line in own.items()}
    assert ends == {BEFORE: (100, 400, 2), LAST: (400, 1600, 2), BEND: (100, 1600, 2)}


def test_the_slope_is_the_line_of_least_squares() -> None:
    figures = (0.5, 0.5, 0.5, 0.5, 0.5, 0.3)  # of all, a half, ..., 1/32
    rows = [row(f"programs 1/{2**k}", 3200 / 2**k, 9, [figure, figure]) for k, figure in enumerate(figures)]

    by_part = {line["part"]: line["points"] for line in slopes(curves_of(rows)) if line["metric"] == "top_1"}

    # The line through 0.3, 0.5, 0.5, 0.5 rises by 0.06 per doubling; from end to end it were 0.067.
    assert by_part == {BEFORE: pytest.approx(6.0), LAST: pytest.approx(0.0, abs=1e-9), BEND: pytest.approx(-6.0)}


def test_numbers_of_workloads_that_are_no_powers_of_two_belong_to_a_part() -> None:
    sizes = [*(2**k for k in range(1, 10)), 589]
    names = [*(f"workloads {size}" for size in sizes[:-1]), "programs 1/1"]
    rows = [row(name, 20 * size, size, [0.5, 0.6]) for name, size in zip(names, sizes, strict=True)]

    found = {line["part"]: (line["from"], line["to"]) for line in slopes(curves_of(rows)) if line["metric"] == "top_1"}

    assert found == {BEFORE: (2, 128), LAST: (128, 589), BEND: (2, 589)}


def test_a_report_has_curves_points_and_slopes_and_a_picture_of_each_kind_and_metric(tmp_path: Path) -> None:
    report = draw_learning([*bent([0.02, 0.04], [0.01, 0.01]), *SHARES], tmp_path / "model_learning_joint.json")

    assert [curve["x"] for curve in report["curves"]] == [[100, 200, 400, 800, 1600]]
    assert len(report["learned"]) == 7
    (whole,) = [line for line in report["learned"] if line["size"] == "1/1"]
    assert (whole["kind"], whole["programs"], whole["workloads"], whole["tested"]) == ("programs", 1600, 160, 2)
    assert whole["top_1"] == pytest.approx(0.58)
    assert {line["kind"] for line in report["slopes"]} == {"programs", "workloads"}
    assert {path.name for path in tmp_path.iterdir()} == {
        f"model_learning_joint-{kind}{metric}.png" for kind in ("programs", "workloads") for metric in ("", "-pairs")
    }
