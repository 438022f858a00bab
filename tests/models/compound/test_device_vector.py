from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from costhub.dataset.features.specs import find_spec
from costhub.dataset.schema import columns_of
from costhub.errors import ModelError
from costhub.hub.catalogue.devices import load_devices
from costhub.models.compound.device_vector import (
    DEVICE_1,
    DEVICE_2,
    KINDS,
    LAYOUTS,
    NUMBERS,
    TARGET_NUMBERS,
    DeviceLayout,
    DeviceScaler,
    Vector,
    device_vector,
    relation_columns,
    relation_places,
)

CPU = {"device_id": "a", "kind": "cpu", "cores": 2, "dram_gbs": 32.0}
ROCM = {"kind": "rocm"}
TARGET = {"kind": "rocm", "thread_warp_size": 64, "max_threads_per_block": 1024, "max_shared_memory_per_block": 65536}
GPUS = ("nvidia-k80", "nvidia-v100", "amd-mi50", "nvidia-a100", "nvidia-h200")


def named(vector: Vector, layout: DeviceLayout = DEVICE_1) -> dict[str, float]:
    return dict(zip(layout.names, vector.tolist(), strict=True))


def test_the_entries_of_device_1_are_those_that_models_have_been_saved_with() -> None:
    assert DEVICE_1.names[:2] + DEVICE_1.names[15:17] == (
        "log2_cores",
        "log2_simd_bits",
        "log2_launch_overhead_us",
        "no_cores",
    )
    assert DEVICE_1.names[31:] == ("no_launch_overhead_us", *(f"is_{kind}" for kind in (*KINDS, "other")))
    assert (len(DEVICE_1.names), len(DEVICE_1.relations)) == (39, 50)


def test_device_2_holds_device_1_and_what_the_target_of_a_gpu_says() -> None:
    row = {**ROCM, "cores": 60, "target": json.dumps(TARGET)}

    before, found = named(device_vector(row)), named(device_vector(row, DEVICE_2), DEVICE_2)

    assert {name: found[name] for name in before} == before
    assert [found[f"log2_{name}"] for name in TARGET_NUMBERS] == [6.0, 10.0, 16.0]
    assert [found[f"no_{name}"] for name in TARGET_NUMBERS] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "target",
    [
        None,
        {"thread_warp_size": 32},
        '{"kind": "llvm", "mcpu": "znver5", "num-cores": 2}',
        "llvm -mcpu=znver5",
        "[32]",
        "[" * 100_000,
        '{"thread_warp_size": "32", "max_threads_per_block": true, "max_shared_memory_per_block": null}',
        '{"thread_warp_size": 0, "max_threads_per_block": -1'
        + "0" * 400
        + ', "max_shared_memory_per_block": 1'
        + "0" * 400
        + "}",
        '{"thread_warp_size": 32.5, "max_threads_per_block": NaN, "max_shared_memory_per_block": Infinity}',
    ],
)
def test_what_a_target_does_not_say_is_flagged(target: object) -> None:
    found = named(device_vector({**CPU, "target": target}, DEVICE_2), DEVICE_2)

    assert [found[f"no_{name}"] for name in TARGET_NUMBERS] == [1.0, 1.0, 1.0]
    assert [found[f"log2_{name}"] for name in TARGET_NUMBERS] == [0.0, 0.0, 0.0]


def test_a_column_of_such_a_name_is_not_read() -> None:
    found = named(device_vector({**CPU, "thread_warp_size": 32}, DEVICE_2), DEVICE_2)

    assert found["no_thread_warp_size"] == 1.0


