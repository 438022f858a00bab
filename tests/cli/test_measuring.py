"""What `costhub tune` makes of the names that it is given."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from costhub.cli.measuring import exported_among, folder_of, named_jobs, named_workloads, network_jobs, opened_rig
from costhub.cli.options import check_tracker_options
from costhub.collector.workloads.suites import find_suites, find_workload
from costhub.dataset.workload import module_to_json
from costhub.errors import UnknownNameError, WorkloadError


def test_half_of_the_name_of_a_board_is_refused() -> None:
    check_tracker_options(None, None)
    check_tracker_options("127.0.0.1:9190", "pi4")
    for tracker, key in (("127.0.0.1:9190", None), (None, "pi4")):
        with pytest.raises(click.UsageError, match="belong together"):
            check_tracker_options(tracker, key)


def test_this_machine_is_a_rig_whose_folder_knows_it(tmp_path: Path) -> None:
    with opened_rig(["auto"], None, None, contributor="me", licence="CC0-1.0", flush_caches=True) as rig:
        folder = folder_of(tmp_path / "data", rig)
        folder_of(tmp_path / "data", rig)

        assert folder.devices()["device_id"].to_pylist() == [rig.sessions[0].device_id]
        assert (rig.sessions[0].contributor, rig.sessions[0].licence) == ("me", "CC0-1.0")
        assert rig.sessions[0].evaluator.cache_flush
        found = named_workloads(["resnet18"], [], rig)
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

    with pytest.raises(WorkloadError, match="is not text"):
        named_jobs(str(path))


def test_no_network_is_no_job_and_an_unknown_one_is_refused() -> None:
    assert network_jobs([], "{}") == []
    with pytest.raises(UnknownNameError, match="resnet18"):
        network_jobs(["resnet81"], "{}")
