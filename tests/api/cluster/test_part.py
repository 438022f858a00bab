"""What a worker does: the missing programs only, and a reason instead of an exception."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from costhub.api.cluster.part import (
    Part,
    WorkerFacts,
    measure_part,
    measuring_versions,
    split_parts,
    worker_facts,
)
from costhub.api.collect import CollectOptions
from costhub.collector.device.identity import identify
from costhub.collector.workloads.network_kernels import TextWorkload
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.shards.layout import empty_table
from costhub.dataset.workload import module_to_json
from costhub.errors import DeviceError


def sent(name: str) -> TextWorkload:
    found = find_workload(name)
    return TextWorkload(found.name, found.family, (("net", 2.0),), module_to_json(found.module()))


def part(**changed: Any) -> Part:
    given: dict[str, Any] = {
        "workloads": (sent("matmul.128x128x128"),),
        "known": empty_table("measurements"),
        "trials": 3,
        "until": time.time() + 600,
        "device": "auto",
        "options": CollectOptions(contributor="Ada", stop="gain"),
        "seed": 0,
        "agreed": worker_facts("auto"),
    }
    return Part(**{**given, **changed})


def test_only_what_is_missing_is_measured() -> None:
    first = measure_part(part())
    second = measure_part(part(known=first.rows, trials=5))

    assert (first.rows.num_rows, second.rows.num_rows) == (3, 2)
    assert not set(first.rows["program_id"].to_pylist()) & set(second.rows["program_id"].to_pylist())
    assert set(second.rows["contributor"].to_pylist()) == {"Ada"}
    assert [row["device_id"] for row in first.devices] == [identify()["device_id"]]
    assert pc.all(pc.is_valid(first.rows["session"])).as_py()


def test_after_its_time_nothing_is_measured() -> None:
    late = measure_part(part(until=time.time() - 1))

    assert (late.rows.num_rows, late.devices, dict(late.problems)) == (0, (), {})


def test_a_device_that_fails_is_a_problem_of_its_workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise DeviceError("It is gone.")

    monkeypatch.setattr("costhub.api.cluster.part.open_measurer", fail)

    assert dict(measure_part(part()).problems) == {"matmul.128x128x128": "It is gone."}


def test_a_worker_that_joins_and_is_another_machine_measures_nothing() -> None:
    other = measure_part(part(agreed=WorkerFacts("acme-desk-4c", {"kind": "llvm"}, measuring_versions())))

    assert other.rows.num_rows == 0
    (problem,) = other.problems.values()
    assert "A worker that joined is" in problem
    assert "the others are acme-desk-4c" in problem


def test_a_worker_says_what_it_is() -> None:
    facts = worker_facts("auto")

    assert (facts.device_id, facts.versions) == (identify()["device_id"], measuring_versions())
    assert facts.target["kind"] == "llvm"
    with pytest.raises(DeviceError):
        worker_facts("toaster")


@pytest.mark.parametrize("programs", [1, 5, 1000])
def test_parts_hold_every_workload_once(programs: int) -> None:
    parts = split_parts([3, 9, 1, 1, 1, 30], programs)

    assert [each for part in parts for each in part] == list(range(6))
    assert all(parts)
    assert split_parts([], programs) == []


def test_files_do_not_outlive_the_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    measure_part(part(until=0.0))
    assert not list(tmp_path.iterdir())
