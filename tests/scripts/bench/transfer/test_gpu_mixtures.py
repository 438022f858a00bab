"""Mixtures of GPUs: what is scored on each fifth, and what is summed up of incomplete runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from costhub.dataset.folder import DataFolder
from costhub.dataset.programs import Programs
from costhub.models.architectures import new_model
from costhub.models.protocol import CostModel, Scores
from scripts.bench.common.data import DATASETS
from scripts.bench.common.rows import RowFile
from scripts.bench.transfer import gpu_mixtures
from scripts.bench.transfer.gpu_mixtures import FOLDS, FORMS, TargetData, rows_of, summaries
from scripts.bench.transfer.tasks import GPUS
from scripts.tables.transfer import METRICS

TARGET = GPUS[-1]
FIRST, SECOND, *_ = FORMS
KEY = ("target", "seed", "fold", "form")


def programs() -> Programs:
    """Four of each workload of the target; their latency depends on the first column alone."""
    ids = tuple(DataFolder.open(DATASETS / TARGET).workloads(["workload_id"])["workload_id"].to_pylist())
    rows = np.random.default_rng(0).normal(size=(4 * len(ids), 2)).astype(np.float32)
    workload = np.repeat(np.arange(len(ids)), 4)
    return Programs(rows, np.ones(len(rows), np.int64), workload, ids, np.exp(rows[:, 0]).astype(float), "demo@1")


def by_latency(data: TargetData) -> tuple[Scores, int]:
    return -data.test.rows[:, 0].astype(float), data.own.n


def row(form: str, seed: int, fold: int, **more: Any) -> dict[str, Any]:
    about = {"form": form, "seed": seed, "fold": fold, "workloads": 10, "programs": 100}
    return {**about, **dict.fromkeys(METRICS, 0.5), **more}


def test_every_workload_is_held_out_once_and_what_is_kept_is_not_done_again() -> None:
    pool, kept = programs(), RowFile(None, KEY)

    rows = list(rows_of({TARGET: pool}, TARGET, 0, kept, {FIRST: by_latency}))

    assert [each["fold"] for each in rows] == list(range(FOLDS))
    assert sum(each["workloads"] for each in rows) == len(pool.workload_ids)
    assert all(each["programs"] == pool.n - 4 * each["workloads"] for each in rows)
    assert {each["pairwise"] for each in rows} == {1.0}
    kept.add(*rows[1:])
    assert [each["fold"] for each in rows_of({TARGET: pool}, TARGET, 0, kept, {FIRST: by_latency})] == [0]


def test_only_seeds_with_all_fifths_are_summed_up() -> None:
    rows = [row(FIRST, seed, fold, top_1=0.25 * seed) for seed in (1, 2) for fold in range(FOLDS)]
    rows += [row(FIRST, 3, 0, top_1=0.0, programs=9), row(SECOND, 1, 0)]

    (line,) = summaries(rows)

    assert (line["form"], line["seeds"], line["programs"]) == (FIRST, 2, 100)
    assert line["top_1"] == pytest.approx(0.375)
    assert line["top_1_se"] == pytest.approx(0.125)
    assert summaries([]) == summaries(rows[:3]) == []


def test_a_fifth_counts_by_its_workloads() -> None:
    rows = [row(FIRST, 0, fold, pairwise=0.9 if fold else 0.4, workloads=1 if fold else 6) for fold in range(FOLDS)]

    (line,) = summaries(rows)

    assert line["pairwise"] == pytest.approx((4 * 0.9 + 6 * 0.4) / 10)
    assert line["pairwise_se"] is None


def test_the_quick_form_sums_up_one_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def without_features(names: Sequence[str]) -> dict[str, Programs]:
        asked.append(tuple(names))
        return {name: programs() for name in names}

    def few_trees(some: Programs, seed: int) -> CostModel:
        model = new_model("gbt", feature_spec="demo@1", options={"objective": "log", "rounds": 20})
        model.fit(some, None, seed=seed, progress=False)
        return model

    monkeypatch.setattr(gpu_mixtures, "gpu_programs", without_features)
    monkeypatch.setattr(gpu_mixtures, "fitted", few_trees)
    path = tmp_path / "gpu_mixtures.json"

    done = CliRunner().invoke(gpu_mixtures.main, ["--quick", "--json", str(path)], catch_exceptions=False)

    assert done.exit_code == 0
    assert asked == [(TARGET,)]
    (line,) = json.loads(path.read_text(encoding="utf-8"))["summary"]
    assert (line["form"], line["seeds"]) == (FIRST, 1)
    assert line["pairwise"] > 0.8
