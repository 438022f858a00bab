"""The tables of what limits cost models: gains over a base, and who has learned what."""

from __future__ import annotations

from typing import Any

from scripts.tables.models.ceilings import feature_specs_table, pool_sizes_table, top_losses_table, verify_stage_table


def test_the_chosen_loss_is_marked_and_gains_are_over_the_base() -> None:
    def line(part: str, model: str, base: str, top_1: float) -> dict[str, Any]:
        figures = {name: top_1 for name in ("top_1", "top_5", "pairwise")}
        gains = {f"{name}_gain": top_1 - 0.7 for name in figures}
        errors = {f"{name}{end}_se": 0.02 for name in figures for end in ("", "_gain")}
        return {"part": part, "model": model, "base": base, "workloads": 9, **figures, **gains, **errors}

    rows = [("validation", "a", "a", 0.7), ("validation", "b", "a", 0.75), ("test", "a", "a", 0.7)]
    shown = top_losses_table({"chosen": "b", "summary": [line(*row) for row in rows]})

    first, second = shown.split("\n\n")
    assert first.splitlines()[0].startswith("| chosen on 9 workloads | top-1 | top-5 | pairwise | gain in top-1 |")
    assert first.splitlines()[2].startswith("| **b** | 0.750 ± 0.020 |")
    assert "| +0.050 ± 0.020 |" in first.splitlines()[2]
    assert first.splitlines()[3].endswith("| 0.700 ± 0.020 | - | - | - |")
    assert second.splitlines()[0].startswith("| tested on 9 workloads |")


def test_a_spec_has_its_gain_over_the_first_one() -> None:
    def line(spec: str, value: float) -> dict[str, Any]:
        figures = {f"{name}{end}": value for name in ("top_1", "top_5", "pairwise") for end in ("", "_se")}
        gains = {f"{name}_gain{end}": 0.01 for name in ("top_1", "top_5", "pairwise") for end in ("", "_se")}
        return {"model": f"gbt {spec}", "base": "gbt tiles@1", "workloads": 1200, **figures, **gains}

    head, _, first, second = feature_specs_table({"summary": [line("tiles@1", 0.7), line("tiles@2", 0.8)]}).splitlines()

    assert head.startswith("| 1,200 workloads, each held out once | top-1 |")
    assert first.endswith("| - | - | - |")
    assert second.startswith("| gbt tiles@2 | 0.800 ± 0.800 |")
    assert second.endswith("| +0.010 ± 0.010 |")


def verified(**more: Any) -> dict[str, Any]:
    """A result of the benchmark `verify-stage`, with two ways of searching and two sizes of pools."""
    taken = {"built": 64.0, "run": 16.0, "build_s": 12.34, "run_s": 1.25, "found_se": 0.01}
    figures = {"top_5": 0.9, "pairwise": 0.8}
    return {
        **{"first": "any-cpu", "programs": 1290, "seeds": 3, "draws": 20, "sizes": {"candidates": 512}},
        "learned": {"device": "acme-2c", "programs": 4960, "workloads": 155},
        "knowledge": {
            **{"workloads": 10, "learned": 0, "devices": ["a", "b", "c"]},
            "splits": {"x": {"train": 0, "test": 10}, "y": {"train": 0, "test": 10}},
        },
        "ways": [
            {"way": "any-cpu", "found": 0.97, "gain": 1.0, "gain_se": 0.0, **taken, "built": 16.0},
            {"way": "any-cpu, then trees", "found": 0.98, "gain": 1.01, "gain_se": 0.004, **taken},
        ],
        "pools": [
            {"size": 32, "model": "any-cpu", "top_1": 0.85, "top_1_se": 0.02, **figures},
            {"size": "all", "model": "any-cpu", "top_1": 0.65, "top_1_se": 0.05, **figures},
        ],
        **more,
    }


def test_a_second_choice_is_shown_with_what_it_builds_and_who_has_learned_what() -> None:
    shown = verify_stage_table(verified())

    assert "| any-cpu | 16 | 16 | 0.970 ± 0.010 | - | 12.3 | 1.2 |" in shown
    assert "| any-cpu, then trees | 64 | 16 | 0.980 ± 0.010 | 1.010 ± 0.004 | 12.3 | 1.2 |" in shown
    assert "any-cpu has learned from none on any of its 3 devices; the split of each of its 2 datasets holds" in shown
    assert "holds out all of them. The trees have learned from 4,960 programs of 155 other workloads" in shown


def test_workloads_that_a_model_has_learned_are_counted() -> None:
    splits = {"x": {"train": 2, "test": 8}, "y": {"train": 0, "test": 10}}
    known = {"workloads": 10, "learned": 2, "devices": ["a"], "splits": splits}

    shown = verify_stage_table(verified(knowledge=known))

    assert "any-cpu has learned from 2 on any of its 1 devices; the split of each of its 2 datasets" in shown
    assert "holds out at least 8 of them" in shown


def test_pools_of_several_sizes_are_columns() -> None:
    first, _, line, *rest = pool_sizes_table(verified()).splitlines()

    assert first == "| top-1 / top-5 / pairwise | 32 programs | all, some 1,290 |"
    assert line == "| any-cpu | 0.850 / 0.900 / 0.800 | 0.650 / 0.900 / 0.800 |"
    assert rest[-1] == "Means over 10 workloads. The standard errors of top-1 are 0.020 to 0.050."


def test_a_table_of_pools_of_one_workload_has_no_errors() -> None:
    pools = [{**line, "top_1_se": None} for line in verified()["pools"]]

    assert pool_sizes_table(verified(pools=pools)).endswith("Means over 10 workloads.")
