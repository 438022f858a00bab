from __future__ import annotations

from typing import Any

import pytest

from scripts.tables.search import (
    LIGHT,
    OURS,
    STOCK,
    newcomer_table,
    passes_table,
    picked_table,
    search_headline_table,
    search_table,
    speed_table,
    summary,
)


def row(method: str, points: dict[int, tuple[float, float]], workload: str = "w", seed: int = 0) -> dict[str, Any]:
    curve = [{"trials": n, "seconds": s, "best_us": us} for n, (s, us) in points.items()]
    trials = max(points)
    stages = {"evolution": 0.2 * trials, "building": 0.08 * trials, "running": 0.04 * trials}
    return {"workload": workload, "seed": seed, "method": method, "curve": curve, "trials": trials, "stages": stages}


BASE = row(LIGHT, {64: (60.0, 40.0), 128: (100.0, 30.0), 512: (400.0, 20.0)})


def test_a_method_is_compared_at_equal_trials_and_where_it_reached_the_best() -> None:
    sooner = row("ours", {16: (8.0, 50.0), 64: (20.0, 20.1), 128: (40.0, 15.0)})

    base, ours = summary([BASE, sooner])

    assert base["gain_64"] == base["trials_gain"] == base["time_gain"] == pytest.approx(1.0)
    assert ours["gain_64"] == pytest.approx(40.0 / 20.1)
    assert ours["gain_128"] == pytest.approx(2.0)
    assert (ours["reached"], ours["trials_gain"], ours["time_gain"]) == (
        1.0,
        pytest.approx(8.0),
        pytest.approx(20.0),
    )


def test_a_search_that_never_reached_the_best_counts_against_the_share_alone() -> None:
    short, whole = (row("ours", {64: (20.0, us)}, seed=seed) for seed, us in ((0, 30.0), (1, 20.0)))
    again = {**BASE, "seed": 1}

    (_, ours) = summary([BASE, again, short, whole])

    assert (ours["searches"], ours["reached"], ours["trials_gain"]) == (2, 0.5, pytest.approx(8.0))
    assert (ours["trials_median"], ours["time_median"]) == (None, None)
    assert ours["gain_128"] is None


def test_the_middle_search_of_three_tells_though_one_never_came_near() -> None:
    rows = [row("ours", {64: (20.0, us)}, seed=seed) for seed, us in enumerate((30.0, 20.0, 20.0))]

    (*_, ours) = summary([*({**BASE, "seed": seed} for seed in range(3)), *rows])

    assert (ours["trials_median"], ours["time_median"]) == (pytest.approx(8.0), pytest.approx(20.0))


def test_a_search_without_its_base_is_not_compared() -> None:
    (_, ours) = summary([BASE, row("ours", {64: (1.0, 1.0)}, workload="another")])

    assert (ours["searches"], ours["reached"], ours["gain_64"]) == (0, None, None)


def test_the_table_shows_medians_over_seeds() -> None:
    rows = [
        BASE,
        *(row("ours", {64: (s, us)}, seed=n) for n, (s, us) in enumerate([(1, 10.0), (3, 30.0), (2, 20.0)])),
    ]

    shown = search_table({"rows": rows, "summary": summary(rows)})

    assert "20.0 µs, 2 s" in shown
    assert "| ours, 64 trials |" in shown


def test_stock_as_it_is_has_a_table_of_its_own_and_no_course() -> None:
    stock = row(STOCK, {64: (120.0, 40.0), 512: (600.0, 20.0)})
    ours = row("ours", {64: (20.0, 20.0)})
    result = {"rows": [BASE, ours, stock], "summary": summary([BASE, ours])}

    shown = search_table({**result, "beside_stock": summary([ours, stock], STOCK)}).split("\n\n")

    assert "| stock | " not in shown[1]
    assert "20.0 µs, 600 s" in shown[3]
    assert shown[4].splitlines()[2].startswith("| ours | 1 | 2.000 |")
    assert shown[4].splitlines()[2].endswith("| 8.0 | 8.0 | 30.0 | 30.0 |")


