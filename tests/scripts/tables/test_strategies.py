from __future__ import annotations

from typing import Any

import pytest

from scripts.tables.strategies import (
    BASE,
    LARGE,
    LIVE,
    REPLAYED,
    controller_table,
    evolution_table,
    live_ranks_summary,
    live_ranks_table,
    proposals_summary,
    proposals_table,
    rank_agreement,
    selection_table,
    strategies_summary,
    strategies_table,
)


def strategy_row(
    strategy: str, selection: str, best_us: float, seconds: float, curve: list[tuple[int, float, float]]
) -> dict[str, Any]:
    return {
        "workload": "w",
        "seed": 0,
        "strategy": strategy,
        "selection": selection,
        "trials": 64,
        "failures": 16,
        "seconds": seconds,
        "stages": {"evolution": 2.0, "building": 1.0},
        "best_us": best_us,
        "curve": curve,
    }


ROWS = [
    strategy_row(*BASE, 100.0, 10.0, [(16, 3.0, 150.0), (48, 8.0, 103.0), (60, 9.0, 100.0)]),
    strategy_row("annealing", "diverse", 80.0, 20.0, [(16, 5.0, 120.0), (32, 9.5, 110.0), (64, 18.0, 80.0)]),
    strategy_row("ppo", "ranked", 200.0, 2.0, [(16, 1.0, 200.0)]),
]


def test_gains_are_over_the_base_at_equal_trials_and_at_equal_seconds() -> None:
    base, annealing, ppo = strategies_summary(ROWS)

    assert (base["gain"], base["timed_gain"], base["gain_se"]) == (1.0, 1.0, None)
    assert annealing["gain"] == pytest.approx(1.25)
    assert annealing["timed_gain"] == pytest.approx(100 / 110)  # after ten seconds
    assert ppo["timed_gain"] is None  # the base had measured nothing when it ended


def test_convergence_is_to_a_search_s_own_best() -> None:
    base, annealing, ppo = strategies_summary(ROWS)

    assert [(line["to_5"], line["to_1"]) for line in (base, annealing, ppo)] == [(48, 60), (64, 64), (16, 16)]
    assert base["failures"] == 0.25


def test_errors_come_from_all_searches() -> None:
    again = [
        {**each, "seed": 1, "best_us": each["best_us"] * factor}
        for each, factor in zip(ROWS, (1.0, 2.0, 1.0), strict=True)
    ]

    _, annealing, ppo = strategies_summary([*ROWS, *again])

    assert annealing["gain"] == pytest.approx((1.25 * 0.625) ** 0.5)
    assert annealing["gain_se"] > 0.3
    assert ppo["gain_se"] == pytest.approx(0.0)


def test_a_search_without_its_base_has_no_gain() -> None:
    (line,) = strategies_summary(ROWS[1:2])

    assert (line["gain"], line["timed_gain"]) == (None, None)


def test_the_table_has_a_line_for_each() -> None:
    table = strategies_table({"summary": strategies_summary(ROWS)})

    assert "| annealing | diverse | 1 | 1.250 | - | 0.909 | - | 64.0 | 64.0 | 20 | 2 | 25.0% |" in table
    assert "| ppo | ranked | 1 | 0.500 | - | - | - |" in table


def line(method: str, batch: int, ahead: float) -> dict[str, object]:
    return {
        "source": "a",
        "target": "b",
        "batch": batch,
        "method": method,
        "workloads": 3,
        "ahead": ahead,
        "ahead_se": 0.01,
        "to_95": 12.0,
        "to_99": 30.5,
        "at_64": 0.98,
    }


def test_each_pair_and_size_of_batches_has_a_table() -> None:
    lines = [line("ranked", 8, 0.0), line("random", 8, -0.1), line("ranked", 16, 0.0)]

    table = selection_table({"summary": lines})

    assert table.count("**a to b**") == 2
    assert "batches of 8, 3 workloads" in table
    assert "| random | -0.100 | 0.010 | 12.0 | 30.5 | 0.980 |" in table


def proposals_row(method: str, *curve: tuple[int, float, float]) -> dict[str, Any]:
    points = [dict(zip(("trials", "seconds", "best_us"), point, strict=True)) for point in curve]
    return {"workload": "w", "seed": 0, "method": method, "curve": points}


