"""The comparison of device layouts: who learns from whom, and what is summed up of incomplete runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from costhub.dataset.folder import DataFolder
from costhub.dataset.programs import Programs
from costhub.models.compound.conditioned import Conditioned, ConditionedOptions
from costhub.models.compound.device_vector import LAYOUTS
from costhub.models.trees.gbt import Gbt, GbtOptions
from scripts.bench.common.data import DATASETS, folds
from scripts.bench.common.rows import RowFile
from scripts.bench.transfer import device_vector
from scripts.bench.transfer.device_vector import ALL, FEWER, KEY, rows_of, summaries, told_numbers
from scripts.bench.transfer.tasks import GPUS, PARTS
from scripts.tables.transfer import METRICS

ONE, OTHER = GPUS[:2]


def programs(device: str) -> Programs:
    """Some of each workload of a GPU; their latency depends on the first column alone."""
    ids = tuple(DataFolder.open(DATASETS / device).workloads(["workload_id"])["workload_id"].to_pylist())
    workload = np.repeat(np.arange(len(ids)), FEWER + 1)
    rows = np.random.default_rng(0).normal(size=(len(workload), 2)).astype(np.float32)
    latency_s = np.exp(rows[:, 0]).astype(float)
    return Programs(rows, np.ones(len(rows), np.int64), workload, ids, latency_s, "demo@1", device_ids=(device,))


def about(device: str) -> list[dict[str, Any]]:
    table = DataFolder.open(DATASETS / device).workloads(["workload_id", "name", "operator"])
    return [dict(row) for row in table.to_pylist()]


class Learned:
    """Stands in for training, and keeps what was to be learned from."""

    def __init__(self) -> None:
        self.asked: list[tuple[Programs, str, int]] = []

    def __call__(self, train: Programs, layout: str, rows: Mapping[str, Mapping[str, Any]], seed: int) -> Conditioned:
        self.asked.append((train, layout, seed))
        base = Gbt(feature_spec="demo@1", options=GbtOptions(rounds=5))
        options = ConditionedOptions(device_layout=layout)
        model = Conditioned(feature_spec="demo@1", options=options, devices=rows, base=base)
        model.fit(train, None, seed=seed, progress=False)
        return model


@pytest.fixture
def learned(monkeypatch: pytest.MonkeyPatch) -> Learned:
    learned = Learned()
    monkeypatch.setattr(device_vector, "told", learned)
    return learned


def row(target: str, seed: int, layout: str, **more: float) -> dict[str, Any]:
    return {"target": target, "seed": seed, "each": FEWER, "layout": layout, **dict.fromkeys(METRICS, 0.5), **more}


def test_both_layouts_learn_the_same_of_the_other_gpus_and_nothing_that_is_tested(learned: Learned) -> None:
    pools, kept = {name: programs(name) for name in (ONE, OTHER)}, RowFile(None, KEY)

    rows = list(rows_of(pools, about(ONE), ONE, 1, FEWER, kept))

    assert [kept.key_of(each) for each in rows] == [(ONE, 1, FEWER, layout) for layout in LAYOUTS]
    assert all(each["pairwise"] > 0.8 for each in rows)
    (first, *_), (second, *_) = learned.asked
    np.testing.assert_array_equal(first.rows, second.rows)
    assert set(first.device_ids) == {OTHER}
    used = {first.workload_ids[number] for number in np.unique(first.workload)}
    held_out = set(folds(about(ONE), PARTS, 1)[0].test)
    assert not used & held_out
    assert set(np.unique(np.bincount(first.workload))) - {0} == {FEWER}

    kept.add(rows[0])
    assert [each["layout"] for each in rows_of(pools, about(ONE), ONE, 1, FEWER, kept)] == ["device@2"]


def test_gains_are_means_of_differences_and_seeds_count_that_both_layouts_have() -> None:
    rows = [row(target, seed, layout) for target in (ONE, OTHER) for seed in (0, 1) for layout in LAYOUTS]
    for each in rows:
        if each["layout"] == "device@2" and each["target"] == ONE:
            each["pairwise"] = 0.6 if each["seed"] else 0.7
    rows += [row(ONE, 2, "device@1"), row(ONE, 2, "device@2", pairwise=0.8), row(OTHER, 2, "device@1", pairwise=0.1)]

    lines = {(line["target"], line["layout"]): line for line in summaries(rows)}

    assert [*lines] == [(place, layout) for place in (ONE, OTHER, ALL) for layout in LAYOUTS]
    assert [lines[place, "device@2"]["seeds"] for place in (ONE, OTHER, ALL)] == [3, 2, 3]
    assert lines[ONE, "device@2"]["pairwise_gain"] == pytest.approx(0.2)
    assert lines[ONE, "device@2"]["pairwise_gain_se"] == pytest.approx(0.1 / 3**0.5)
    assert lines[ALL, "device@2"]["pairwise"] == pytest.approx(0.6)
    assert lines[ALL, "device@2"]["pairwise_gain"] == pytest.approx(0.1)
    assert lines[ALL, "device@2"]["pairwise_gain_se"] == pytest.approx(0.1)  # over two GPUs: 0.2 and 0
    assert lines[ALL, "device@1"]["pairwise_gain"] == lines[ALL, "device@2"]["top_1_gain"] == 0.0
    assert summaries(rows[:1]) == summaries([]) == []


def test_the_numbers_are_those_of_the_targets() -> None:
    k80, mi50 = told_numbers(["nvidia-k80", "amd-mi50"])

    assert (k80["device"], k80["thread_warp_size"], k80["max_shared_memory_per_block"]) == ("nvidia-k80", 32, 48 << 10)
    assert (mi50["thread_warp_size"], mi50["max_threads_per_block"]) == (64, 1024)


def test_the_quick_form_tells_one_model_of_one_gpu_and_rows_that_are_kept_are_only_summed_up(
    learned: Learned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Sequence[str]] = []

    def without_features(names: Sequence[str]) -> dict[str, Programs]:
        read.append(names)
        return {name: programs(name) for name in names}

    monkeypatch.setattr(device_vector, "gpu_programs", without_features)
    words = ["--quick", "--rows", str(tmp_path / "rows.jsonl"), "--json", str(tmp_path / "device_vector.json")]

    for _ in range(2):
        CliRunner().invoke(device_vector.main, words, catch_exceptions=False)

    assert read == [(GPUS[0], GPUS[-1])]
    assert [asked[1:] for asked in learned.asked] == [("device@1", 0), ("device@2", 0)]
    result = json.loads((tmp_path / "device_vector.json").read_text(encoding="utf-8"))
    assert [each["device"] for each in result["numbers"]] == [GPUS[0], GPUS[-1]]
    assert [line["target"] for line in result["summary"]] == [GPUS[-1], GPUS[-1], ALL, ALL]
