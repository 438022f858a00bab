from __future__ import annotations

import hashlib
import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.doctor.examine import examine_database
from costhub.dataset.doctor.manifest import manifest

RECORDS, WORKLOADS = "database_tuning_record.json", "database_workload.json"


def test_the_manifest_says_what_is_there(search: Any, tmp_path: Path) -> None:
    search.change(0, run_secs=[1e10])
    search.records.append(b"")
    folder = search.write(tmp_path / "db")

    found = manifest(examine_database(folder, workers=1, progress=False))

    assert json.loads(json.dumps(found)) == found
    assert (found["lines"], found["records"], found["failed"]) == (13, 12, 1)
    assert found["findings"] == {"DB02": 1, "DB17": 1}
    assert [file["sha256"] for file in found["files"]] == [
        hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in (WORKLOADS, RECORDS)
    ]
    assert sum(each["records"] for each in found["workloads"]) == 12
    times = [json.loads(line)[1][1] for line in search.records[1:-1]]
    assert min(each["best_us"] for each in found["workloads"]) == pytest.approx(
        min(statistics.median(each) for each in times) * 1e6
    )
    [target] = found["targets"]
    assert target["records"] == 12
    assert target["target"]["kind"] == "llvm"
