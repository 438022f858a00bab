"""Pretrained models by name: which one a name stands for, and for which device it scores."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.api.estimating.estimate import estimate
from costhub.api.learning import train
from costhub.api.models import ChosenModel, ModelChoice, load_model, pull, save_model
from costhub.collector.device.identity import identify
from costhub.dataset.features.specs import find_spec
from costhub.dataset.programs import Programs
from costhub.errors import ArgumentError, DataError, ModelError, UnknownNameError
from costhub.hub.data import load_programs, load_split
from costhub.hub.remote.manifest import read_manifest
from costhub.models import folder as model_folder
from costhub.models.architectures import new_model
from costhub.models.protocol import CostModel
from costhub.models.trees.gbt import Gbt
from costhub.testing import made_programs


def test_a_model_trained_in_python_becomes_a_folder(tmp_path: Path) -> None:
    programs = made_programs("tiles@1")
    fitted = train(programs, "gbt", options={"rounds": 3}, progress=False)

    folder = save_model(
        fitted, tmp_path / "mine", programs, device="acme-one", seed=7, licence="MIT", test_workloads=("id-x",)
    )

    again, info = model_folder.load_model(folder)
    assert np.array_equal(again.predict_programs(programs), fitted.predict_programs(programs))
    assert (info.device_id, info.seed, info.licence, info.test_workloads) == ("acme-one", 7, "MIT", ("id-x",))
    assert set(info.train_workloads) == set(programs.workload_ids)
    assert np.array_equal(load_model(folder).predict_programs(programs), fitted.predict_programs(programs))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    with pytest.raises(ModelError, match="exists and is not a model folder"):
        save_model(fitted, tmp_path / "other", programs, device="acme-one")
    with pytest.raises(ArgumentError, match="do not say which device"):
        save_model(fitted, tmp_path / "new", programs)


def test_a_saved_model_says_which_devices_it_learned_from(tmp_path: Path) -> None:
    programs = made_programs("tiles@1")
    both = replace(programs, device=np.arange(programs.n) % 2, device_ids=("acme-a", "acme-b"))
    fitted = train(programs, "gbt", options={"rounds": 3}, progress=False)

    def saved(part: Programs, device: str | None) -> tuple[str, tuple[str, ...]]:
        _, info = model_folder.load_model(save_model(fitted, tmp_path / "mine", part, device=device))
        return info.device_id, info.device_ids

    assert saved(both, "any-cpu") == ("any-cpu", ("acme-a", "acme-b"))
    assert saved(both, None) == ("acme-a+acme-b", ("acme-a", "acme-b"))
    assert saved(both, "acme-a") == ("acme-a", ("acme-a", "acme-b"))
    assert saved(both.of_devices({"acme-b"}), None) == ("acme-b", ("acme-b",))


@pytest.mark.slow
def test_a_model_saved_with_its_data_names_who_measured_them(tmp_path: Path) -> None:
    programs = load_programs("nvidia-h200", workloads=set(load_split("nvidia-h200", "workload-12-seed0").train[:2]))
    fitted = train(programs, "gbt", options={"rounds": 3}, progress=False)

    saved = [
        model_folder.load_model(save_model(fitted, tmp_path / str(data), programs, data=data))[1]
        for data in ("nvidia-h200", None)
    ]

    assert [info.data_credit for info in saved] == ["measurer not recorded (Apache-2.0)", None]
    assert [len(info.datasets) for info in saved] == [1, 0]
    assert saved[0].datasets[0].startswith("costhub/nvidia-h200@")
    with pytest.raises(DataError):
        save_model(fitted, tmp_path / "wrong", programs, data="nvidia-a100")


def test_the_model_of_another_kind_of_device_is_refused_unless_it_is_allowed() -> None:
    row = identify()

    with pytest.raises(ModelError, match=r"nvidia-h200-\w+ is a model for cuda devices, but .* is a cpu device"):
        ModelChoice("nvidia-h200").for_device(row)
    for name in ("auto", row["device_id"]):
        with pytest.raises(ModelError, match=f"but {row['device_id']} is a cpu device"):
            ModelChoice("nvidia-h200").check_local_kind(name)
    with pytest.raises(ModelError, match="is a model for cpu devices, but cuda is a cuda device"):
        ModelChoice("any-cpu").check_local_kind("cuda")

    ModelChoice("any-cpu").check_local_kind("auto")
    ModelChoice("any-cpu").check_local_kind("toaster")  # which is refused as a device
    allowed = ModelChoice("nvidia-h200", allow_other_kind=True)
    allowed.check_local_kind("auto")
    assert allowed.for_device(row).devices == ("nvidia-h200",)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COSTHUB_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("own_cache")
def test_a_name_is_a_model_that_says_what_it_is() -> None:
    model = load_model("nvidia-h200", arch="mlp")

    first, second = str(model).splitlines()
    assert first == f"costhub/nvidia-h200-mlp: mlp model on {model.feature_spec} for nvidia-h200"
    assert second.startswith("learned from ")
    assert f"top_1 {model.info.metrics['top_1']:.3f}" in second
    rows = np.zeros((2, find_spec(model.feature_spec).width), np.float32)
    assert model.predict(rows, np.array([1, 1])).shape == (2,)


@pytest.mark.usefixtures("own_cache")
def test_auto_is_the_model_nearest_to_this_machine_and_bound_to_it() -> None:
    model = load_model()

    assert model.info is not None
    assert model.device is not None  # a conditioned one, the only kind there is for CPUs by default
    assert pull("auto", arch=model.arch) == pull(model.name)
    other = load_model(model.name, device="amd-epyc-zen5-1c")
    assert other.device.tolist() != model.device.tolist()


@pytest.mark.usefixtures("own_cache")
def test_a_row_of_the_devices_table_is_a_device_too() -> None:
    row = {"device_id": "acme-one", "kind": "cpu", "cores": 4}

    assert load_model("any-cpu", device=row).device is not None
    with pytest.raises(ModelError, match="cannot score for 'acme-gpu'"):
        load_model("any-cpu", device={"device_id": "acme-gpu", "kind": "cuda"})
    with pytest.raises(UnknownNameError, match="amd-epyc"):
        load_model("any-cpu", device="amd-epyc-zen9")


NAME = "matmul.512x512x512"


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("amd-epyc-zen4-2c", "amd-epyc-zen4-2c"),  # one of the devices of any-cpu
        ("costhub/amd-epyc-zen5-2c-gbt", "amd-epyc-zen5-2c"),
        ("nvidia-a100", "nvidia-a100"),
        ("nvidia-h200", "nvidia-h200"),  # which learned from the A100 as well
    ],
)
def test_a_model_estimates_latencies_on_the_device_that_it_is_called_by(name: str, device: str) -> None:
    found = load_model(name).latency_us(NAME, trials=32, interval=0.5, progress=False)

    wanted = estimate(NAME, device, trials=32, interval=0.5, progress=False)
    assert str(found) == str(wanted)
    assert (float(found), found.low_us, found.high_us) == (wanted.latency_us, wanted.low_us, wanted.high_us)


@pytest.mark.usefixtures("own_cache")
def test_a_model_called_by_one_of_its_devices_is_bound_to_that() -> None:
    named, told = load_model("amd-epyc-zen4-1c"), load_model("any-cpu", device="amd-epyc-zen4-1c")
    local = load_model("any-cpu")

    address = f"amd-epyc-zen4-1c@{read_manifest(pull('amd-epyc-zen4-1c')).revision[:12]}"
    assert load_model(address).device.tolist() == named.device.tolist()
    assert named.device.tolist() == told.device.tolist() != load_model("amd-epyc-zen5-2c-sse4.2").device.tolist()
    assert local.device.tolist() == load_model("any-cpu", device=identify()).device.tolist()


@pytest.mark.usefixtures("own_cache")
def test_a_model_of_many_devices_estimates_for_this_machine_or_the_device_that_is_told() -> None:
    row = {"device_id": "acme-one", "kind": "cpu", "cores": 4, "simd_bits": 128, "peak_gflops": 60.0, "dram_gbs": 8.0}

    told = load_model("any-cpu", device=row).latency_us(NAME, progress=False)
    assert str(told) == str(estimate(NAME, row, progress=False))
    for name in ("auto", "any-cpu"):
        estimator = load_model(name).estimator
        assert estimator.keywords == {"device": "auto"}  # type: ignore[union-attr]


@pytest.mark.usefixtures("own_cache")
def test_a_model_that_is_bound_to_another_device_no_longer_answers_for_the_first() -> None:
    bound = load_model("any-cpu").bind({"device_id": "acme-one", "kind": "cpu", "cores": 4})

    with pytest.raises(ModelError, match="does not know which device"):
        bound.latency_us(NAME)


@pytest.mark.usefixtures("own_cache")
def test_a_model_of_no_known_device_says_what_to_do(tmp_path: Path) -> None:
    programs = made_programs("tiles@1")
    fitted = train(programs, "gbt", options={"rounds": 3}, progress=False)
    folder = save_model(fitted, tmp_path / "mine", programs, device="acme-one")

    with pytest.raises(ModelError, match=r"This gbt model does not know which device .*costhub\.load_model"):
        fitted.latency_us(NAME)
    with pytest.raises(UnknownNameError, match=r"no device named 'acme-one'\..*costhub probe --json"):
        load_model(folder).latency_us(NAME)
    assert float(load_model(folder, device="amd-epyc-zen5-2c").latency_us(NAME, progress=False)) > 0


@pytest.mark.usefixtures("own_cache")
def test_a_copy_of_a_loaded_model_estimates_as_it_does() -> None:
    model = load_model("nvidia-h200", arch="gbt")

    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301
        assert float(copied.latency_us(NAME, progress=False)) == float(model.latency_us(NAME, progress=False))


def test_a_model_has_the_defaults_of_estimate() -> None:
    own, whole = (inspect.signature(call).parameters for call in (CostModel.latency_us, estimate))

    assert {name: whole[name] for name in own if name not in ("self", "what")} == {
        name: own[name] for name in own if name not in ("self", "what")
    }


@pytest.mark.usefixtures("own_cache")
def test_a_folder_that_was_never_published_is_read_where_it_is(sound_model: Any, tmp_path: Path) -> None:
    model = load_model(sound_model("gbt"))

    assert model.name == "local/given-gbt"
    assert not (tmp_path / "cache/models/local").exists()


def test_a_choice_refuses_a_name_at_once_and_keeps_a_model_of_ones_own() -> None:
    with pytest.raises(UnknownNameError, match="no-such-device"):
        ModelChoice("no-such-device")
    own = new_model("gbt", feature_spec="tiles@1")
    chosen = ModelChoice(own).for_device({"device_id": "acme-one", "kind": "cpu"})

    assert (chosen.model, chosen.name, chosen.reason) == (own, "a gbt model of your own", "")
    assert str(own) == "gbt model on tiles@1"


class Scores:
    """What `costhub.evaluate` takes, and a search does not."""

    def predict(self, rows: Any, counts: Any) -> Any:
        return -counts


@pytest.mark.parametrize(
    ("model", "words"),
    [(Scores(), "^An object of the class Scores cannot be .*CostModel"), (Gbt, "^The class Gbt "), (None, "NoneType")],
)
def test_a_choice_refuses_what_is_no_cost_model_at_once(model: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        ModelChoice(model)


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        (
            "org/m learned from acme-sse4.2 and 7 more. Of the 4 models it is best (a 0.7).",
            " learned from acme-sse4.2 and 7 more.",
        ),
        (
            "Of the 2 models for acme it has the highest top_1 (org/m 0.783, org/n 0.765).",
            ". Of the 2 models for acme it has the highest top_1.",
        ),
        ("", "."),
    ],
)
def test_the_line_on_a_terminal_has_the_first_sentence_without_its_figures(reason: str, line: str) -> None:
    model = new_model("gbt", feature_spec="tiles@1")

    assert ChosenModel(model, "org/m", reason).line == f"Model org/m (gbt){line}"
