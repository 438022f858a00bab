from __future__ import annotations

from typing import Any

import pytest

from costhub.dataset.check.devices import impossible_devices
from costhub.dataset.schema import columns_of


def device(**values: Any) -> dict[str, Any]:
    return (
        dict.fromkeys(column.name for column in columns_of("devices"))
        | {"device_id": "d", "kind": "cpu"}
        | values
    )


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
        ({"peak_gflops": 0.0}, "peak_gflops is no number above 0"),
        ({"peak_gflops": float("nan")}, "peak_gflops is no number"),
        ({"peak_gflops": 2.5e11}, "peak_gflops is above"),
        ({"cores": 0}, "cores is no number above 0"),
        ({"l1d_bytes": 2 << 20, "l2_bytes": 1 << 20}, "l1d_bytes is larger than l2_bytes"),
        ({"l1d_bytes": 2 << 20, "l3_bytes": 1 << 20}, "l1d_bytes is larger than l3_bytes"),
        ({"device_id": " "}, "is empty"),
        ({"peak_gops_int8": -1.0}, "peak_gops_int8 is no number above 0"),
        ({"thread_scaling": [1.0, None]}, "thread_scaling holds a number"),
        ({"bandwidth_ladder": [{"bytes": 8192, "gbs": 0.0}]}, "bandwidth_ladder holds a number"),
    ],
)
def test_a_device_that_cannot_be(values: dict[str, Any], word: str) -> None:
    [message] = impossible_devices(device(**values))

    assert word in message
