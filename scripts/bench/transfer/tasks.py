"""Pairs of source and target for transfer benchmarks, and what each side may learn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.programs import Programs
from costhub.hub.catalogue.devices import find_device
from costhub.models.architectures import new_model
from costhub.models.protocol import CostModel
from costhub.transfer.guard import Guard
from costhub.transfer.trial_order import BATCH_SIZE, PER_WORKLOAD, round_robin
from scripts.bench.common.data import DATASETS, folds, median_latencies

SPEC = "tiles@1"
PARTS = 4
"""The target's workloads are dealt into so many parts; a seed holds one out."""
MEMBERS = "gbt(objective=log) mlp"
MOSES_SPEC = "per_store@1"
MOSES_NETWORK = {"form": "moses", "hidden": 512, "bins": 0, "objective": "rank"}
"""The network of Moses (Zhao et al., 2022, section 4) and the features that it reads, TVM's."""
GPUS = ("nvidia-k80", "nvidia-v100", "amd-mi50", "nvidia-a100", "nvidia-h200")
"""Each is the only device of the embedded dataset of its name."""
GPU_PROGRAMS = 128
"""Programs of a workload that take part, drawn at random: Ansor's logs hold some 800 of each."""


@dataclass(frozen=True)
class Devices:
    """Some devices of a data folder."""

    data: Path
    devices: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Devices:
        """`FOLDER:DEVICE+DEVICE`."""
        folder, _, devices = text.rpartition(":")
        return cls(Path(folder), tuple(devices.split("+")))

    @property
    def name(self) -> str:
        """The devices, `+` between them."""
        return "+".join(self.devices)

    def programs(self) -> Programs:
        """All good programs, with features."""
        return load_programs(self.data, device=list(self.devices), spec=SPEC)


@dataclass
class TransferPair:
    """A transfer from some devices to another one."""

    source: Devices
    target: Devices

    def __post_init__(self) -> None:
        self.source_programs, self.target_programs = self.source.programs(), self.target.programs()
        present = {self.target_programs.workload_ids[number] for number in np.unique(self.target_programs.workload)}
        columns = ["workload_id", "name", "operator"]
        about = DataFolder.open(self.target.data).workloads(columns).to_pylist()
        self._about = [row for row in about if row["workload_id"] in present]

    def held_out(self, seed: int) -> frozenset[str]:
        """Workloads of the target that neither side learns from."""
        return folds(self._about, PARTS, seed)[0].test

    def oracle(self, test: Programs) -> Programs | None:
        """The target's programs of these workloads that the source has measured too, its latencies as rows.

        None if the devices share no programs.
        """
        held = [test.workload_ids[number] for number in np.unique(test.workload)]
        here, there = (median_latencies(place.data, place.devices, held) for place in (self.target, self.source))
        both = here.join(there, keys=["workload_id", "program_id"], join_type="inner", right_suffix="_source")
        if not both.num_rows:
            return None
        ids, workload = np.unique(both["workload_id"].to_numpy(), return_inverse=True)
        rows = both["latency_s_source"].to_numpy().astype(np.float32)[:, None]
        return Programs(
            rows,
            np.ones(len(rows), np.int64),
            workload.astype(np.int64),
            tuple(ids),
            both["latency_s"].to_numpy(),
        )


def measured(pool: Programs, trials: int, seed: int) -> Programs:
    """The programs that a new device measures first."""
    return pool.select(round_robin(pool, trials, seed=seed, each=PER_WORKLOAD))


def fitted(programs: Programs, seed: int) -> CostModel:
    """A blend that has learned from these programs alone."""
    model = new_model("blend", feature_spec=SPEC, options={"members": MEMBERS})
    model.fit(programs, None, seed=seed, progress=False)
    return model


def guarded(guard: Guard, few: Programs) -> CostModel:
    """The model that `costhub adapt` writes after these programs; the guard may have seen the first ones."""
    learned = guard.learned
    for start in range(learned.n if learned else 0, few.n, BATCH_SIZE):
        guard.learn(few.select(np.arange(start, min(start + BATCH_SIZE, few.n))))
    return guard.model


def gpu_programs(names: Sequence[str]) -> dict[str, Programs]:
    """Some of the programs of GPUs, with features."""
    return {name: load_programs(DATASETS / name, device=name, spec=SPEC, per_workload=GPU_PROGRAMS) for name in names}


def is_of_one_kind(row: Mapping[str, Any]) -> bool:
    """Whether `source` and `target` of a row are both CPUs or both GPUs; between the two nothing carries over."""
    devices = [find_device(name) for name in (row["source"].split("+")[0], row["target"])]
    return len({device.kind == "cpu" for device in devices if device}) == 1
