"""The benchmark of a second choice after building: who picks what, what that finds, and who has learned what."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner

from costhub.dataset.features.program_key import keys_of_records
from costhub.dataset.folder import DataFolder
from costhub.dataset.programs import Programs
from costhub.dataset.splits.split import load_split
from costhub.hub.catalogue.hubs import EMBEDDED, read_config
from costhub.models.info import ModelInfo
from costhub.testing import made_programs
from scripts.bench.ceilings import verify_stage
from scripts.bench.ceilings.verify_stage import (
    ALL,
    ALL_BUILT,
    ALL_DRAWN,
    BOTH,
    EVERY_SPEC,
    FIRST,
    LEARNED_DATA,
    POOLS,
    RANDOM,
    RECIPES,
    SECOND,
    SPLIT,
    MeasuredPool,
    Sizes,
    knowledge,
    main,
    other_workloads,
    pools_summary,
    ranked,
    recorded_seconds,
    scores_of,
    searched,
    ways,
    ways_summary,
)
from scripts.bench.common.data import DATASETS
from scripts.bench.models.grid import TILES, GridEntry

RNG = np.random.default_rng(0)
LATENCY_S = np.exp(RNG.normal(size=200))
EXACT = -np.log(LATENCY_S)
CODE, CODE_BOTH = f"{FIRST}, then trees on {BOTH}", f"{FIRST}, then the mean rank with trees on {BOTH}"
NO_CODE = f"{FIRST}, then trees on {TILES}"


@pytest.fixture(scope="module")
def dense() -> set[str]:
    """Ids of the densely measured workloads."""
    return set(DataFolder.open(DATASETS / POOLS).workloads(["workload_id"])["workload_id"].to_pylist())


def test_each_way_picks_among_what_it_may_see() -> None:
    drawn = np.array([9, 7, 5, 3, 1, 0, 2, 4])
    first, second = -np.arange(10.0), np.arange(10.0)  # the second model likes 9 best, which is not built

    found = ways(first, {TILES: second, BOTH: second}, drawn, Sizes(8, 4, 2))

    assert {way: (choice.run.tolist(), choice.built.tolist()) for way, choice in found.items()} == {
        RANDOM: ([9, 7], [9, 7]),
        FIRST: ([0, 1], [0, 1]),
        NO_CODE: ([3, 2], [3, 2]),
        f"{FIRST}, then the mean rank with trees on {TILES}": ([0, 1], [0, 1]),  # equal ranks: as the first has them
        CODE: ([3, 2], [0, 1, 2, 3]),
        CODE_BOTH: ([0, 1], [0, 1, 2, 3]),
        ALL_BUILT: ([0, 1, 2, 3], [0, 1, 2, 3]),
        ALL_DRAWN: (drawn.tolist(), drawn.tolist()),
    }


def test_a_second_model_without_errors_finds_the_best_of_what_is_built_with_few_runs() -> None:
    place = np.argsort(np.argsort(LATENCY_S))  # 0 is the fastest
    first, seconds = -np.abs(place - 30.0), np.tile([2.0, 3.0], (200, 1))  # it takes the 30th for the best

    found = searched(LATENCY_S, seconds, first, {BOTH: EXACT}, Sizes(100, 20, 5), np.random.default_rng(0))

    assert found[CODE]["log_found"] == found[ALL_BUILT]["log_found"]
    assert found[FIRST]["log_found"] < found[CODE]["log_found"]
    assert found[CODE]["log_found"] < found[ALL_DRAWN]["log_found"] <= 0.0
    assert [found[CODE][key] for key in ("built", "run", "build_s", "run_s")] == [20, 5, 40.0, 15.0]
    assert [found[ALL_BUILT][key] for key in ("built", "run", "build_s", "run_s")] == [20, 20, 40.0, 60.0]


def test_random_choice_falls_with_the_size_of_a_pool_and_an_exact_order_does_not() -> None:
    rows = list(ranked(LATENCY_S, {"exact": EXACT, RANDOM: np.zeros(200)}, np.random.default_rng(0)))
    figures = {(row["model"], row["size"]): row for row in rows}

    assert [row["size"] for row in rows if row["model"] == RANDOM] == [32, 128, ALL]
    for size in (32, 128, ALL):
        assert [figures["exact", size][metric] for metric in ("top_1", "top_5", "pairwise")] == [1.0, 1.0, 1.0]
        assert figures[RANDOM, size]["pairwise"] == 0.5
    assert figures[RANDOM, 32]["top_1"] > max(figures[RANDOM, size]["top_1"] for size in (128, ALL))
    assert figures[RANDOM, ALL]["top_1"] == pytest.approx(float(np.mean(LATENCY_S.min() / LATENCY_S)))


def test_a_small_pool_is_ranked_whole() -> None:
    rows = list(ranked(LATENCY_S[:20], {"exact": EXACT[:20]}, np.random.default_rng(0)))

    assert [row["size"] for row in rows] == [ALL]


def test_trees_without_the_code_do_not_see_it() -> None:
    train, pool = (made_programs(EVERY_SPEC, workloads=3, each=24, seed=seed) for seed in (0, 1))
    rows = pool.rows.copy()
    rows[rows[:, 0] == 1, 1:] = 9.0  # the second part: that of compiled code
    changed = replace(pool, rows=rows)
    without, with_code = (GridEntry("gbt", spec, "log", {"rounds": 30}) for spec in (TILES, BOTH))

    assert np.array_equal(scores_of(without, train, pool, 0), scores_of(without, train, changed, 0))
    assert not np.array_equal(scores_of(with_code, train, pool, 0), scores_of(with_code, train, changed, 0))


def test_seconds_are_those_of_each_program(tmp_path: Path) -> None:
    folder = DataFolder.create(tmp_path / "data")
    about = {"name": "a", "operator": "matmul", "shapes": "[[8,8]]", "dtypes": ["float32"], "flop": 1.0, "bytes": 1.0}
    folder.put_workloads([{"workload_id": "w", **about, "module_json": "{}", "networks": []}])
    recorded = {"one": (1.0, 0.1), "two": (2.0, 0.2), "failed": (3.0, None)}
    with folder.writer("acme") as writer:
        for name, (build_s, run_s) in recorded.items():
            outcome = {"status": "ok", "run_s": [1e-3]} if run_s else {"status": "run_error", "run_s": []}
            ids = {"record_id": name, "program_id": name, "workload_id": "w", "device_id": "acme"}
            what = {"target": '{"kind":"llvm"}', "trace": json.dumps([[[name, [], [], []]], []])}
            writer.append({**ids, **what, **outcome, "proposed_by": "random", "build_s": build_s, "run_wall_s": run_s})
    keys = keys_of_records(folder, "acme")

    assert recorded_seconds(folder.path, "acme", [keys["two"], keys["one"]]).tolist() == [[2.0, 0.2], [1.0, 0.1]]
    with pytest.raises(click.ClickException, match="builds and runs of 1 of 2 programs"):
        recorded_seconds(folder.path, "acme", [keys["one"], keys["failed"]])


def test_no_workload_of_the_pools_is_learned_from(dense: set[str]) -> None:
    folder = DATASETS / LEARNED_DATA
    found = other_workloads(folder, dense)
    one = min(found)

    assert len(found) > 100
    assert found <= set(load_split(folder, SPLIT).train)
    assert not found & dense
    assert other_workloads(folder, {one}) == found - {one}, "also where the split would let it be learned"


def test_what_the_shipped_model_has_learned_is_told_by_its_record_and_by_the_splits(dense: set[str]) -> None:
    config = read_config(EMBEDDED / "models/costhub/any-cpu-conditioned")
    info = ModelInfo.from_config(config, path="any-cpu-conditioned")
    found = knowledge(info, dense)

    assert (found["learned"], found["workloads"]) == (0, len(dense))
    assert len(found["splits"]) == len(info.datasets)
    assert {tuple(side.items()) for side in found["splits"].values()} == {(("train", 0), ("test", len(dense)))}

    known = min(set(info.train_workloads) & set(load_split(DATASETS / LEARNED_DATA, SPLIT).train))
    more = knowledge(info, {*dense, known})
    assert (more["learned"], more["splits"][LEARNED_DATA]["train"]) == (1, 1)


def row(workload: str, seed: int, first: float, code: float, top_1: float) -> dict[str, Any]:
    """A row of two ways, whose finds are given as optimum / best found."""
    taken = {"built": 4.0, "run": 2.0, "build_s": 1.0 + seed, "run_s": 0.5}
    finds = {FIRST: first, CODE: code}
    pools = [{"size": size, "model": FIRST, "top_1": top_1 / (1 + number)} for number, size in enumerate((32, ALL))]
    return {
        **{"workload": workload, "seed": seed},
        "ways": {way: {"log_found": math.log(found), **taken} for way, found in finds.items()},
        "pools": [{**line, "top_5": 1.0, "pairwise": 0.5} for line in pools],
    }


def test_finds_are_geometric_means_and_gains_are_over_the_same_workloads() -> None:
    rows = [row("a", 0, 0.5, 1.0, 0.6), row("a", 1, 0.5, 0.25, 0.8)]
    rows += [row("b", 0, 0.4, 0.4, 1.0), row("b", 1, 0.9, 0.9, 1.0)]

    first, code = ways_summary(rows)

    assert (first["way"], first["gain"], first["gain_se"]) == (FIRST, 1.0, 0.0)
    assert first["found"] == pytest.approx((0.5 * 0.6) ** 0.5)
    assert first["found_se"] == pytest.approx(abs(math.log(0.5 / 0.6)) / 2)
    assert (code["found"], code["gain"]) == pytest.approx(((0.5 * 0.6) ** 0.5, 1.0))  # 1 and 1/4 are 1/2 in the mean
    assert [code[key] for key in ("built", "run", "build_s", "run_s", "seconds")] == [4, 2, 1.5, 0.5, 2.0]
    assert code["by_workload"] == pytest.approx({"a": 0.5, "b": 0.6})


def test_a_gain_on_one_of_two_workloads_has_an_error() -> None:
    _, code = ways_summary([row("a", 0, 0.5, 0.5, 1.0), row("b", 0, 0.2, 0.8, 1.0)])

    assert code["gain"] == pytest.approx(2.0)
    assert code["gain_se"] == pytest.approx(math.log(4.0) / 2)


def test_metrics_of_pools_are_means_over_workloads_of_those_over_seeds() -> None:
    rows = [row("a", 0, 0.5, 0.5, 0.6), row("a", 1, 0.5, 0.5, 0.8), row("b", 0, 0.5, 0.5, 1.0)]

    few, whole = pools_summary(rows)

    assert (few["size"], whole["size"]) == (32, ALL)
    assert (few["top_1"], few["top_1_se"]) == pytest.approx((0.85, 0.15))
    assert (whole["top_1"], whole["pairwise"]) == pytest.approx((0.425, 0.5))


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int]]:
    """Has the benchmark choose among made programs; returns what it trains: model, features and seed."""
    pool = made_programs(EVERY_SPEC, workloads=2, each=48, seed=0)
    pool = replace(pool, device_ids=("intel-xeon-emeraldrapids-2c-avx2",))
    asked: list[tuple[str, str, int]] = []

    def scored(entry: GridEntry, train: Programs, programs: Programs, seed: int) -> Any:
        asked.append((entry.model, entry.spec, seed))
        return np.random.default_rng(len(entry.label) + seed).normal(size=programs.n)

    def others(*_: Any, **__: Any) -> Programs:
        return made_programs(EVERY_SPEC, workloads=3, each=8, seed=1)

    measured = MeasuredPool(pool, np.tile([2.0, 3.0], (pool.n, 1)))
    monkeypatch.setattr(MeasuredPool, "load", lambda *_, **__: measured)
    monkeypatch.setattr(verify_stage, "other_programs", others)
    monkeypatch.setattr(verify_stage, "scores_of", scored)
    return asked


def test_an_interrupted_run_goes_on_with_the_workloads_that_are_missing(
    trained: list[tuple[str, str, int]], tmp_path: Path
) -> None:
    path, kept = tmp_path / "verify_stage.json", tmp_path / "rows.jsonl"
    results = []
    for each in range(3):
        if each == 2:
            kept.write_text(kept.read_text().splitlines()[0] + "\n")
        done = CliRunner().invoke(main, ["--quick", "--rows", str(kept), "--json", str(path)], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        results.append(json.loads(path.read_text(encoding="utf-8")))

    once = [(entry.model, entry.spec, 0) for entry in (*SECOND, *RECIPES)]
    assert trained == [*once, *once], "nothing in the second run, and all again for the row that was lost"
    assert len(kept.read_text().splitlines()) == 2
    first, again, after_loss = ({key: result[key] for key in ("ways", "pools", "seeds")} for result in results)
    assert first == again == after_loss


def test_the_result_says_what_was_built_run_and_learned(trained: list[tuple[str, str, int]], tmp_path: Path) -> None:
    path = tmp_path / "verify_stage.json"

    done = CliRunner().invoke(main, ["--quick", "--json", str(path)], catch_exceptions=False)

    result = json.loads(path.read_text(encoding="utf-8"))
    built = {line["way"]: (line["built"], line["run"]) for line in result["ways"]}
    assert [built[way] for way in (RANDOM, FIRST, NO_CODE, CODE)] == [(4, 4), (4, 4), (4, 4), (16, 4)]
    assert [built[way] for way in (CODE_BOTH, ALL_BUILT, ALL_DRAWN)] == [(16, 4), (16, 16), (32, 32)]
    assert result["learned"] == {"device": "intel-xeon-emeraldrapids-2c", "programs": 24, "workloads": 3}
    assert (result["first"], result["knowledge"]["learned"], result["seeds"]) == (FIRST, 0, 1)
    assert {line["size"] for line in result["pools"]} == {32, ALL}
    assert f"| {CODE} | 16 | 4 |" in done.output
    assert "TenSet recipe" in done.output


@pytest.mark.slow  # the features, for which programs are built
def test_the_quick_form_builds_what_it_looks_at(tmp_path: Path) -> None:
    path = tmp_path / "verify_stage.json"

    done = CliRunner().invoke(main, ["--quick", "--json", str(path)], catch_exceptions=False)

    assert done.exit_code == 0, done.output
    result = json.loads(path.read_text(encoding="utf-8"))
    found = {line["way"]: line["found"] for line in result["ways"]}
    assert len(found) == 8
    assert all(0.0 < each <= found[ALL_DRAWN] <= 1.0 for each in found.values())
    assert found[CODE] <= found[ALL_BUILT]
    assert all(line["build_s"] > 0 < line["run_s"] for line in result["ways"])
    assert (result["knowledge"]["learned"], result["knowledge"]["workloads"]) == (0, 2)
