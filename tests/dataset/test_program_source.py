from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from costhub.dataset.blocks import ProgramSource, open_sources
from costhub.dataset.features.cache import FeatureCache
from costhub.dataset.features.specs import find_spec
from costhub.dataset.folder import DataFolder
from costhub.errors import DataError

SPEC = find_spec("per_store@1")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Six measurements of two workloads in turn; the third failed, the fourth has no features."""
    root = DataFolder.create(tmp_path / "data")
    ids = [f"r{n}" for n in range(6)]
    with root.writer("cpu0") as writer:
        for n, record_id in enumerate(ids):
            outcome = (
                {"status": "ok", "run_s": [1.0 + n]} if n != 2 else {"status": "run_error", "error": "x", "run_s": []}
            )
            writer.append(
                {
                    "record_id": record_id,
                    "program_id": record_id,
                    "workload_id": f"w{n % 2}",
                    "device_id": "cpu0",
                    "target": '{"kind":"llvm"}',
                    "trace": "[[],[]]",
                    "proposed_by": "random",
                    **outcome,
                }
            )
    rows = [np.full((1, SPEC.width), n, np.float32) if n != 3 else None for n in range(6)]
    FeatureCache(root.path, "cpu0", SPEC).append(ids, rows)
    return root.path


def opened(data: Path, *, failures: bool) -> ProgramSource:
    (source,) = open_sources(data, "cpu0", None, "per_store@1", failures=failures)
    return source


@pytest.mark.parametrize(
    ("failures", "records", "latency_s"),
    [
        (False, ["r0", "r4", "r1", "r3", "r5"], [1.0, 5.0, 2.0, 4.0, 6.0]),
        (True, ["r0", "r2", "r4", "r1", "r3", "r5"], [1.0, np.inf, 5.0, 2.0, 4.0, 6.0]),
    ],
)
def test_measurements_are_sorted_by_workload_and_keep_their_order_within(
    data: Path, failures: bool, records: list[str], latency_s: list[float]
) -> None:
    measured = opened(data, failures=failures).measured
    assert measured.record_ids.to_pylist() == records
    assert measured.latency_s.tolist() == latency_s


def test_programs_without_features_are_left_out_and_some_can_be_read_alone(data: Path) -> None:
    source = opened(data, failures=False)
    complete, _ = source.complete(source.measured, progress=False)
    assert complete.record_ids.to_pylist() == ["r0", "r4", "r1", "r5"]

    last = source.load(complete.take(np.array([1, 3])), progress=False)
    assert last.rows[:, 0].tolist() == [4.0, 5.0]
    assert last.workload_ids == ("w0", "w1")
    assert last.device_ids == ("cpu0",)


def test_an_unknown_device_is_refused(data: Path) -> None:
    with pytest.raises(DataError, match="cpu9"):
        open_sources(data, ["cpu0", "cpu9"], None, "per_store@1", failures=False)
