"""Tables of the collector's benchmarks show the figures of their files."""

from __future__ import annotations

from scripts.tables.collecting import (
    active_learning_table,
    boards_table,
    collection_table,
    collector_table,
    dense_collection_table,
    kill_table,
    kills_table,
    noise_table,
    probe_table,
    torture_table,
)


def test_rates_are_told_as_multiples_of_stock_with_its_own_batch() -> None:
    rows = [
        {"collector": c, "batch": b, "good": 9, "good_per_s": r, **({"floor_share": 0.5} if b == 256 else {})}
        for c, b, r in (("costhub", 256, 8.0), ("stock", 16, 1.0), ("stock", 64, 2.0))
    ]
    shown = collector_table({"rows": rows, "batch": 64, "candidates": 9})
    assert "| costhub | 256 | 9 | 8.00 | 4.0 | 50 |" in shown
    assert "| TVM's LocalBuilder + LocalRunner | 16 | 9 | 1.00 | 0.5 | - |" in shown


def test_stages_are_shares_of_the_time_of_all_cores() -> None:
    seconds = {
        "llvm": 10.0,
        "run": 8.0,
        "lower": 1.0,
        "sample": 1.0,
        "link": 0.0,
        "reference": 0.0,
        "other": 0.0,
    }
    profile = {"cores": 2, "wall_s": 10.0, "good_per_s": 7.0, "floor_share": 0.9, "core_seconds": seconds}
    shown = collection_table({"rows": [{"devices": ["a", "b"], "good": 70, "failed": 1, "profile": profile}]})
    assert "| a and b | 70 | 1 | 7.0 | 90 | 50.0 | 40.0 | 5.0 | 5.0 | 0.0 | 0.0 | 0.0 |" in shown
    one = {"devices": ["a", "b"], "good": 70, "failed": 1, "profile": profile}
    assert dense_collection_table({"pools": [], "collection": one}) == shown


def test_results_in_which_waits_and_repeats_are_part_of_the_reference_kernel_have_gaps_there() -> None:
    older = dict.fromkeys(("llvm", "run", "lower", "sample", "link", "reference", "other"), 2.0)
    newer = {**older, "reference": 1.0, "wait": 0.6, "repeat": 0.4}
    shared = {"cores": 2, "wall_s": 10.0, "good_per_s": 7.0, "floor_share": 0.9}
    rows = [
        {"devices": ["d"], "good": 1, "failed": 0, "profile": {**shared, "core_seconds": each}}
        for each in (older, newer)
    ]

    shown = collection_table({"rows": rows})

    assert "| link % | reference % | wait % | repeat % | other % |" in shown
    assert "| 10.0 | 10.0 | - | - | 10.0 |" in shown
    assert "| 10.0 | 5.0 | 3.0 | 2.0 | 10.0 |" in shown
    assert "| link % | reference % | other % |" in collection_table({"rows": rows[:1]})


def test_noise_is_told_in_per_cent() -> None:
    row = {"device": "d", "programs": 10, "median_gap": 0.005, "p90_gap": 0.02, "spearman": 0.999}
    shown = noise_table({"rows": [{**row, "best_changed": 0.25, "mean_regret": 0.001}]})
    assert "| d | 10 | 0.50 | 2.0 | 0.9990 | 25 | 0.10 |" in shown


def test_a_figure_that_was_not_taken_is_a_gap_in_the_table() -> None:
    row = {"device_id": "d", "peak_gflops": 277.0, "probe_s": 20.0}
    assert "| d | 277 |" in probe_table({"probe": [row]})


