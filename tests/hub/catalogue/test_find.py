"""The model for the machine we are on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costhub.errors import AmbiguousNameError, CosthubError, ModelError, UnknownNameError
from costhub.hub.catalogue.devices import register_device
from costhub.hub.catalogue.find import choose_model, find_model, is_alike, models_of_kind
from costhub.hub.catalogue.hubs import dataset_folders, list_models, models_for
from costhub.hub.catalogue.nearest import nearest_order
from costhub.hub.remote.address import AddressError
from costhub.hub.remote.manifest import read_manifest, write_manifest


def test_a_device_name_takes_the_model_with_the_best_figures_and_says_so(hub: Path) -> None:
    found = find_model("acme-one")

    assert found.entry.name == "costhub/acme-one-gbt"
    assert found.revision == read_manifest(found.entry.folder).revision
    assert found.reason == (
        "Of the 2 models for acme-one it has the highest top_1 on held-out workloads "
        "(costhub/acme-one-gbt 0.900, costhub/acme-one-mlp 0.800)."
    )


@pytest.mark.parametrize(
    ("name", "arch"),
    [("acme-one-mlp", None), ("one", "mlp"), ("costhub/acme-one-mlp", None), ("one-mlp", "mlp")],
)
def test_an_architecture_can_be_asked_for(hub: Path, name: str, arch: str | None) -> None:
    assert find_model(name, arch=arch).entry.name == "costhub/acme-one-mlp"


def test_a_model_is_found_by_a_device_that_no_index_has(hub: Path, make_model: Any) -> None:
    make_model(hub / "models/lab/trees", device_id="my-board", arch="gbt")

    assert find_model("my-board").entry.name == find_model("my-board-gbt").entry.name == "lab/trees"
    with pytest.raises(UnknownNameError, match="my-board"):
        find_model("my-bord")


def test_a_model_that_is_told_of_devices_is_found_for_each_of_them(hub: Path, make_model: Any) -> None:
    folder = make_model(hub / "models/lab/both", device_id="any-cpu", arch="conditioned", top_1=0.95)
    config = json.loads((folder / "config.json").read_text())
    config["train_devices"] = ["acme-one", "acme-two"]
    (folder / "config.json").write_text(json.dumps(config))
    write_manifest(folder)

    assert find_model("acme-one").entry.name == find_model("acme-two").entry.name == "lab/both"
    assert find_model("acme-two-conditioned").entry.name == "lab/both"
    assert find_model("acme-one", arch="gbt").entry.name == "costhub/acme-one-gbt"
    assert [entry.name for entry in models_for("acme-two")] == ["lab/both"]
    names = [found.entry.name for found in models_of_kind({"device_id": "acme-two", "kind": "cpu"})]
    assert sorted(names) == ["costhub/acme-one-gbt", "costhub/acme-one-mlp", "lab/both"]


def test_a_model_of_several_devices_is_ranked_by_its_figure_on_the_one_asked_for(hub: Path, make_model: Any) -> None:
    folder = make_model(hub / "models/lab/both", device_id="any-cpu", arch="conditioned", top_1=0.85)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "train_devices": ["acme-one", "acme-two"]}))
    rows = [("acme-one", 0.9), ("acme-one", 1.0), ("acme-two", 0.75)]
    figures = {"workloads": [{"device_id": device, "top_1": top_1} for device, top_1 in rows]}
    (folder / "evaluation.json").write_text(json.dumps(figures))
    write_manifest(folder)

    found = find_model("acme-one")

    assert (found.entry.name, found.entry.top_1) == ("lab/both", pytest.approx(0.95))
    assert "(lab/both 0.950, costhub/acme-one-gbt 0.900" in found.reason
    assert [entry.top_1 for entry in models_for("acme-two")] == [0.75]
    for told in ("[]", "{", '{"workloads": [3]}', '{"workloads": [{"device_id": "acme-one", "top_1": NaN}]}'):
        (folder / "evaluation.json").write_text(told)
        assert models_for("acme-one")[0].name == "costhub/acme-one-gbt"


def test_models_that_nobody_evaluated_are_taken_by_name(hub: Path, make_model: Any) -> None:
    for org in ("bob", "alice"):
        folder = make_model(hub / "models" / org / "m", device_id="acme-two", arch="mlp")
        (folder / "manifest.json").write_text((hub / "models/costhub/acme-one-mlp/manifest.json").read_text())

    found = find_model("acme-two")

    assert found.entry.name == "alice/m"
    assert "was evaluated on held-out workloads; this one is first by name" in found.reason


def test_a_pin_takes_the_content_it_names_even_where_a_better_one_is(hub: Path) -> None:
    revision = read_manifest(hub / "models" / "costhub" / "acme-one-mlp").revision

    assert find_model(f"acme-one@{revision}").entry.arch == "mlp"
    assert find_model(f"one@{revision[:7]}").entry.arch == "mlp"


@pytest.mark.parametrize(
    ("text", "arch", "error", "sentence"),
    [
        ("acme-on", None, UnknownNameError, "no device or model named 'acme-on'. Did you mean acme-one"),
        ("rocket", None, AmbiguousNameError, "'rocket' fits more than one device: acme-one, acme-two"),
        ("acme-two", None, ModelError, "in the index but has no model yet. The nearest device with one is acme-one"),
        ("acme-one", "treegru", ModelError, "acme-one has no treegru model; it has gbt, mlp"),
        ("acme-one-mlp", "gbt", AddressError, "names the mlp model, but --arch names gbt"),
        ("costhub/acme-one-mlp", "gbt", ModelError, "has the architecture mlp, not gbt"),
        ("acme-one@v1", None, AddressError, "7 or more hexadecimal digits"),
        ("acme-one@abcdef0", None, ModelError, "has the revision abcdef0; there is costhub/acme-one-gbt@"),
        ("local-dir:/nowhere", None, ModelError, "/nowhere is not a folder"),
        ("nobody/nothing", None, UnknownNameError, "no device or model named 'nobody/nothing'"),
    ],
)
def test_what_cannot_be_found_is_a_sentence(
    hub: Path, text: str, arch: str | None, error: type[CosthubError], sentence: str
) -> None:
    with pytest.raises(error) as caught:
        find_model(text, arch=arch)

    assert sentence in str(caught.value)


def test_a_model_folder_in_the_working_directory_comes_before_names(
    hub: Path, tmp_path: Path, make_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_model(tmp_path / "acme-one", device_id="acme-one", arch="tokens")
    make_model(tmp_path / "a b", device_id="acme-one", arch="tokens")
    (tmp_path / "one").mkdir()

    assert find_model("acme-one").entry.name == "local/acme-one"
    assert find_model("./acme-one").entry.name == "local/acme-one"
    assert find_model("costhub/acme-one-gbt").entry.name == "costhub/acme-one-gbt"
    assert find_model("one").entry.name == "costhub/acme-one-gbt"  # no model is in that folder
    assert find_model("a b").entry.name == "local/a b"


def test_a_path_that_is_no_model_folder_is_said_to_be_none(
    hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "notes").write_text("mine")

    with pytest.raises(ModelError, match=r"^mine is not a model folder: it holds no config.json."):
        find_model("mine")
    with pytest.raises(ModelError, match=r"^notes is a file. Give the folder that `costhub train` or `adapt`"):
        find_model("notes")


def test_a_kind_without_any_model_is_told_how_to_make_one(hub: Path) -> None:
    register_device({"device_id": "apple-m9", "kind": "metal"}, path=hub / "devices.json")

    with pytest.raises(ModelError, match=r"in the index but has no model yet. Measure programs with `costhub collect`"):
        find_model("apple-m9")


def test_a_folder_is_a_model_with_or_without_a_manifest(hub: Path, make_model: Any, tmp_path: Path) -> None:
    folder = make_model(tmp_path / "trained", device_id="acme-two", arch="mlp")

    found = find_model(f"local-dir:{folder}")

    assert (found.entry.name, found.entry.device_id, found.revision) == ("local/trained", "acme-two", None)
    assert find_model(str(hub / "models/costhub/acme-one-mlp")).revision is not None
    with pytest.raises(ModelError, match="has the architecture mlp, not gbt"):
        find_model(str(folder), arch="gbt")


def test_a_listed_device_without_a_model_is_told_which_one_serves_it(hub: Path, make_model: Any) -> None:
    register_device({"device_id": "any-cpu", "kind": "cpu"}, path=hub / "devices.json")
    write_manifest(make_model(hub / "models/costhub/any-cpu-mlp", device_id="any-cpu", arch="mlp"))

    with pytest.raises(ModelError, match=r"has no model yet\. Such devices use any-cpu: `costhub pull any-cpu`"):
        find_model("acme-two")


@pytest.mark.usefixtures("hub")
def test_auto_takes_the_nearest_device_and_says_why() -> None:
    found = choose_model("auto", {"kind": "cpu", "cores": 8})
    assert found.entry.device_id == "acme-one"
    assert "acme-one" in found.reason


@pytest.mark.usefixtures("hub")
def test_auto_takes_no_folder_that_has_the_name_of_a_device(
    make_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_model(tmp_path / "acme-one", device_id="acme-one", arch="gbt")
    monkeypatch.chdir(tmp_path)

    assert find_model("acme-one").entry.name == "local/acme-one"
    assert choose_model("auto", {"kind": "cpu", "cores": 8}).entry.name == "costhub/acme-one-gbt"


def test_auto_says_of_a_model_of_many_devices_that_it_learned_from_this_one(hub: Path, make_model: Any) -> None:
    folder = make_model(hub / "models/lab/both", device_id="any-cpu", arch="conditioned", top_1=0.95)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "train_devices": ["acme-one", "acme-two"]}))
    write_manifest(folder)

    found = choose_model("auto", {"device_id": "acme-one", "kind": "cpu"})
    near = choose_model("auto", {"device_id": "acme-new", "kind": "cpu", "microarchitecture": "bang"})
    own = choose_model("auto", {"device_id": "acme-one", "kind": "cpu"}, arch="gbt")

    assert found.reason.startswith("lab/both learned from acme-one and 1 more. Of the 3 models for acme-one it has the")
    assert near.reason.startswith("acme-two is the nearest of 2 cpu devices with a model")
    assert near.reason.endswith(" lab/both learned from acme-two and 1 more.")
    assert own.reason == "There is a model for acme-one itself."


@pytest.mark.usefixtures("hub")
def test_a_name_is_taken_as_it_is() -> None:
    assert choose_model("one", {"kind": "cuda"}, arch="mlp").entry.arch == "mlp"


@pytest.mark.usefixtures("hub")
def test_a_kind_without_models_is_refused_with_what_to_do() -> None:
    with pytest.raises(ModelError, match="costhub collect"):
        choose_model("auto", {"kind": "hexagon"})


def test_the_embedded_hub_has_a_model_for_a_cpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("COSTHUB_HUB", raising=False)
    found = choose_model("auto", {"kind": "cpu", "vendor": "Intel", "cores": 64, "simd_bits": 512})
    assert found.entry.folder.is_dir()


@pytest.mark.usefixtures("hub")
def test_all_models_of_a_kind_come_with_the_nearest_device_first() -> None:
    here = {"kind": "cpu", "cores": 8, "simd_bits": 512, "vendor": "ACME"}

    devices = [model.entry.device_id for model in models_of_kind(here)]

    assert set(devices) == {entry.device_id for entry in list_models()} - {"blit-gpu"}
    assert list(dict.fromkeys(devices)) == nearest_order(here, devices)
    assert {model.entry.arch for model in models_of_kind(here, arch="mlp")} == {"mlp"}


def test_the_models_of_a_kind_have_that_of_a_device_that_no_index_lists(hub: Path, make_model: Any) -> None:
    make_model(hub / "models/lab/trees", device_id="my-board", arch="gbt")

    found = models_of_kind({"device_id": "my-board", "kind": "cpu"})

    assert found[0].entry.name == "lab/trees"
    assert "lab/trees" not in {each.entry.name for each in models_of_kind({"device_id": "other", "kind": "cpu"})}


@pytest.mark.usefixtures("hub")
def test_a_kind_without_models_to_probe_is_refused() -> None:
    with pytest.raises(ModelError, match="hold no mlp model of a hexagon device"):
        models_of_kind({"kind": "hexagon"}, arch="mlp")


@pytest.mark.parametrize(
    ("model", "device_id", "kind", "alike"),
    [
        ("costhub/nvidia-v100-blend", "nvidia-k80", "cuda", True),
        ("costhub/nvidia-a100-blend", "nvidia-h200", "cuda", True),
        ("costhub/nvidia-v100-blend", "nvidia-h200", "cuda", False),
        ("costhub/nvidia-h200-blend", "nvidia-k80", "cuda", False),
        ("any-gpu", "nvidia-h200", "cuda", True),
        ("any-gpu", "nvidia-k80", "cuda", True),
        ("amd-epyc-zen5-2c", "nvidia-h200", "cuda", False),
    ],
)
def test_devices_are_alike_in_kind_and_in_whose_code_they_ran(
    model: str, device_id: str, kind: str, alike: bool
) -> None:
    data = dataset_folders()[f"costhub/{device_id}"]

    assert is_alike(find_model(model).entry, {"device_id": device_id, "kind": kind}, data) is alike


def test_a_gpu_without_measurements_yet_will_run_code_of_tvm(tmp_path: Path) -> None:
    here = {"device_id": "nvidia-v100", "kind": "cuda"}

    assert is_alike(find_model("costhub/nvidia-v100-blend").entry, here) is False
    assert is_alike(find_model("costhub/nvidia-v100-blend").entry, here, tmp_path / "new") is False
    assert is_alike(find_model("costhub/nvidia-a100-blend").entry, here) is True