def test_other_proposals_are_compared_after_equal_trials_and_after_equal_seconds() -> None:
    large = proposals_row(LARGE, (16, 10.0, 100.0), (32, 20.0, 80.0))
    small = proposals_row("small", (16, 4.0, 110.0), (32, 9.0, 100.0), (48, 12.0, 90.0))
    late = proposals_row("late", (16, 11.0, 50.0))

    lines = proposals_summary([large, small, late])
    base, other, slow = lines

    assert (base["gain_32"], base["timed_32"], base["seconds_32"]) == (1.0, 1.0, 20.0)
    assert (other["gain_16"], other["gain_32"]) == (pytest.approx(100 / 110), pytest.approx(80 / 100))
    # After ten seconds it has had 32 trials, after twenty all of its 48.
    assert (other["timed_16"], other["timed_32"]) == (pytest.approx(1.0), pytest.approx(80 / 90))
    assert (slow["gain_16"], slow["timed_16"]) == (2.0, None)
    by_trials, by_seconds = proposals_table({"summary": lines}).split("\n\n")
    assert by_trials.splitlines()[-1] == "| late | 1 | 2.000 | - | 11 | - | - | - |"
    assert by_seconds.splitlines()[-2:] == ["| small | 1 | 1.000 | - | 0.889 | - |", "| late | 1 | - | - | 1.600 | - |"]


def test_the_quick_searches_alone_give_no_gain_after_equal_seconds() -> None:
    base = [{**proposals_row(LARGE, (16, 10.0, 100.0)), "seed": seed} for seed in range(2)]
    quick = proposals_row("quick", (16, 9.0, 50.0))
    late = {**proposals_row("quick", (16, 11.0, 200.0)), "seed": 1}

    line = proposals_summary([*base, quick, late])[1]

    assert (line["gain_16"], line["timed_16"], line["timed_16_se"]) == (pytest.approx(1.0), None, None)


def test_where_the_largest_evolution_was_not_searched_others_are_compared_with_the_first() -> None:
    first, second = proposals_row("first", (16, 4.0, 110.0)), proposals_row("second", (16, 5.0, 100.0))

    base, other = proposals_summary([first, second])

    assert (base["gain_16"], other["gain_16"]) == (1.0, pytest.approx(1.1))


def test_settings_of_the_evolution_that_differ_in_pressure_alone_are_two_lines() -> None:
    def row(total_us: float, **setting: float) -> dict[str, Any]:
        about = {"network": "n", "population": 64, "generations": 1, "kernels": 3, "seconds": 5.0, "stages": {}}
        return {**about, "total_us": total_us, **setting}

    table = evolution_table({"rows": [row(70.0), row(90.0, pressure=1.0), row(60.0, pressure=3.0)]})

    assert "| n | 64, 1 | 2 | 3 | 80 |" in table
    assert "| n | 64, 1, pressure 3 | 1 | 3 | 60 |" in table


def rule_row(rule: str, half: int | None, saved: float) -> dict[str, object]:
    return {
        "pair": "a -> b",
        "rule": rule,
        "half": half,
        "searches": 6,
        "workloads": 2,
        "saved": saved,
        "lost": 0.0123,
        "lost_se": 0.001,
        "worst_workload": 0.05,
        "lost_by_fixed": 0.01,
    }


def test_the_lines_are_those_of_both_halves() -> None:
    table = controller_table({"rows": [rule_row("plateau", 0, 0.2), rule_row("plateau", None, 0.4)]})

    assert table.startswith("**a -> b**, 6 searches of 2 workloads")
    assert "| plateau | 40% | 1.23% | 0.10% | 5.0% | 1.00% |" in table
    assert "20%" not in table


def live_row(strategy: str, where: str, seed: int, score: float, workload: str = "w") -> dict[str, Any]:
    """A search that has half as much to say at its end as in its score."""
    return {
        "workload": workload,
        "strategy": strategy,
        "where": where,
        "seed": seed,
        "score": score,
        "end": score / 2,
        "programs": 24,
        "trials": 16,
        "apart": 0.031,
    }


def live_and_replayed(
    strategy: str, scores: tuple[float, ...], replayed: tuple[float, ...], workload: str = "w"
) -> list[dict[str, Any]]:
    return [
        *(live_row(strategy, LIVE, 1000 + seed, score, workload) for seed, score in enumerate(scores)),
        *(live_row(strategy, REPLAYED, seed, score, workload) for seed, score in enumerate(replayed)),
    ]


