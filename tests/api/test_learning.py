"""`costhub.train` and `costhub.adapt`: from names and from programs."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from costhub.api.learning import adapt, train
from costhub.dataset.programs import Programs
from costhub.errors import ArgumentError, DataError, ModelError, UnknownNameError
from costhub.hub.data import load_programs
from costhub.models.compound.conditioned import Conditioned

_measured = runpy.run_path(str(Path(__file__).parents[1] / "cli/measured_folder.py"))
build_data, train_model = _measured["build_data"], _measured["train_model"]


def test_data_by_name_and_their_programs_give_one_model(data: Path) -> None:
    programs = load_programs(data)

    named, given = (train(what, "gbt", options={"rounds": 5}, progress=False) for what in (data, programs))
    assert named.feature_spec == "tiles@1"
    assert np.array_equal(named.predict_programs(programs), given.predict_programs(programs))
    with pytest.raises(UnknownNameError, match="gbt"):
        train(data, "gbd")


def test_an_architecture_that_scores_by_the_device_finds_its_row(make_programs: object, train: Programs) -> None:
    from costhub.api.learning import train as learn

    programs = replace(train, device_ids=("amd-epyc-zen5-2c",), spec="")

    model = learn(programs, "conditioned", feature_spec="demo@1", progress=False)
    assert isinstance(model, Conditioned)
    assert set(model.devices) == {"amd-epyc-zen5-2c"}


def test_what_is_no_cost_model_is_not_adapted_and_no_other_model_takes_its_place(data: Path) -> None:
    class Scores:
        def predict(self, rows: object, counts: object) -> object:
            return counts

    with pytest.raises(ArgumentError, match="class Scores cannot be used as a model"):
        adapt(Scores(), data, trials=16, progress=False)


def test_a_model_is_adapted_by_name(data: Path, tmp_path: Path) -> None:
    source = train_model(data, tmp_path)

    found = adapt(source, data, trials=48, progress=False)
    assert (found.trials, found.method, found.learned.n) == (48, "corrected", 48)
    assert adapt(str(source), load_programs(data), trials=48, progress=False).verdicts == found.verdicts
    assert str(found) == repr(found)
    first, _, names, *rows = str(found).splitlines()
    assert first == f"A {found.model.arch} model adapted by {found.summary}."
    assert names.split() == ["trials", "adapted", "source", "local"]
    assert len(rows) == len(found.verdicts) == len(found.to_pandas())


def test_auto_takes_the_source_that_ranks_best(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from costhub.hub.catalogue.find import find_model

    found = find_model(str(train_model(data, tmp_path)))
    monkeypatch.setattr("costhub.api.learning.models_of_kind", lambda row: [found])

    assert adapt("auto", data, trials=16, progress=False).trials == 16
    other = replace(load_programs(data), spec="per_store@1")
    with pytest.raises(ModelError, match="No model in the hubs here reads per_store@1"):
        adapt("auto", other, trials=16)


@pytest.mark.parametrize("trials", [-1, 0, 1])
def test_too_few_trials_are_refused_before_a_model_is_read(trials: int) -> None:
    with pytest.raises(ArgumentError, match=f"trials={trials} is too few: give a whole number of at least 2"):
        adapt("no-such-model", "no-such-data", trials=trials)


def test_several_devices_must_be_named(data: Path, tmp_path: Path) -> None:
    both: Path = build_data(build_data(tmp_path / "both"), device_id="acme-two")

    with pytest.raises(DataError, match="device=NAME"):
        train(both, "gbt")
    model = train(data, "gbt", options={"rounds": 5}, progress=False)
    assert adapt(model, both, device="acme-two", trials=16, progress=False).learned.device_ids == ("acme-two",)


def test_programs_of_several_devices_need_the_name_of_one(data: Path, tmp_path: Path) -> None:
    source, programs = train_model(data, tmp_path), load_programs(data)
    both = replace(programs, device=np.arange(programs.n) % 2, device_ids=("acme-a", "acme-b"))

    with pytest.raises(DataError, match=r"ran on 2 devices: acme-a, acme-b\. Name one with device=NAME"):
        adapt(source, both, trials=16, progress=False)
    with pytest.raises(DataError, match="None of the programs ran on 'acme-c'"):
        adapt(source, both, device="acme-c", trials=16, progress=False)
    named = adapt(source, both, device="acme-b", trials=16, progress=False)
    alone = adapt(source, both.of_devices({"acme-b"}), trials=16, progress=False)
    assert named.verdicts == alone.verdicts