def test_the_milliseconds_of_a_trial_are_told_by_stage() -> None:
    slower = row("ours", {64: (20.0, 20.0)}, seed=1)
    slower["stages"] = {"evolution": 0.4 * 64}
    rows = [BASE, row("ours", {16: (8.0, 50.0), 64: (20.0, 20.1)}), slower]

    lines = search_table({"rows": rows, "summary": summary(rows)}).split("\n\n")[2].splitlines()

    assert lines[0].startswith("| milliseconds of a trial | evolution | features | prediction | learning | building |")
    assert lines[3] == "| ours | 300 | 0 | 0 | 0 | 40 | 20 | 0 |"


def test_the_headline_is_the_first_of_the_tables() -> None:
    result = {"rows": [BASE], "summary": summary([BASE])}

    assert search_table(result).split("\n\n")[0] == search_headline_table(result)


def test_the_course_is_the_mean_over_searches_that_have_a_base() -> None:
    rows = [
        BASE,
        {**BASE, "seed": 1},
        row("ours", {64: (10.0, 10.0)}),
        row("ours", {64: (30.0, 40.0)}, seed=1),
        row("ours", {64: (1.0, 1.0)}, workload="another"),
    ]

    shown = search_table({"rows": rows, "summary": summary(rows)})

    courses = [line.split(" | ")[1:] for line in shown.split("\n\n")[1].splitlines()[2:]]
    assert courses == [["2.00, 60 s", "1.50, 100 s", "1.00, 400 s |"], ["1.00, 20 s", "-", "- |"]]


def test_a_seed_that_the_base_lacks_is_compared_with_its_first() -> None:
    rows = [
        {**BASE, "seed": 1, "curve": [{"trials": 64, "seconds": 9.0, "best_us": 99.0}]},
        BASE,
        row("ours", {64: (20.0, 20.0)}, seed=2),
    ]

    (*_, ours) = summary(rows)

    assert (ours["searches"], ours["gain_64"]) == (1, pytest.approx(2.0))


def whole(row: dict[str, Any], before_s: float, exit_s: float, failures: int, trials: int) -> dict[str, Any]:
    curve = [{**point, "process_s": before_s + point["seconds"]} for point in row["curve"]]
    return {**row, "curve": curve, "exit_s": exit_s, "failures": failures, "trials": trials}


def test_rows_of_whole_processes_show_their_seconds_their_failures_and_the_aims() -> None:
    rows = [
        whole(BASE, 5.0, 410.0, 7, 512),
        whole(row("ours", {64: (10.0, 20.0)}), 3.0, 14.0, 1, 64),
        whole(row("ours", {64: (20.0, 20.0)}, seed=1), 3.0, 26.0, 2, 64),
    ]

    lines = search_table({"rows": rows, "summary": summary(rows)}).split("\n\n")[2].splitlines()

    assert lines[0].startswith(
        "| seconds from an empty process | 64 trials | 128 trials | 512 trials | to its exit (s)"
    )
    assert lines[2:] == [
        "| aim | 1.03, 25 s | - | - | - | - | - |",
        "| stock (start-up removed) | 2.00, 65 s | 1.50, 105 s | 1.00, 405 s | 410 | 512 | 7 |",
        "| ours | 1.00, 18 s | - | - | 20 | 128 | 3 |",
    ]


def test_searches_that_differ_in_a_part_are_compared_with_costhubs_of_the_same_seed() -> None:
    rows = [
        whole(BASE, 0.0, 1.0, 0, 512),
        whole(row(OURS, {16: (1.0, 40.0), 64: (2.0, 30.0)}), 0.0, 1.0, 0, 64),
        whole(row(OURS, {16: (1.0, 10.0), 64: (2.0, 10.0)}, seed=1), 0.0, 1.0, 0, 64),
        whole(row("costhub, random scores", {16: (1.0, 80.0), 64: (2.0, 60.0)}), 0.0, 1.0, 0, 64),
    ]

    lines = search_table({"rows": rows, "summary": summary(rows)}).split("\n\n")[3].splitlines()

    assert lines[0].startswith(
        "| compared with costhub | searches | latency gain at 16 trials | se | latency gain at 32"
    )
    assert lines[2:] == ["| costhub, random scores | 1 | 0.500 | - | - | - | 0.500 | - |"]
    assert "compared with costhub" not in search_table({"rows": rows[:3], "summary": summary(rows[:3])})


