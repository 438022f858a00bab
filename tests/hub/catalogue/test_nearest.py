from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.hub.catalogue.devices import Device, register_device
from costhub.hub.catalogue.nearest import distance, nearest_device, nearest_order
from costhub.hub.remote.manifest import write_manifest

SIZES = st.none() | st.integers(1, 1 << 40)
WORDS = st.none() | st.sampled_from(["zen5", "zen4", "ACME"])
ROWS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["cpu", "cuda"]),
        "vendor": WORDS,
        "microarchitecture": WORDS,
        "cores": SIZES,
        "simd_bits": SIZES,
        "l1d_bytes": SIZES,
        "l2_bytes": SIZES,
        "l3_bytes": SIZES,
    }
)


@given(ROWS, ROWS)
def test_the_distance_is_symmetric_and_zero_for_equals(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert distance(a, a) == 0
    assert distance(a, b) == distance(b, a) >= 0


@given(ROWS, st.integers(1, 20))
def test_more_cores_of_difference_are_never_nearer(row: dict[str, Any], doublings: int) -> None:
    here = {**row, "cores": 4}
    near, far = {**here, "cores": 4 << (doublings - 1)}, {**here, "cores": 4 << doublings}

    assert distance(here, near) <= distance(here, far)


def test_kinds_do_not_mix() -> None:
    assert distance({"kind": "cpu"}, {"kind": "cuda"}) == math.inf


def test_the_terms_have_their_documented_weights() -> None:
    here = {
        "kind": "cpu",
        "vendor": "a",
        "microarchitecture": "u",
        "cores": 2,
        "simd_bits": 256,
        "l2_bytes": 1024,
    }

    assert distance(here, {**here, "microarchitecture": "w"}) == 4
    assert distance(here, {**here, "vendor": "b"}) == 2
    assert distance(here, {**here, "simd_bits": 512}) == 2
    assert distance(here, {**here, "cores": 8}) == 2
    assert distance(here, {**here, "l2_bytes": 4096}) == 1
    assert distance(here, {**here, "vendor": "A"}) == 0
    assert distance(here, {**here, "cores": None}) == 1


def test_the_device_itself_is_nearest_where_it_has_a_model(hub: Path) -> None:
    device = Device(device_id="acme-one", kind="cpu", vendor="ACME", microarchitecture="boom", cores=4, simd_bits=256)

    near = nearest_device(device.row())

    assert near is not None
    assert (near.device_id, near.distance) == ("acme-one", 0)
    assert near.reason == "There is a model for acme-one itself."


def test_only_devices_with_a_model_stand_in(hub: Path) -> None:
    near = nearest_device({"kind": "cpu", "vendor": "ACME", "microarchitecture": "bang", "cores": 16})

    assert near is not None
    assert near.device_id == "acme-one"
    assert near.reason == ("acme-one is the only cpu device with a model (same vendor; 4 cores against 16 here).")


def test_with_a_second_model_the_nearer_device_is_taken(hub: Path, make_model: Any) -> None:
    folder = make_model(hub / "models" / "costhub" / "acme-two-mlp", device_id="acme-two", arch="mlp")
    write_manifest(folder)

    near = nearest_device({"kind": "cpu", "vendor": "ACME", "microarchitecture": "bang", "simd_bits": 512})

    assert near is not None
    assert near.device_id == "acme-two"
    assert near.reason.startswith("acme-two is the nearest of 2 cpu devices with a model (same microarchitecture")


def test_a_device_without_a_model_is_given_the_one_for_any_of_its_kind(hub: Path, make_model: Any) -> None:
    register_device({"device_id": "any-cpu", "kind": "cpu"}, path=hub / "devices.json")
    folder = hub / "models/costhub/any-cpu-conditioned"
    write_manifest(make_model(folder, device_id="any-cpu", arch="conditioned", top_1=0.99))
    stranger = {"device_id": "acme-nine", "kind": "cpu", "vendor": "ACME", "cores": 4}

    found = nearest_device(stranger)

    assert found
    assert (found.device_id, found.reason) == (
        "any-cpu",
        "No model was trained for this device; any-cpu is used, which takes the device's figures as input.",
    )
    own = nearest_device({**stranger, "device_id": "acme-one"})
    assert own
    assert own.device_id == "acme-one"
    gpu = nearest_device({"device_id": "other-gpu", "kind": "cuda"})
    assert gpu
    assert gpu.device_id == "blit-gpu"


def test_a_model_of_a_device_that_no_index_lists_comes_before_the_one_for_any(hub: Path, make_model: Any) -> None:
    register_device({"device_id": "any-cpu", "kind": "cpu"}, path=hub / "devices.json")
    for device_id, arch in (("any-cpu", "conditioned"), ("my-board", "gbt")):
        write_manifest(make_model(hub / f"models/costhub/{device_id}-{arch}", device_id=device_id, arch=arch))

    found = nearest_device({"device_id": "my-board", "kind": "cpu", "cores": 4})

    assert found
    assert (found.device_id, found.reason) == ("my-board", "There is a model for my-board itself.")


@pytest.mark.parametrize("kind", ["cuda", "rocm"])
def test_gpus_of_both_makers_share_a_stand_in(kind: str, hub: Path, make_model: Any) -> None:
    register_device({"device_id": "any-gpu", "kind": "cuda"}, path=hub / "devices.json")
    write_manifest(make_model(hub / "models/costhub/any-gpu-conditioned", device_id="any-gpu", arch="conditioned"))

    found = nearest_device({"device_id": "other-gpu", "kind": kind, "cores": 8})

    assert found
    assert (found.device_id, math.isfinite(found.distance)) == ("any-gpu", True)
    known = nearest_device({"device_id": "blit-gpu", "kind": "cuda"})
    assert known
    assert known.device_id == "blit-gpu"


def test_no_device_of_the_kind_is_no_device(hub: Path) -> None:
    assert nearest_device({"kind": "metal"}) is None


def test_the_order_begins_with_the_device_itself_and_leaves_out_other_kinds(empty_hub: Path) -> None:
    names = ["acme-two", "blit-gpu", "acme-one", "nobody"]
    here = {"kind": "cpu", "vendor": "ACME", "microarchitecture": "bang", "cores": 8, "simd_bits": 512}

    assert nearest_order(here, names) == ["acme-two", "acme-one"]
    assert nearest_order({**here, "kind": "cuda"}, names) == ["blit-gpu"]