def test_of_five_gpus_these_numbers_say_no_more_than_which_one_is_of_amd() -> None:
    """docs/adr/0012-any-cpu.md says so; a sixth GPU may change it, and then device@2 is worth another trial."""
    rows = {device.device_id: device.row() for device in load_devices() if device.device_id in GPUS}
    vectors = np.stack([device_vector(rows[name], DEVICE_2) for name in GPUS])
    known, own = DeviceScaler.fit(vectors, DEVICE_2), DEVICE_2.names

    scaled = {name: values for name, values in zip(own, known(vectors).T, strict=True)}
    for name in TARGET_NUMBERS:
        if name != "max_threads_per_block":
            np.testing.assert_allclose(scaled[f"log2_{name}"], scaled["is_rocm"])
    assert not scaled["log2_max_threads_per_block"].any()


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


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=[*LAYOUTS])
def test_the_devices_of_the_index_have_finite_vectors_and_probed_ones_differ(layout: DeviceLayout) -> None:
    vectors = {device.device_id: device_vector(device.row(), layout) for device in load_devices()}

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


def test_the_scaler_of_device_2_fills_what_the_target_does_not_say() -> None:
    targets = (TARGET, {**TARGET, "thread_warp_size": 16}, {})
    rows = [{**ROCM, "target": json.dumps(target)} for target in targets]
    vectors = np.stack([device_vector(row, DEVICE_2) for row in rows])
    scaler = DeviceScaler.fit(vectors, DEVICE_2)

    assert named(scaler.filled(vectors[2]), DEVICE_2)["log2_thread_warp_size"] == 5.0
    assert [named(row, DEVICE_2)["log2_thread_warp_size"] for row in scaler(vectors)] == [1.0, -1.0, 0.0]
    assert scaler.knows_kind(device_vector({"kind": "cuda"}, DEVICE_2))
    assert not scaler.knows_kind(device_vector(CPU, DEVICE_2))


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=[*LAYOUTS])
def test_vectors_are_scaled_alike_one_by_one_and_together(layout: DeviceLayout) -> None:
    vectors = np.stack([device_vector(device.row(), layout) for device in load_devices()])
    scaler = DeviceScaler.fit(vectors, layout)

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


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=[*LAYOUTS])
def test_every_relation_is_of_some_feature_spec_and_a_number_of_devices(layout: DeviceLayout) -> None:
    columns = {name for spec in ("per_store@1", "relation@1", "tiles@1") for name in find_spec(spec).columns}

    assert [pair for pair in layout.relations if pair[0] not in columns] == []
    assert [pair for pair in layout.relations if f"log2_{pair[1]}" not in layout.names] == []
    assert len(set(layout.relations)) == len(layout.relations)


def test_a_block_of_as_many_threads_as_a_warp_relates_to_it_by_zero() -> None:
    spec = find_spec("tiles@1")
    rows = np.zeros((1, spec.width), np.float32)
    rows[:, spec.columns.index("thread")] = 6.0
    places = relation_places("tiles@1", DEVICE_2)
    at = places.index((spec.columns.index("thread"), DEVICE_2.names.index("log2_thread_warp_size")))
    vector = device_vector({**ROCM, "target": json.dumps(TARGET)}, DEVICE_2)

    assert relation_columns(rows, vector[None], places)[:, at].tolist() == [0.0]
    assert len(places) == len(relation_places("tiles@1")) + 7


def test_a_working_set_of_the_size_of_the_cache_relates_to_it_by_zero() -> None:
    spec = find_spec("per_store@1")
    rows = np.zeros((2, spec.width), np.float32)
    rows[:, spec.columns.index("B0.unique_bytes")] = [15.0, 17.0]
    small, large = (device_vector({"kind": "cpu", "l1d_bytes": size}) for size in (1 << 15, 1 << 17))
    places = relation_places("per_store@1")
    at = places.index((spec.columns.index("B0.unique_bytes"), DEVICE_1.names.index("log2_l1d_bytes")))

    assert relation_columns(rows, np.stack([small, large]), places)[:, at].tolist() == [0.0, 0.0]
    assert relation_columns(rows, np.stack([large, small]), places)[:, at].tolist() == [-2.0, 2.0]


@pytest.mark.parametrize("spec", ["trace_tokens@1", "demo@1", ""])
def test_rows_without_such_columns_have_no_relations(spec: str) -> None:
    places = relation_places(spec)

    assert relation_columns(np.ones((3, 4), np.float32), np.ones((3, len(DEVICE_1.names))), places).shape == (3, 0)