RESULT = {
    "speed": [
        {"workload": "w", "model": "tvm-xgb", "features_s": 2.0, "prediction_s": 0.05, "of_tvm_xgb": 1.0},
        {
            "workload": "w",
            "model": "gbt behind a draft",
            "features_s": 0.3,
            "prediction_s": 0.04,
            "of_tvm_xgb": 6.0,
            "kept_best_16": 0.875,
        },
    ],
    "searches": [
        {
            "workload": "w",
            "model": "mlp",
            "population": 256,
            "seconds": 20.0,
            "stages": {"evolution": 8.0, "features": 1.5, "prediction": 0.5, "building": 4.0, "running": 6.0},
        },
    ],
}


def test_a_line_tells_parts_ratio_and_what_a_draft_kept() -> None:
    text = speed_table(RESULT)

    assert "| w | tvm-xgb | 2.000 | 0.050 | - | 1.00 | - |" in text
    assert "| w | gbt behind a draft | 0.300 | 0.040 | - | 6.00 | 88% |" in text


def test_stages_are_shares_of_the_search() -> None:
    text = speed_table(RESULT)

    assert "| w | mlp | 256 | 20.0 | 40.0% | 7.5% | 2.5% | - | 20.0% | 30.0% | - |" in text


def test_a_line_says_how_far_passes_are_apart() -> None:
    row = {"passes": "1 and 2", "programs": 327, "shift": -0.01, "median": 0.009, "p90": 0.04, "worst": 0.12}

    assert passes_table({"rows": [row]}).splitlines()[-1] == "| 1 and 2 | 327 | -1.0% | 0.9% | 4.0% | 12.0% |"


def test_a_line_says_what_choosing_again_gains_and_how_often_it_changes_nothing() -> None:
    rows = [
        {"database": "a", "said_us": 9.0, "picked_us": 10.0, "chosen_us": 10.0, "rank": 1},
        {"database": "a", "said_us": 9.0, "picked_us": 16.0, "chosen_us": 4.0, "rank": 3},
        {"database": "b", "said_us": 9.0, "picked_us": 9.0, "chosen_us": 10.0, "rank": 2},
    ]

    lines = picked_table({"rows": rows}).splitlines()

    assert lines[-2].startswith("| a | 2 | 1 | 2.000 |")
    assert lines[-1].startswith("| b | 1 | 0 | 0.900 |")


def test_a_newcomers_commands_stand_with_their_seconds_and_a_score_for_each_device() -> None:
    devices = [{"device": "a", "score": 0.25, "error": 0.05}, {"device": "b", "score": -0.5, "error": None}]
    rows = [
        {"part": "strategy", "file": "s.py", "lines": 30, "seconds": 12.4, "played": "costhub x", "devices": devices},
        {"part": "model", "file": "m.py", "lines": 40, "seconds": 400.0, "played": "costhub y", "devices": devices[1:]},
        {"part": "model again", "file": "m.py", "lines": 40, "seconds": 60.0, "played": "costhub y", "devices": []},
    ]

    head, _, strategy, model, again, _, played = newcomer_table({"rows": rows}).splitlines()

    assert head == "| part | file | seconds | `a` | `b` |"
    assert strategy == "| strategy | s.py, 30 lines | 12 | 0.25 ± 0.05 | -0.50 |"
    assert model == "| model | m.py, 40 lines | 400 | - | -0.50 |"
    assert again == "| model again | m.py, 40 lines | 60 | - | - |"
    assert played == "Played: `costhub x`, `costhub y`."
