from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import costhub
from costhub.dataset.check.tables import impossible_devices, impossible_workloads, useful_share
from costhub.dataset.folder import DataFolder
from costhub.dataset.schema import columns_of


def device(**values: Any) -> dict[str, Any]:
    return dict.fromkeys(column.name for column in columns_of("devices")) | {"device_id": "d", "kind": "cpu"} | values


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"cores": 132, "l1d_bytes": 262144, "l2_bytes": 62914560, "memory_bytes": 150 << 30},
        {"l2_bytes": 512 << 10, "l3_bytes": 512 << 10},
        {"l1d_bytes": 32 << 10, "memory_bytes": 1 << 30, "peak_gflops": 0.3},
        {"thread_scaling": [1.0, 1.9], "bandwidth_ladder": [{"bytes": 8192, "gbs": 500.0}]},
    ],
)
def test_a_device_that_can_be(values: dict[str, Any]) -> None:
    assert list(impossible_devices(device(**values))) == []


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"peak_gflops": 0.0}, "peak_gflops is not a number above 0"),
        ({"peak_gflops": float("nan")}, "peak_gflops is not a number"),
        ({"peak_gflops": 2.5e11}, "peak_gflops is above"),
        ({"cores": 0}, "cores is not a number above 0"),
        ({"l1d_bytes": 2 << 20, "l2_bytes": 1 << 20}, "l1d_bytes is larger than l2_bytes"),
        ({"l1d_bytes": 2 << 20, "l3_bytes": 1 << 20}, "l1d_bytes is larger than l3_bytes"),
        ({"device_id": " "}, "is empty"),
        ({"vendor": "emulator"}, "an imitation of the device"),
        ({"peak_gops_int8": -1.0}, "peak_gops_int8 is not a number above 0"),
        ({"thread_scaling": [1.0, None]}, "thread_scaling holds a number"),
        ({"bandwidth_ladder": [{"bytes": 8192, "gbs": 0.0}]}, "bandwidth_ladder holds a number"),
    ],
)
def test_a_device_that_cannot_be(values: dict[str, Any], word: str) -> None:
    [message] = impossible_devices(device(**values))

    assert word in message


def test_a_sound_workload(workload: Any) -> None:
    assert list(impossible_workloads(workload(0))) == []
    assert list(impossible_workloads(workload(0, networks=None))) == []
    # numpy does not know every dtype of TVM, and then says nothing of bytes.
    assert list(impossible_workloads(workload(0, dtypes=["custom[posit]8"] * 3, bytes=1.0))) == []


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"flop": -1.0}, "flop"),
        ({"flop": float("nan")}, "flop"),
        ({"shapes": "8x8"}, "shapes is not the JSON"),
        ({"shapes": "[[8,8],[8,8],[8,-8]]"}, "shapes is not the JSON"),
        ({"shapes": "[[8,8]]"}, "different numbers of arguments"),
        ({"dtypes": ["float16"] * 3}, "bytes does not follow"),
        ({"dtypes": [None] * 3}, "dtypes"),
        ({"bytes": float("nan")}, "bytes does not follow"),
        ({"networks": [{"name": "n", "weight": -1.0}]}, "weight"),
        ({"networks": [{"name": "n", "weight": None}]}, "weight"),
    ],
)
def test_a_workload_that_does_not_go_together(workload: Any, values: dict[str, Any], word: str) -> None:
    [message] = impossible_workloads(workload(0, **values))

    assert word in message


EMBEDDED = Path(costhub.__file__).parent / "hub/embedded/datasets/costhub/amd-epyc-zen5"


def test_only_the_transposed_convolution_multiplies_zeros_of_its_own() -> None:
    shares = {r["name"]: useful_share(r["module_json"]) for r in DataFolder.open(EMBEDDED).workloads().to_pylist()}

    assert shares.pop("metaschedule.t2d") == 0.25  # stride 2 in both directions
    assert set(shares.values()) == {1.0}


@pytest.mark.parametrize(
    "nodes",
    [
        None,
        [],
        [{"type": "prim.EQ"}],
        [{"type": "prim.EQ", "data": {"a": 99}}],
        [{"type": "prim.EQ", "data": {"a": "x"}}],
        [{"type": "prim.EQ", "data": {"a": 0}}],
        [7],
    ],
)
def test_a_text_that_is_no_module_has_all_its_flop(nodes: object) -> None:
    assert useful_share(json.dumps({"nodes": nodes, "x": "prim.FloorMod"})) == 1.0


@pytest.mark.parametrize(("divisor", "share"), [(2, 0.5), (0, 1.0), (-2, 1.0), (10**9, 1.0), (True, 1.0)])
def test_absurd_strides_do_not_open_a_gap(divisor: int, share: float) -> None:
    nodes = [
        {"type": "prim.EQ", "data": {"a": 1}},
        {"type": "prim.FloorMod", "data": {"b": 2}},
        {"type": "ir.IntImm", "data": {"value": 3}},
        {"type": "int", "data": divisor},
    ]

    assert useful_share(json.dumps({"nodes": nodes})) == share
