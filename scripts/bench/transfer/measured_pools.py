"""The measured programs of each workload with their knobs, for searches that look up latencies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.blocks import open_devices
from costhub.dataset.folder import DataFolder
from costhub.dataset.programs import Programs
from costhub.models.architectures import new_model
from costhub.models.protocol import CostModel
from costhub.search.knobs import Knobs
from scripts.bench.common.data import folds
from scripts.bench.transfer.tasks import SPEC, Devices

FOLDS = 4
"""The model for a workload has learned from the workloads of the other folds."""


@dataclass(frozen=True)
class Pool:
    """Programs of one workload on one device, each once."""

    workload_id: str
    programs: Programs
    knobs: list[Knobs]
    source: CostModel
    """A model that has seen neither the workload nor, where the devices differ, the device."""


def pools(source: Devices, target: Devices, *, programs: int, workloads: int) -> Iterator[Pool]:
    """Workloads of the target with at least `programs` programs, evenly over their ids, with source models.

    Args:
        source: The devices to learn from.
        target: One device, perhaps among them.
        programs: The least number of different programs of a workload.
        workloads: The most workloads.
    """
    (device,) = target.devices
    (opened,) = open_devices(target.data, device, None, SPEC, failures=False)
    measured, _ = opened.with_features(progress=True)
    own = measured.load(progress=True)
    candidates = {}
    for number, name in enumerate(own.workload_ids):
        places = np.flatnonzero(own.workload == number)
        if len(places) >= programs:
            knobs = _knobs(target, measured.record_ids.take(pa.array(places)))
            first = np.unique([knobs.index(each) for each in knobs])
            if len(first) >= programs:
                candidates[name] = own.select(places[first]), [knobs[place] for place in first]
    chosen = set(sorted(candidates)[:: max(1, len(candidates) // workloads)][:workloads])
    learned_from = source.programs()
    about = DataFolder.open(target.data).workloads(["workload_id", "operator"]).to_pylist()
    for part in folds(about, FOLDS, 0):
        tested = sorted(chosen & part.test)
        if tested:
            model = new_model("gbt", feature_spec=SPEC, options={"objective": "log"})
            others = set(learned_from.workload_ids) - part.test
            model.fit(learned_from.of_workloads(others), None, seed=0, progress=False)
            for name in tested:
                yield Pool(name, *candidates[name], model)


def _knobs(target: Devices, record_ids: pa.Array) -> list[Knobs]:
    """The knobs of records, in their order."""
    where = pc.field("record_id").isin(record_ids)
    folder = DataFolder.open(target.data)
    table = folder.select_measurements(list(target.devices), ["record_id", "trace"], where)
    order = pc.index_in(record_ids, value_set=table["record_id"].combine_chunks())
    return [Knobs.read(text) for text in table["trace"].take(order).to_pylist()]
