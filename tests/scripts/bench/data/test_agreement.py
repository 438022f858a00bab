"""How far devices agree: pairs of one kind, whatever they share, and whose code their latencies are of."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest

from costhub.hub.catalogue.hubs import EMBEDDED
from scripts.bench.data import agreement as bench
from scripts.bench.data.agreement import (
    MIXED,
    NATIVE,
    TRANSPLANTED,
    DeviceLatencies,
    agreement,
    embedded_devices,
    rows_of,
)


def latencies(programs: Mapping[str, float], workload: str = "w") -> pa.Table:
    columns = {"workload_id": [workload] * len(programs), "program_id": list(programs)}
    ids = pa.table(columns, schema=pa.schema([(name, pa.string()) for name in columns]))
    return ids.append_column("latency_s", pa.array(list(programs.values()), pa.float64()))


ONE = latencies({"a": 1.0, "b": 2.0, "c": 3.0})


def test_devices_agree_on_the_pairs_that_both_order_alike() -> None:
    found = agreement(ONE, latencies({"a": 20.0, "b": 10.0, "c": 30.0, "d": 5.0}))

    assert (found["shared"], found["workloads"], found["programs"]) == (3, 1, 3)
    assert found["pairwise"] == pytest.approx(2 / 3)
    assert found["top_1"] == pytest.approx(1 / 2)  # the other's fastest is b


@pytest.mark.parametrize(
    ("other", "shared"),
    [
        (latencies({"d": 1.0, "e": 2.0}), 0),
        (latencies({"a": 1.0, "b": 2.0}, "v"), 0),
        (latencies({"a": 1.0, "d": 2.0}), 1),
        (latencies({}), 0),
    ],
)
def test_without_two_programs_of_a_workload_nothing_is_compared(other: pa.Table, shared: int) -> None:
    found = agreement(ONE, other)

    assert (found["shared"], found["workloads"], found["programs"]) == (shared, 0, 0)
    assert (found["pairwise"], found["top_1"]) == (None, None)


def test_every_two_of_one_kind_are_compared_and_mixed_pairs_are_marked() -> None:
    strange = latencies({"x": 1.0, "y": 2.0})
    devices = {
        "cpu-a": DeviceLatencies("CPU", NATIVE, ONE),
        "cpu-b": DeviceLatencies("CPU", NATIVE, strange),
        "gpu-a": DeviceLatencies("GPU", NATIVE, ONE),
        "gpu-b": DeviceLatencies("GPU", TRANSPLANTED, ONE),
        "gpu-c": DeviceLatencies("GPU", TRANSPLANTED, strange),
    }

    rows = [(row["kind"], row["one"], row["other"], row["measured"], row["shared"]) for row in rows_of(devices)]

    assert rows == [
        ("CPU", "cpu-a", "cpu-b", NATIVE, 0),
        ("GPU", "gpu-a", "gpu-b", MIXED, 3),
        ("GPU", "gpu-a", "gpu-c", MIXED, 0),
        ("GPU", "gpu-b", "gpu-c", TRANSPLANTED, 0),
    ]


def test_every_device_of_the_package_is_of_a_kind_and_the_quick_form_takes_the_transplanted_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bench, "median_latencies", lambda folder, devices: ONE)  # it takes a minute
    shards = EMBEDDED.glob("datasets/costhub/*/measurements/*")

    devices, quick = embedded_devices(quick=False), embedded_devices(quick=True)

    assert set(devices) == {path.name for path in shards}
    is_gpu = [each.kind == "GPU" for each in devices.values()]
    assert is_gpu == sorted(is_gpu) == [name.startswith(("nvidia-", "amd-mi")) for name in devices]
    assert set(quick) == {"amd-mi50", "nvidia-k80", "nvidia-v100"}
    assert {name for name, each in devices.items() if each.measured == TRANSPLANTED} == set(quick)
    assert {each.measured for each in quick.values()} == {TRANSPLANTED}
