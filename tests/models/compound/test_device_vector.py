from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from costhub.dataset.features.specs import find_spec
from costhub.dataset.schema import columns_of
from costhub.errors import ModelError
from costhub.hub.catalogue.devices import load_devices
from costhub.models.compound.device_vector import (
    KINDS,
    NAMES,
    NUMBERS,
    RELATIONS,
    DeviceScaler,
    Vector,
    device_vector,
    relation_columns,
    relation_places,
)

CPU = {"device_id": "a", "kind": "cpu", "cores": 2, "dram_gbs": 32.0}
ROCM = {"kind": "rocm"}


def named(vector: Vector) -> dict[str, float]:
    return dict(zip(NAMES, vector.tolist(), strict=True))


def test_every_number_is_a_column_of_the_devices_table() -> None:
    assert set(NUMBERS) <= {column.name for column in columns_of("devices")}


def test_a_number_enters_as_its_logarithm_and_a_gap_as_a_flag() -> None:
    found = named(device_vector({**CPU, "l3_bytes": None}))

    assert (found["log2_cores"], found["no_cores"]) == (1.0, 0.0)
    assert (found["log2_l3_bytes"], found["no_l3_bytes"]) == (0.0, 1.0)
    assert (found["log2_simd_bits"], found["no_simd_bits"]) == (0.0, 1.0)


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf])
def test_a_number_that_no_device_can_have_is_taken_as_not_known(value: float) -> None:
    found = named(device_vector({**CPU, "dram_gbs": value}))

    assert (found["log2_dram_gbs"], found["no_dram_gbs"]) == (0.0, 1.0)


@pytest.mark.parametrize(("kind", "flag"), [*((kind, kind) for kind in KINDS), ("hexagon", "other")])
def test_exactly_one_flag_says_the_kind(kind: str, flag: str) -> None:
    found = named(device_vector({**CPU, "kind": kind}))

    assert [name for name, value in found.items() if name.startswith("is_") and value] == [f"is_{flag}"]


@pytest.mark.parametrize("row", [{"device_id": "a"}, {"device_id": "a", "kind": None}, {"kind": 3}])
def test_a_device_of_no_kind_is_refused(row: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="Nothing is known about the device"):
        device_vector(row)


def test_the_devices_of_the_index_have_finite_vectors_and_probed_ones_differ() -> None:
    vectors = {device.device_id: device_vector(device.row()) for device in load_devices()}

    assert all(np.isfinite(vector).all() for vector in vectors.values())
    probed = [v.tobytes() for name, v in vectors.items() if name.startswith("amd-epyc-zen5-")]
    assert len(set(probed)) == len(probed) >= 6


def test_the_scaler_masks_what_does_not_differ_and_fills_gaps_with_the_mean() -> None:
    rows: list[dict[str, Any]] = [{**CPU, "cores": cores} for cores in (1, 4, None)]
    scaler = DeviceScaler.fit(np.stack([device_vector(row) for row in rows]))

    unlike = named(scaler(device_vector({**CPU, "cores": 16, "dram_gbs": 4096.0})))
    unknown = device_vector({"kind": "cpu"})

    assert unlike["log2_cores"] == 3.0  # log2 of 1 and 4: mean 1, standard deviation 1
    assert unlike["log2_dram_gbs"] == 0.0
    assert named(scaler(unknown))["log2_cores"] == 0.0
    assert named(scaler.filled(unknown))["log2_cores"] == 1.0
    assert named(scaler.filled(unknown))["log2_dram_gbs"] == 5.0


def test_vectors_are_scaled_alike_one_by_one_and_together() -> None:
    vectors = np.stack([device_vector(device.row()) for device in load_devices()])
    scaler = DeviceScaler.fit(vectors)

    np.testing.assert_array_equal(scaler(vectors), np.stack([scaler(vector) for vector in vectors]))
    assert np.isfinite(scaler(vectors)).all()


def test_the_scaler_knows_the_kinds_it_was_made_from_and_one_gpu_by_another() -> None:
    cpus, both = (DeviceScaler.fit(np.stack([device_vector(row) for row in rows])) for rows in ([CPU], [CPU, ROCM]))

    assert both.knows_kind(device_vector(ROCM))
    assert both.knows_kind(device_vector({"kind": "cuda"}))
    assert both.knows_kind(device_vector(CPU))
    assert not both.knows_kind(device_vector({"kind": "hexagon"}))
    assert not cpus.knows_kind(device_vector(ROCM))
    assert not DeviceScaler.fit(device_vector(ROCM)[None]).knows_kind(device_vector(CPU))


def test_every_relation_is_of_some_feature_spec_and_a_number_of_devices() -> None:
    columns = {name for spec in ("per_store@1", "relation@1", "tiles@1") for name in find_spec(spec).columns}

    assert [pair for pair in RELATIONS if pair[0] not in columns] == []
    assert [pair for pair in RELATIONS if f"log2_{pair[1]}" not in NAMES] == []


def test_a_working_set_of_the_size_of_the_cache_relates_to_it_by_zero() -> None:
    spec = find_spec("per_store@1")
    rows = np.zeros((2, spec.width), np.float32)
    rows[:, spec.columns.index("B0.unique_bytes")] = [15.0, 17.0]
    small, large = (device_vector({"kind": "cpu", "l1d_bytes": size}) for size in (1 << 15, 1 << 17))
    places = relation_places("per_store@1")
    at = places.index((spec.columns.index("B0.unique_bytes"), NAMES.index("log2_l1d_bytes")))

    assert relation_columns(rows, np.stack([small, large]), places)[:, at].tolist() == [0.0, 0.0]
    assert relation_columns(rows, np.stack([large, small]), places)[:, at].tolist() == [-2.0, 2.0]


@pytest.mark.parametrize("spec", ["trace_tokens@1", "demo@1", ""])
def test_rows_without_such_columns_have_no_relations(spec: str) -> None:
    places = relation_places(spec)

    assert relation_columns(np.ones((3, 4), np.float32), np.ones((3, len(NAMES))), places).shape == (3, 0)
