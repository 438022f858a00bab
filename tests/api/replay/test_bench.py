"""`costhub.bench_search`: strategies and models by name, from a file and as objects, against measured workloads."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from costhub.api.replay import bench
from costhub.api.replay.bench import SUITE, BenchOptions, bench_search
from costhub.dataset.splits.split import Split, find_split, save_split
from costhub.errors import ArgumentError, CosthubError, ModelError
from costhub.hub.catalogue.hubs import list_models
from costhub.hub.data import find_data
from costhub.models.own_code import imported
from costhub.search.replay.judge import ReplaySettings
from costhub.search.replay.strategies import GeneticOrder
from costhub.search.replay.workloads import densest_workloads

MINE = """
import numpy as np

from costhub.search.replay.strategies import RandomOrder

class Mine(RandomOrder):
    def ask(self, count):
        assert len(self.task.features) == self.task.n and self.task.features[0].shape[1] > 1
        return self.rest[::-1][:count]

class Model:
    def predict(self, rows, counts):
        return np.add.reduceat(rows[:, 0], np.cumsum(counts) - counts)

NUMBER = 3
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def options(folder: Path, **changed: Any) -> BenchOptions:
    return BenchOptions(**{"data": folder, "settings": ReplaySettings(batch=3, seeds=2), **changed})


def test_the_models_shipped_for_a_device_have_not_learned_from_its_workloads() -> None:
    configs = {entry.name: json.loads((entry.folder / "config.json").read_text()) for entry in list_models()}
    for device, split in SUITE.items():
        test = set(find_split(find_data(device).path, split).test)
        learned = {
            name
            for name, config in configs.items()
            if device in (config.get("train_devices") or [config["device_id"]])
            and not test.isdisjoint(config["train_workloads"])
        }
        assert len(test) >= 10
        # The models of the H200 have learned from nearly all of the A100, and are refused there.
        assert learned == (
            {f"costhub/nvidia-h200-{arch}" for arch in ("mlp", "gbt", "blend")} if "a100" in device else set()
        )


def test_a_model_that_has_learned_from_the_workloads_is_refused() -> None:
    new = BenchOptions(devices=("nvidia-a100",), settings=ReplaySettings(seeds=1))

    with pytest.raises(ArgumentError, match=r"costhub/nvidia-h200-gbt has learned from \d+ of these 10 workloads"):
        bench_search("model", "costhub/nvidia-h200-gbt", options=new, progress=False)


def test_a_model_that_is_wrong_for_one_device_is_refused_before_any_is_played(monkeypatch: pytest.MonkeyPatch) -> None:
    def played(*arguments: Any, **named: Any) -> None:
        raise AssertionError("a device was played")

    monkeypatch.setattr("costhub.api.replay.bench.load_replay", played)

    with pytest.raises(ModelError, match="None of the devices"):
        bench_search("model", "any-gpu", progress=False)


