"""Provides fill_networks: the networks of a data folder's workloads, as the suites know them."""

from __future__ import annotations

from costhub.collector.suite import find_suites
from costhub.dataset.folder import DataFolder
from costhub.dataset.workload import workload_id


def fill_networks(folder: DataFolder) -> int:
    """Writes into the workloads of the suites which networks they occur in, for folders that do not say.

    Workloads are recognised by their ids, whatever they are called; all others stay as they are.

    Returns:
        How many rows were changed.

    Raises:
        DataError: The workloads cannot be read.
    """
    known = {
        workload_id(workload.module()): [
            {"name": name, "weight": weight} for name, weight in workload.networks
        ]
        for workload in find_suites(["all"])
    }
    rows = folder.workloads().to_pylist()
    changed = [
        {**row, "networks": known[row["workload_id"]]}
        for row in rows
        if row["workload_id"] in known and (row["networks"] or []) != known[row["workload_id"]]
    ]
    if changed:
        folder.put_workloads(changed)
    return len(changed)
