"""Reports: the points and slopes of learning curves, and which settings validation chooses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from costhub.models.evaluate import METRICS
from costhub.models.networks.network_options import MlpOptions
from costhub.models.trees.gbt import GbtOptions
from scripts.bench.models.grid import ABLATIONS, CHOICES, CHOOSING, GridEntry
from scripts.bench.models.report import BEFORE, BEND, LAST, choices, curves_of, draw_learning, learning, main, slopes
from scripts.release.train import MANY
from scripts.tables.models.comparison import summaries

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


DEPTHS, NUMBERS = (CHOICES[name].settings for name in ("depth of trees", "number of trees"))


def rated(entry: GridEntry, pairs: Sequence[float], top_1: Sequence[float], **more: Any) -> dict[str, Any]:
    """A row of a line of the ablations, of validation workloads unless told otherwise."""
    about = {"model": entry.model, "objective": entry.objective, "spec": entry.spec, "split": "validation-40"}
    line = row(entry.variant, 8, 2, pairs, **{**about, **more})
    line["by_workload"] |= {"pairwise": list(pairs), "top_1": list(top_1)}
    return {**line, **dict.fromkeys(METRICS, 0.5)}


def depths(figures: dict[str, tuple[list[float], list[float]]], **more: Any) -> list[dict[str, Any]]:
    return [rated(DEPTHS[depth], *own, **more) for depth, own in figures.items()]


VALIDATED = depths({"3": ([0.6, 0.8], [0.5, 0.5]), "5": ([0.8, 1.0], [0.6, 0.6]), "8": ([0.7, 0.8], [0.9, 0.7])})
# The other way round: the shallowest trees are the best.
TESTED = depths(
    {"3": ([0.9, 0.9], [0.9, 0.9]), "5": ([0.2, 0.0], [0.3, 0.3]), "8": ([0.3, 0.2], [0.4, 0.5])}, split=MANY
)


def test_validation_chooses_what_is_best_there_and_the_tested_workloads_only_judge() -> None:
    found = {(line["choice"], line["metric"]): line for line in choices([*VALIDATED, *TESTED], [])["choices"]}

    assert set(found) == {("depth of trees", "pairwise"), ("depth of trees", "top_1")}
    by_pairs, by_top_1 = found.values()
    assert (by_pairs["chosen"], by_top_1["chosen"]) == ("5", "8")
    assert by_pairs["validation"] == pytest.approx({"3": 0.7, "5": 0.9, "8": 0.75})
    assert (by_pairs["lead"], by_pairs["lead_se"]) == pytest.approx((0.15, 0.05))
    assert (by_pairs["tested_chosen"], by_pairs["tested_shipped"]) == pytest.approx((0.1, 0.25))
    assert (by_pairs["flattery"], by_pairs["flattery_se"]) == pytest.approx((0.15, 0.05))
    assert by_pairs["paired"]
    assert (by_top_1["lead"], by_top_1["flattery"], by_top_1["tested_shipped"]) == pytest.approx((0.0, 0.0, 0.45))


def test_settings_are_compared_on_the_seeds_that_all_of_them_have() -> None:
    rows = [rated(DEPTHS["8"], [value] * 2, [value] * 2, seed=seed) for seed, value in ((0, 0.5), (1, 0.9))]

    line, _ = choices([*rows, rated(DEPTHS["5"], [0.6, 0.6], [0.6, 0.6])], [])["choices"]

    assert (line["chosen"], line["seeds"], line["validation"]["8"]) == ("5", 1, 0.5)


def test_without_rows_of_the_tested_workloads_their_published_figures_count_as_independent() -> None:
    elsewhere = summaries(depths({"5": ([1.0, 0.8], [1.0, 1.0]), "8": ([0.1, 0.3], [0.1, 0.1])}, split="held-out-14"))

    line, _ = choices(VALIDATED, [*elsewhere, *summaries(TESTED)])["choices"]
    unknown, _ = choices(VALIDATED, elsewhere)["choices"]

    assert (line["tested_chosen"], line["tested_shipped"], line["flattery"]) == pytest.approx((0.1, 0.25, 0.15))
    assert line["flattery_se"] == pytest.approx((0.1**2 + 0.05**2) ** 0.5)
    assert not line["paired"]
    assert (unknown["chosen"], unknown["tested_shipped"], unknown["flattery"]) == ("5", None, None)


def test_all_choices_of_an_architecture_are_added_up_by_workload() -> None:
    rows = [*VALIDATED, *TESTED, rated(NUMBERS["150"], [0.9, 0.9], [0.1, 0.1])]
    rows.append(rated(NUMBERS["150"], [0.2, 0.2], [0.5, 0.5], split=MANY))

    by_pairs, by_top_1 = choices(rows, [])["together"]

    # The depth flatters by 0.1 and 0.2, the number of trees by 0.1 and 0.
    assert (by_pairs["model"], by_pairs["choices"], by_pairs["changed"]) == ("gbt", 2, 2)
    assert (by_pairs["flattery"], by_pairs["flattery_se"]) == (pytest.approx(0.2), pytest.approx(0.0, abs=1e-9))
    assert (by_top_1["changed"], by_top_1["flattery"], by_top_1["flattery_se"]) == (0, 0.0, None)


def test_an_error_of_all_choices_needs_the_rows_of_all() -> None:
    rows = [*VALIDATED, *TESTED, rated(NUMBERS["150"], [0.9, 0.9], [0.1, 0.1])]
    published = summaries([*TESTED, rated(NUMBERS["150"], [0.2, 0.2], [0.5, 0.5], split=MANY)])

    by_pairs, _ = choices(rows, published)["together"]
    unknown, _ = choices(rows, [])["together"]

    assert (by_pairs["flattery"], by_pairs["flattery_se"]) == (pytest.approx(0.2), None)
    assert (unknown["flattery"], unknown["flattery_se"]) == (None, None)


def test_choices_need_rows_of_validation_workloads() -> None:
    with pytest.raises(click.ClickException, match=r"--grid choices --split validation-40 --rows FILE"):
        choices(TESTED, summaries(TESTED))


def test_the_command_writes_the_choices_and_shows_their_table(tmp_path: Path) -> None:
    rows, out = tmp_path / "rows.jsonl", tmp_path / "model_choices.json"
    rows.write_text("".join(json.dumps(each) + "\n" for each in [*VALIDATED, *TESTED]))

    done = CliRunner().invoke(main, ["choices", "--rows", str(rows), "--json", str(out)])

    assert done.exit_code == 0, done.output
    written = json.loads(out.read_text())
    assert {key: written[key] for key in ("choices", "together")} == choices([*VALIDATED, *TESTED], [])
    assert "| depth of trees | pairs | 3: 0.700, **5**: 0.900, 8: 0.750 |" in done.output


def test_choices_are_between_lines_of_the_ablations_and_what_is_shipped_are_the_defaults() -> None:
    trees, network = GbtOptions(), MlpOptions()
    sizes = {
        "depth of trees": trees.depth,
        "number of trees": trees.rounds,
        "hidden units": network.hidden,
        "bins": network.bins,
    }

    assert {entry.label for entry in CHOOSING} < {entry.label for entry in ABLATIONS}
    assert len(CHOOSING) == len({entry.label for entry in CHOOSING}) == 13 + 14
    assert {name: CHOICES[name].shipped for name in sizes} == {name: str(size) for name, size in sizes.items()}
    shipped = {choice.settings[choice.shipped].label for choice in CHOICES.values()}
    assert shipped == {"gbt/log/tiles@1", "mlp/gap/tiles@1"}