def test_what_was_planted_and_killed_is_counted() -> None:
    end = {"zombies": 0, "children": 0, "files": 0}
    shown = torture_table({"planned": {"good": 5, "segfault": 2}, "as_expected": {"good": 5}, "at_the_end": end})
    assert "| segfault | 2 | 0 |" in shown
    assert "0 zombies" in shown
    found = {"killed": {"collector": 3}, "acknowledged": 1234, "lost": 1, "doubled": 0, "orphans": ["x"]}
    shown = kill_table({**found, "temporary_files_left": 0, "check_rules": {"CH040": 2}})
    assert "| collector | 3 |" in shown
    assert "1,234 rows acknowledged: 1 lost, 0 doubled; 1 orphans" in shown
    assert "CH040 2 times" in shown


def test_boards_are_compared_with_one_of_them() -> None:
    row = {"title": "4 servers", "good": 48, "programs": 48, "share": {"a": 40, "b": 8}}
    shown = boards_table({"rows": [{**row, "good_per_s": 6.0, "ratio_to_one": 2.9}], "note": "A note."})
    assert "| 4 servers | 48 | 48 | 2 | 6.0 | 2.9 |" in shown
    assert shown.endswith("A note.")


def test_what_came_of_killed_commands_is_counted() -> None:
    row = {"verb": "doctor", "seconds": 61.0, "killed": {"parent": 20, "child": 30}, "ended_before": 4, "doubled": 0}
    row |= {"orphans": [], "tracebacks": ["x"], "different": [], "left": ["a", "b"]}

    shown = kills_table({"rows": [row, {**row, "verb": "adapt", "killed": {"parent": 50}}]})

    assert "| `costhub doctor --fix` | 61 | 20 | 30 | 4 | 0 | 0 | 1 | 0 | 2 |" in shown
    assert "| `costhub adapt` | 61 | 50 | 0 |" in shown


def test_what_a_choice_saves_is_told_with_its_bounds() -> None:
    figures = {"top_1": 0.7, "top_1_se": 0.03, "top_5": 0.9, "top_5_se": 0.02, "pairwise": 0.8, "pairwise_se": 0.01}
    counted = {f"{metric}_{name}": 1500.4 for metric in ("top_1", "pairwise") for name in ("equal", "low", "high")}
    about = {"device": "d", "model": "gbt", **figures}
    gains = {"pairwise_gain": -0.012, "pairwise_gain_se": 0.004, "pairwise_saved": 1 / 3, **counted}
    chosen = {**about, "share": 0.25, "programs": 1000.0, **gains}
    rows = [{**about, "strategy": "at random", "share": share, "programs": 4000 * share} for share in (0.25, 1.0)]
    rows += [{**chosen, "strategy": "one"}, {**chosen, "strategy": "many", "top_1_equal": 4000.0}]
    rows += [{**chosen, "strategy": "few", "pairwise_equal": 1000.0, "pairwise_saved": 0.0}]
    pool = {"device": "d", "pool_programs": 4000.0, "pool_workloads": 155.0, "learned_programs": 20000.0}
    pool |= {"learned_devices": 8.0, "shared": 0.12, "chooser_pairwise": 0.8123}
    whole = {"seeds": 3, "workloads": 40, "level": 0.9, "resamples": 1000, "random": "at random"}

    shown = active_learning_table({**whole, "pools": [pool], "summary": rows})

    level = "0.700 ± 0.030 | 0.900 ± 0.020 | 0.800 ± 0.010"
    lost, near = "-0.012 ± 0.004", "1,500 (1,500 to 1,500)"
    assert f"| at random | 100% | 4,000 | {level} | - | - | - | - |" in shown
    assert f"| one | 25% | 1,000 | {level} | {lost} | {near} | {near} | 33% |" in shown
    assert f"| few | 25% | 1,000 | {level} | {lost} | ≤ 1,000 (1,500 to 1,500) | {near} | ≤ 0% |" in shown
    assert f"| many | 25% | 1,000 | {level} | {lost} | {near} | ≥ 4,000 (1,500 to 1,500) | 33% |" in shown
    assert "20,000 programs of these workloads on 8 devices of other chips, where 12% of the pool" in shown
    assert "on 40 held-out workloads" in shown
