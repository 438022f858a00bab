"""Models and strategies of the user's own: what is wrong with them is told as theirs."""

from __future__ import annotations

import copy
import runpy
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from costhub.api.models import load_model
from costhub.api.replay.bench import BenchOptions, bench_search
from costhub.errors import ArgumentError, CosthubError, ModelError
from costhub.models.info import ModelInfo
from costhub.models.own_code import OwnModel, imported, learned_from, scorer_given
from costhub.search.replay.judge import ReplaySettings
from costhub.search.replay.strategies import RandomOrder

INFO = ModelInfo(
    arch="mlp",
    feature_spec="demo@1",
    device_id="acme-one",
    data_hash="0",
    data_rows=1,
    seed=0,
    created="2026-01-01T00:00:00+00:00",
    licence="Apache-2.0",
)
_measured = runpy.run_path(str(Path(__file__).parents[1] / "cli/measured_folder.py"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = _measured["build_data"](tmp_path_factory.mktemp("measured") / "data")
    return folder


class Model:
    """Returns what it is told to, or raises it."""

    feature_spec = "tiles@1"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def predict(self, rows: Any, counts: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Unsound(RandomOrder):
    def tell(self, programs: Any, latency_s: Any) -> None:
        raise KeyError("nothing here")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (
            ValueError("no layer"),
            r"`predict` of Model failed \(ValueError: no layer\)\. .* `costhub --debug` prints it",
        ),
        (np.zeros((2, 1)), r"shape \(2, 1\) for 2 programs; it must be \(2,\); `\.squeeze\(1\)` removes"),
        ([1.0], r"shape \(1,\) for 2 programs; it must be \(2,\)\.$"),
        (["a", "b"], r"returned something else than numbers \(ValueError: "),
    ],
)
def test_what_a_model_does_wrong_is_a_sentence(answer: Any, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        OwnModel(Model(answer)).predict(np.ones((3, 2), np.float32), np.array([1, 2]))


def test_a_model_keeps_its_attributes_and_lists_are_scores() -> None:
    own = OwnModel(Model([2, 1]))

    assert own.predict(np.ones((3, 2), np.float32), np.array([1, 2])).tolist() == [2.0, 1.0]
    assert (own.name, own.feature_spec, copy.copy(own).name) == ("Model", "tiles@1", "Model")
    with pytest.raises(AttributeError, match="info"):
        _ = own.info


def test_a_trained_model_stays_what_it_is_and_a_name_is_none() -> None:
    trained = load_model("nvidia-h200", arch="gbt")

    assert scorer_given(trained) is trained
    assert scorer_given("nvidia-h200") is None
    assert scorer_given(None) is None
    with pytest.raises(ArgumentError, match="no method `predict"):
        scorer_given(object())


def test_an_attribute_that_the_file_itself_misses_is_not_taken_for_the_name(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import math\nmath.nope\n")

    with pytest.raises(ArgumentError, match="cannot be imported: AttributeError"):
        imported(f"{tmp_path / 'broken.py'}:Model")


def test_a_name_of_a_module_is_imported() -> None:
    assert imported("math:inf") == float("inf")
    with pytest.raises(ArgumentError, match="math has nothing named nothing"):
        imported("math:nothing")


@pytest.mark.parametrize(
    ("strategy", "model", "says"),
    [
        (Unsound, None, r"`tell` of Unsound failed \(KeyError: "),
        (lambda task, **_: 1 / 0, None, r"The strategy failed \(ZeroDivisionError: "),
        ("model", Model(np.zeros(0)), "`predict` of Model returned an array of shape"),
        ("model", Model(TypeError("no")), r"`predict` of Model failed \(TypeError: no\)"),
    ],
)
def test_a_replayed_search_names_the_culprit(strategy: Any, model: Any, says: str, data: Path) -> None:
    options = BenchOptions(data=data, settings=ReplaySettings(batch=3, seeds=1))

    with pytest.raises(CosthubError, match=says):
        bench_search(strategy, model, options=options, progress=False)


def test_a_file_may_import_the_files_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "beside_mine.py").write_text("ANSWER = 42\n")
    (tmp_path / "with_import.py").write_text("from beside_mine import ANSWER\n")

    assert imported(f"{tmp_path / 'with_import.py'}:ANSWER") == 42


def test_a_score_that_is_no_number_names_the_model(data: Path) -> None:
    class Nan:
        def predict(self, rows: Any, counts: Any) -> Any:
            return np.full(len(counts), np.nan)

    options = BenchOptions(data=data, settings=ReplaySettings(batch=3, seeds=1))
    with pytest.raises(CosthubError, match=r"The Nan model scores .* with NaN or infinity"):
        bench_search("model", Nan(), options=options, progress=False)


def test_a_strategy_that_needs_no_features_gets_none(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Alone(RandomOrder):
        needs_features = False

    def refuse(*arguments: Any, **named: Any) -> None:
        raise AssertionError("features were computed")

    monkeypatch.setattr("costhub.dataset.blocks.ProgramBlock.with_features", refuse)
    options = BenchOptions(data=data, settings=ReplaySettings(batch=3, seeds=1))

    assert bench_search(Alone, None, options=options, progress=False).scores


def test_what_the_source_of_an_adapted_model_has_learned_counts_on_its_own_devices() -> None:
    info = replace(INFO, train_workloads=("a",), base_devices=("theirs",), base_workloads=("b", "c"))
    model = SimpleNamespace(info=info)

    assert learned_from(model, ["acme-one"]) == (("acme-one", "theirs"), {"a"})
    assert learned_from(model, ["acme-one", "theirs"]) == (("acme-one", "theirs"), {"a", "b", "c"})
    assert learned_from(object(), ["theirs"]) == ((), set())