@pytest.mark.parametrize(
    ("second", "tau", "spearman"),
    [
        ([1.0, 2.0, 3.0, 4.0], 1.0, 1.0),
        ([4.0, 3.0, 2.0, 1.0], -1.0, -1.0),
        # One of six pairs is the other way round.
        ([1.0, 3.0, 2.0, 4.0], 0.667, 0.8),
        # Five pairs alike and one tied: 5 / sqrt(6 * 5); ranks 1, 2.5, 2.5, 4.
        ([1.0, 2.0, 2.0, 4.0], 0.913, 0.949),
        ([2.0, 2.0, 2.0, 2.0], None, None),
    ],
)
def test_ranks_agree_as_far_as_pairs_are_in_one_order(
    second: list[float], tau: float | None, spearman: float | None
) -> None:
    first = [0.1, 0.2, 0.3, 0.9]

    assert rank_agreement(first, second) == rank_agreement(second, first) == {"tau": tau, "spearman": spearman}


def test_means_are_over_searches_then_over_workloads() -> None:
    rows = [
        *live_and_replayed("random", (0.0, 0.2), (0.1,)),
        *live_and_replayed("model", (0.8, 0.8), (0.7,)),
        *live_and_replayed("random", (0.3, 0.3), (0.0,), "v"),
        *live_and_replayed("model", (0.2, 0.2), (0.9,), "v"),
    ]

    found = live_ranks_summary(rows)

    random, model = found["strategies"]
    assert (found["workloads"], random["strategy"], model["strategy"]) == (2, "random", "model")
    assert random["live_score"] == pytest.approx(0.2)
    assert random["live_score_se"] == pytest.approx(0.1)  # of 0.1 and 0.3
    assert model["replay_score"] == pytest.approx(0.8)
    assert model["replay_end"] == pytest.approx(0.4)
    assert [(line["live_score_rank"], line["replay_score_rank"]) for line in (random, model)] == [(2, 2), (1, 1)]


def test_only_pairs_that_are_clearly_apart_when_live_count() -> None:
    rows = [
        *live_and_replayed("random", (0.0, 0.1, 0.2), (0.1,)),
        *live_and_replayed("genetic", (0.2, 0.1, 0.0), (0.3,)),  # as good as random: not clear
        *live_and_replayed("model", (0.8, 0.9, 0.95), (0.2,)),  # ahead of both, in replay of random alone
    ]

    score, end = live_ranks_summary(rows)["agreement"]

    assert (score["pairs"], score["clear"], score["alike"]) == (3, 2, 0.5)
    assert (end["pairs"], end["clear"], end["alike"]) == (3, 2, 0.5)


def test_the_error_of_a_difference_is_that_by_seed() -> None:
    """The scores of each strategy are far apart, but one is ahead by as much with every seed."""
    rows = [
        *live_and_replayed("random", (0.0, 0.5, -0.5), (0.1,)),
        *live_and_replayed("nearest", (0.1, 0.6, -0.41), (0.3,)),
    ]

    (score, _) = live_ranks_summary(rows)["agreement"]

    assert (score["clear"], score["alike"]) == (1, 1.0)


def test_one_seed_and_one_workload_have_no_errors() -> None:
    rows = [*live_and_replayed("random", (0.25,), (0.1,)), *live_and_replayed("nearest", (0.75,), (0.3,))]

    found = live_ranks_summary(rows)
    table = live_ranks_table(
        {
            "model": "",
            "seeds": 1,
            "replay_seeds": 1,
            "batch": 8,
            "published": {"random": -0.1},
            "summary": found,
            "rows": rows,
        }
    ).splitlines()

    assert table[0] == (
        "**Means over 1 workload**, 1 live search and 1 replay of each by every strategy, in batches of 8"
    )
    assert found["agreement"][0] == {
        "measure": "score",
        "tau": 1.0,
        "spearman": 1.0,
        "pairs": 1,
        "clear": 0,
        "alike": None,
    }
    assert "| nearest | 0.75 | 1 | 0.30 | 1 | 0.38 | 1 | 0.15 | 1 | - |" in table
    assert any(line.startswith("| random |") and line.endswith(" | -0.10 |") for line in table)
    assert "| score | 1.00 | 1.00 | 1 | 0 | - |" in table
    assert "| w | 24 | 16 | 0.25 / 0.10 | 0.75 / 0.30 | 3.1% |" in table
