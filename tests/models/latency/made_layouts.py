"""Two small datasets, in one of which the kernels of a network were measured in both layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from costhub.collector.propose.spaces import BLOCKED, DEFAULT
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.folder import DataFolder
from costhub.dataset.operator_class import classify
from costhub.dataset.schema import table_from_rows
from costhub.dataset.splits.split import Split, put_split
from costhub.dataset.workload import workload_id, workload_row

NETWORK, DEVICE, CALLS = "net", "board", 2.0
"""The network calls its one kernel in torch's layouts so often."""
EACH = 6
"""Programs of a kernel in one space."""


@cache
def kernels() -> tuple[str, str]:
    """Ids of the network's kernel in torch's layouts, which it has in blocked ones too, and of one of those alone."""
    plain, blocked = (workload_id(find_workload(name).module()) for name in _WORKLOADS)
    return plain, blocked


_WORKLOADS = "softmax.64x1000", "softmax.512x512"
Spaces = Sequence[str | None]


def made_layouts(datasets: Path) -> Path:
    """Fills a folder with datasets.

    Of the first kernel, `with-blocked` has `EACH` programs without a space, which take 1, 2, ... ms, as many of the
    default space, which continue that, and as many blocked ones, all of them faster; of the second it has nine blocked
    ones. `plain` has two programs of the first kernel, and says how often the network calls it.
    """
    plain, blocked = kernels()
    spaces: dict[str, Spaces] = {plain: [None] * EACH + [DEFAULT] * EACH + [BLOCKED] * EACH, blocked: [BLOCKED] * 9}
    _fill(datasets / "with-blocked", spaces, {plain: CALLS + 3, blocked: 1.0})
    _fill(datasets / "plain", {plain: [DEFAULT] * 2}, {plain: CALLS})
    return datasets


def _fill(place: Path, spaces: Mapping[str, Spaces], calls: Mapping[str, float]) -> None:
    folder = DataFolder.create(place)
    figures = {"cores": 2, "simd_bits": 256, "peak_gflops": 100.0, "dram_gbs": 20.0}
    folder.put_device({"device_id": DEVICE, "kind": "cpu", "microarchitecture": DEVICE, **figures})
    for name in _WORKLOADS:
        mod = find_workload(name).module()
        weight = calls.get(workload_id(mod))
        if weight is not None:
            folder.put_workloads([workload_row(mod, name=name, operator=classify(mod), networks=[(NETWORK, weight)])])
    rows = [_row(workload, number, space) for workload, own in spaces.items() for number, space in enumerate(own, 1)]
    with folder.writer(DEVICE) as writer:
        writer.extend(table_from_rows("measurements", rows))
    put_split(place, Split("workload-40-seed0", kernels()[:1], kernels()[1:], seed=0))


def _row(workload: str, number: int, space: str | None) -> dict[str, object]:
    name, seconds = f"{workload[:8]}-{number}", number / (1e5 if space == BLOCKED else 1e3)
    ids = {"record_id": f"{name}-r", "program_id": f"{name}-p", "workload_id": workload, "device_id": DEVICE}
    how = {"target": '{"kind":"llvm"}', "trace": "[[],[]]", "proposed_by": "random", "space": space}
    return {**ids, **how, "status": "ok", "run_s": [seconds] * 3}