def test_a_model_that_knows_the_last_device_is_refused_before_the_first_is_played(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def played(*arguments: Any, **named: Any) -> None:
        raise AssertionError("a device was played")

    monkeypatch.setattr("costhub.api.replay.bench.load_replay", played)
    options = BenchOptions(devices=("nvidia-v100", "nvidia-a100"))

    with pytest.raises(ArgumentError, match="costhub/nvidia-h200-gbt has learned from"):
        bench_search("model", "costhub/nvidia-h200-gbt", options=options, progress=False)


def test_a_strategy_of_a_file_sees_features_and_is_scored(data: Path, mine: Path) -> None:
    found = bench_search(f"{mine}:Mine", None, options=options(data), progress=False)

    assert (found.strategy, found.model, found.method) == ("Mine", "", "")
    assert len(found.scores) == 6
    assert found.scores == bench_search(imported(f"{mine}:Mine"), None, options=options(data), progress=False).scores


def test_a_model_of_a_file_only_predicts_and_stays_frozen(data: Path, mine: Path) -> None:
    found = bench_search("model", f"{mine}:Model", options=options(data, method="brief"), progress=False)

    assert (found.model, found.method) == ("Model", "frozen")


def test_a_trained_model_is_played_where_it_has_not_learned(data: Path, model: Path) -> None:
    save_split(Split("two", (), ("id-conv2d0", "id-matmul0"), 0), data.parent / "two.json")
    new = options(data, split=str(data.parent / "two.json"), method="brief")

    found = bench_search("model", str(model), options=new, progress=False)

    assert sorted(s.name for s in found.scores) == ["conv2d0", "matmul0"]
    assert found.method == "brief"
    with pytest.raises(ArgumentError, match=r"has learned from 4 of these 6 workloads \(on acme-one\)"):
        bench_search("model", str(model), options=options(data), progress=False)
    assert len(bench_search("model", str(model), options=options(data, every=True), progress=False).scores) == 6


def test_a_model_that_knows_the_workloads_from_another_device_is_refused_too(data: Path) -> None:
    own = options(data)
    (device,) = bench._devices(own)
    chosen = sorted(densest_workloads(data, device, count=own.workloads))
    info = SimpleNamespace(train_workloads=("a", chosen[0]), device_ids=("acme-two",))

    with pytest.raises(ArgumentError, match=rf"has learned from 1 of these {len(chosen)} workloads \(on acme-two\)"):
        bench._check_unknown(SimpleNamespace(info=info, name="mine"), device, own)
    bench._check_unknown(SimpleNamespace(info=SimpleNamespace(train_workloads=("a",))), device, own)


def test_costhubs_searches_without_a_model_need_no_features(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **named: Any) -> None:
        raise AssertionError("features were computed")

    monkeypatch.setattr("costhub.dataset.blocks.ProgramBlock.with_features", refuse)

    for name in ("random", "genetic", "nearest"):
        assert len(bench_search(name, options=options(data, workloads=2), progress=False).scores) == 2


def test_the_files_of_t4_hold_every_search(data: Path, tmp_path: Path) -> None:
    bench_search("random", options=options(data, workloads=2, t4=tmp_path / "t4"), progress=False)

    assert len(list((tmp_path / "t4").glob("acme-one-*-seed[01].json"))) == 4


@pytest.mark.parametrize(
    ("strategy", "model", "changed", "match"),
    [
        ("genetics", None, {}, "Did you mean genetic"),
        ("model", None, {}, "needs a model"),
        ("nowhere.py:Mine", None, {}, "There is no file nowhere.py"),
        ("nowhere_at_all:Mine", None, {}, "nowhere_at_all:Mine cannot be imported"),
        ("math:nothing", None, {}, "math has nothing named nothing"),
        ("model", "math:pi", {}, "no method `predict"),
        ("mine.py", None, {}, r"mine\.py names a Python file alone: name what it defines as well, mine\.py:NAME\."),
        ("model", "mine.py", {}, r"mine\.py names a Python file alone"),
        ("genetic", "nvidia-h200", {}, "genetic reads only the decisions of programs, so a model would have no effect"),
        ("random", None, {"devices": ("a", "b")}, "name one device"),
        (
            "random",
            None,
            {"data": None, "devices": ("acme-one",)},
            "no workloads of acme-one; it has those of nvidia-v100",
        ),
        ("random", None, {"data": None, "split": "x"}, "name them with --data"),
        ("random", None, {"method": "briefly"}, "no method named 'briefly'"),
        ("random", None, {"data": "nowhere"}, "no data folder, dataset or device named 'nowhere'"),
    ],
)
def test_what_cannot_be_played_is_a_sentence(
    strategy: str, model: str | None, changed: dict[str, Any], match: str, data: Path
) -> None:
    with pytest.raises(CosthubError, match=match):
        bench_search(strategy, model, options=options(data, **changed), progress=False)


def test_code_that_fails_is_named(tmp_path: Path, data: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")

    with pytest.raises(ArgumentError, match=r"broken.py:Mine cannot be imported: ZeroDivisionError"):
        bench_search(f"{tmp_path}/broken.py:Mine", options=options(data), progress=False)


def test_the_seed_is_the_only_source_of_chance(data: Path) -> None:
    first, again = (bench_search(GeneticOrder, None, options=options(data), progress=False) for _ in range(2))

    assert first.scores == again.scores
    assert np.isfinite(first.score)
