"""What `costhub tune` makes of the names that it is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from costhub.cli.tune_jobs import exported_among, named_jobs, network_jobs
from costhub.collector.suite import find_workload
from costhub.dataset.workload import module_to_json
from costhub.errors import UnknownNameError, WorkloadError


def test_a_name_a_suite_and_a_file_are_jobs(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(module_to_json(find_workload("matmul.128x128x128").module()))

    assert [job.name for job in named_jobs("matmul.128x128x128")] == ["matmul.128x128x128"]
    assert [job.name for job in named_jobs(str(path))] == ["mine"]
    assert len(named_jobs("resnet18")) > 5


def test_a_file_of_torch_export_is_a_network() -> None:
    assert exported_among(["a.pt2", "resnet18.c7", "b.pt2"]) == (["resnet18.c7"], ["a.pt2", "b.pt2"])


def test_bytes_that_are_no_text_are_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "bytes.json"
    path.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(WorkloadError, match="is not text"):
        named_jobs(str(path))


def test_no_network_is_no_job_and_an_unknown_one_is_refused() -> None:
    assert network_jobs([], "{}") == []
    with pytest.raises(UnknownNameError, match="resnet18"):
        network_jobs(["resnet81"], "{}")
