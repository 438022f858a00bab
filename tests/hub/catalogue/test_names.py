from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.errors import AmbiguousNameError, UnknownNameError
from costhub.hub.catalogue.devices import Device, load_devices
from costhub.hub.catalogue.find import find_model
from costhub.hub.catalogue.hubs import HUB_VARIABLE
from costhub.hub.catalogue.names import HARDWARE_NAMES, hardware_device, normalise, resolve_device, resolve_name
from costhub.hub.data import find_data

PAGE = Path(__file__).parents[3] / "docs/my-device-is-not-listed.md"
DEVICES = [
    Device(device_id="nvidia-h200", kind="cuda", aliases=("h200", "hopper")),
    Device(device_id="nvidia-h100", kind="cuda", aliases=("h100", "hopper")),
    Device(device_id="hopper-mlp", kind="cpu"),
]


@pytest.mark.parametrize("name", ["nvidia-h200", "h200", "H200", "NVIDIA H200", "nvidia_h200", " h200 "])
def test_an_id_or_alias_is_found_however_it_is_written(name: str) -> None:
    assert resolve_device(name, DEVICES).device_id == "nvidia-h200"


@pytest.mark.parametrize("name", ["nvidia", "h20", "h2000", "nvidia-h200-mlp", ""])
def test_part_of_a_name_is_not_the_name(name: str) -> None:
    with pytest.raises(UnknownNameError, match="There is no device named"):
        resolve_device(name, DEVICES)


def test_an_unknown_name_is_refused_with_the_close_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"Did you mean nvidia-h200 or nvidia-h100.*costhub devices") as caught:
        resolve_device("nvidia-h20O", DEVICES)

    assert caught.value.close[0] == "nvidia-h200"


def test_an_unlisted_device_is_told_which_model_serves_it() -> None:
    stand_ins = [Device(device_id="any-gpu", kind="cuda"), Device(device_id="any-cpu", kind="cpu")]

    with pytest.raises(UnknownNameError, match=r"not listed, or a part of one, uses any-cpu or any-gpu; .*`auto`"):
        resolve_name("acme-nine-1c", [*DEVICES, *stand_ins])
    with pytest.raises(UnknownNameError, match=r"not listed, or a part of one, uses any-gpu; .*`auto`"):
        resolve_device("acme-nine-1c", [*DEVICES, stand_ins[0]])
    with pytest.raises(UnknownNameError, match=r"has no model of its own; .*`auto`"):
        resolve_device("acme-nine-1c", DEVICES)


def test_a_mistyped_model_of_an_organisation_is_recognised() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean costhub/any-cpu-conditioned"):
        resolve_name("costhub/any-cpu-conditionned")


def test_the_name_of_a_model_that_no_hub_has_is_answered_with_where_hubs_are(
    hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnknownNameError, match=r"COSTHUB_HUB can name the folder of a further hub to search\.$"):
        resolve_name("lab/mine")

    monkeypatch.setenv(HUB_VARIABLE, str(tmp_path))
    with pytest.raises(UnknownNameError, match=f"COSTHUB_HUB names {tmp_path}, which was searched too"):
        resolve_name("lab/mine")


def test_an_alias_of_several_devices_is_refused_with_their_ids() -> None:
    with pytest.raises(AmbiguousNameError, match="nvidia-h200, nvidia-h100") as caught:
        resolve_device("Hopper", DEVICES)

    assert caught.value.candidates == ("nvidia-h200", "nvidia-h100")


def test_an_id_wins_over_aliases() -> None:
    both = [*DEVICES, Device(device_id="hopper", kind="cpu")]

    assert resolve_device("hopper", both).device_id == "hopper"


def test_a_name_may_end_with_an_architecture(hub: Path) -> None:
    named = resolve_name("one-gbt")

    assert (named.device.device_id, named.arch) == ("acme-one", "gbt")
    assert resolve_name("one").arch is None


def test_an_architecture_that_no_model_has_is_part_of_the_name(hub: Path) -> None:
    with pytest.raises(UnknownNameError, match="There is no device or model named 'one-treegru'"):
        resolve_name("one-treegru")


def test_an_ambiguous_device_stays_ambiguous_with_an_architecture(hub: Path) -> None:
    with pytest.raises(AmbiguousNameError, match="acme-one, acme-two"):
        resolve_name("rocket-mlp")


def test_a_device_named_like_a_model_is_the_device(hub: Path) -> None:
    assert resolve_name("hopper-mlp", DEVICES).device.device_id == "hopper-mlp"


@given(st.text(max_size=30))
def test_normalising_twice_changes_nothing(name: str) -> None:
    assert normalise(normalise(name)) == normalise(name)


@pytest.mark.parametrize(
    ("name", "device_id"),
    [
        ("A100", "nvidia-a100"),
        ("V100", "nvidia-v100"),
        ("H200", "nvidia-h200"),
        ("MI50", "amd-mi50"),
        ("GPU NVIDIA A100", "nvidia-a100"),
        ("GPU NVIDIA H200", "nvidia-h200"),
        ("GPU NVIDIA V100", "nvidia-v100"),
        ("GPU AMD MI50", "amd-mi50"),
        ("CPU AMD EPYC 4th Generation (Genoa)", "amd-epyc-zen4-2c"),
        ("EPYC 3th Generation (Milan)", "amd-epyc-zen3-2c"),
        ("CPU AMD EPYC 5th Generation Zen 5 (Turin)", "amd-epyc-zen5-2c"),
        ("EPYC 4th Generation Zen 4 (Genoa)", "amd-epyc-zen4-2c"),
        ("EPYC 3th Generation Zen 3 (Milan)", "amd-epyc-zen3-2c"),
    ],
)
def test_devices_are_found_by_the_names_of_the_hugging_face_hub(name: str, device_id: str) -> None:
    assert resolve_device(name).device_id == device_id


def test_every_name_of_hardware_stands_for_a_device_of_the_index() -> None:
    ids = {device.device_id for device in load_devices()}

    assert set(HARDWARE_NAMES.values()) <= ids
    assert [name for name in HARDWARE_NAMES if name != normalise(name)] == []


def test_the_page_names_the_devices_that_the_list_of_hardware_lacks() -> None:
    (paragraph,) = [text for text in PAGE.read_text("utf-8").split("\n\n") if "Hugging Face hub's names" in text]
    used, lacking = paragraph.split("has none for")
    whole = {device.device_id for device in load_devices() if device.aliases}  # a part of a machine has no alias

    examples = re.findall(r"`([^`]+)`", used)
    assert [hardware_device(name) for name in examples] == ["nvidia-h200", "amd-epyc-zen4-2c"]
    assert set(re.findall(r"`(\w[^`]+)`", lacking)) == whole - set(HARDWARE_NAMES.values())


def test_a_model_and_data_are_found_by_the_name_of_hardware() -> None:
    assert find_model("EPYC 3th Generation (Milan)").entry.device_id == find_model("zen3").entry.device_id
    assert find_data("EPYC 4th Generation (Genoa)").device_id == "amd-epyc-zen4-2c"


@pytest.mark.parametrize("name", ["H100", "Xeon 3th Generation (Ice Lake)", "GPU NVIDIA T4", "(Ice Lake)"])
def test_hardware_without_an_entry_is_unknown(name: str) -> None:
    with pytest.raises(UnknownNameError):
        resolve_device(name)
