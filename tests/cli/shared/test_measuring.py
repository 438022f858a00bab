"""What `costhub tune` makes of the names that it is given."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from costhub.cli.shared.measuring import (
    exported_among,
    folder_of,
    named_jobs,
    named_workloads,
    network_jobs,
    open_measurer,
)
from costhub.cli.shared.options import check_tracker_options
from costhub.collector.run.evaluator import Evaluator
from costhub.collector.workloads.suites import find_suites, find_workload
from costhub.dataset.workload import module_to_json
from costhub.errors import UnknownNameError, WorkloadError


def test_half_of_the_name_of_a_board_is_refused() -> None:
    check_tracker_options(None, None)
    check_tracker_options("127.0.0.1:9190", "pi4")
    for tracker, key in (("127.0.0.1:9190", None), (None, "pi4")):
        with pytest.raises(click.UsageError, match="go together"):
            check_tracker_options(tracker, key)


def test_a_folder_has_a_row_for_the_device_that_is_measured(tmp_path: Path) -> None:
    with open_measurer(["auto"], None, None, evaluator=Evaluator(cache_flush=True)) as measurer:
        folder = folder_of(tmp_path / "data", measurer)
        folder_of(tmp_path / "data", measurer)

        assert folder.devices()["device_id"].to_pylist() == [measurer.devices[0].device_id]
        assert measurer.evaluator.cache_flush
        found = named_workloads(["resnet18"], [], measurer)
        assert [each.name for each in found] == [each.name for each in find_suites(["resnet18"])]


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

    with pytest.raises(WorkloadError, match="is not a text file"):
        named_jobs(str(path))


def test_no_network_is_no_job_and_an_unknown_one_is_refused() -> None:
    assert network_jobs([], "{}") == []
    with pytest.raises(UnknownNameError, match="resnet18"):
        network_jobs(["resnet81"], "{}")
