"""Folders from before the suites knew their networks."""

from __future__ import annotations

from pathlib import Path

from costhub.collector.networks import fill_networks
from costhub.collector.suite import find_workload
from costhub.dataset.folder import DataFolder
from costhub.dataset.workload_row import workload_row


def test_the_workloads_of_the_suites_get_their_networks_and_others_stay(tmp_path: Path) -> None:
    folder = DataFolder.create(tmp_path / "data")
    first = workload_row(find_workload("resnet18.c9").module(), name="my layer", operator="conv")
    second = workload_row(find_workload("softmax.64x1000").module(), name="head", operator="softmax")
    other = {**first, "workload_id": "f" * 64, "name": "other", "networks": [{"name": "mine", "weight": 2.0}]}
    folder.put_workloads([first, second, other])

    assert fill_networks(folder) == 1

    rows = {row["name"]: row for row in folder.workloads().to_pylist()}
    networks = [{"name": "resnet-18", "weight": 3.0}, {"name": "resnet-50", "weight": 6.0}]
    assert rows["my layer"] == {**first, "networks": networks}
    assert rows["head"] == second
    assert rows["other"] == other
    assert fill_networks(folder) == 0
