"""Models for the searches of the benchmarks; they have not seen the workloads that are searched."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from costhub.collector.device.identity import identify
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.workload import workload_id
from costhub.hub.catalogue.devices import complete_device_row, device_rows
from costhub.models.folder import load_model, save_model
from costhub.models.protocol import CostModel
from costhub.models.train import describe_model, train_model
from scripts.bench.common.data import copy_dataset, embedded_datasets
from scripts.release.train import ANY_DEVICE

WORKLOADS = (
    "resnet18.c7",
    "matmul.512x512x512",
    "depthwise.28x256",
    "batch_matmul.12x128x128x64",
    "norm.layer-128x768",
    "metaschedule.c1d",
    "metaschedule.grp",
    "metaschedule.dil",
    "metaschedule.t2d",
    "softmax.512x512",
)
"""What the benchmarks of searches search."""
SEED = 0
"""Of the trainings; searches have seeds of their own."""
NETWORKS = {"resnet-18", "mobilenet-v2", "bert-small"}
"""Their kernels are held out too, beside the searched workloads."""


@dataclass(frozen=True)
class ModelKind:
    """How a model is made."""

    arch: str
    spec: str
    options: Mapping[str, Any]
    knows_this_chip: bool = True
    """Otherwise it learns from devices of other chips only, as if nobody had measured this one."""


COSTHUB = ModelKind("conditioned", "tiles@1", dict(option.split("=", 1) for option in ANY_DEVICE))
"""The kind of the embedded model for CPUs."""
KINDS = {
    "costhub": COSTHUB,
    "elsewhere": replace(COSTHUB, knows_this_chip=False),
    "tenset": ModelKind("mlp", "per_store@1", {"form": "tenset", "objective": "lambdarank"}),
    "draft": replace(COSTHUB, spec="trace_decisions@1"),
}


class UnseenModels:
    """Models that have not seen the searched workloads, each trained when it is first asked for.

    Args:
        data: The data folder to learn from; by default a copy of the embedded dataset in `scratch`.
        models: Where model folders are kept; by default in `scratch`.
        scratch: A temporary folder.
        workloads: Names of workloads to hold out, beside WORKLOADS and the kernels of NETWORKS.
    """

    def __init__(self, data: Path | None, models: Path | None, scratch: str, workloads: Collection[str] = ()) -> None:
        self.data, self.models = data or copy_dataset(scratch), models or Path(scratch, "models")
        self.models.mkdir(exist_ok=True)
        # The kernels of a network differ by layout, and each dataset has those of some: what any of them says counts.
        asked = {*WORKLOADS, *workloads}
        folders = [self.data, *embedded_datasets()]
        self.without = set().union(*(held_out(folder, asked) for folder in folders))

    def folder(self, name: str) -> Path:
        """The folder of a model of one of the `KINDS`; trains the model if the folder does not exist."""
        # The kind too, so that no model made in another way is taken for this one.
        text = " ".join([*sorted(self.without), repr(KINDS[name])])
        folder = self.models / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}-{SEED}"
        if not folder.exists():
            self._train(KINDS[name], folder)
        return folder

    def bound(self, name: str) -> CostModel:
        """The model, bound to this machine."""
        return load_model(self.folder(name))[0].bind(complete_device_row(identify()))

    def settings(self, name: str) -> dict[str, Any]:
        """What `scripts.bench.search.once` is told for a search by costhub that knows none of the workloads.

        Args:
            name: The model that leads it, one of the `KINDS`.
        """
        return {"model": str(self.folder(name)), "without": sorted(self.without)}

    def _train(self, kind: ModelKind, folder: Path) -> None:
        here = identify()
        devices = [
            row["device_id"]
            for row in DataFolder.open(self.data).devices(["device_id", "microarchitecture"]).to_pylist()
            if kind.knows_this_chip or row["microarchitecture"] != here["microarchitecture"]
        ]
        if not devices:
            raise click.ClickException(
                f"{self.data} has no measurements of a chip other than {here['microarchitecture']}; "
                "name a folder that has some with --data."
            )
        programs = load_programs(self.data, device=devices, spec=kind.spec)
        train = programs.of_workloads(set(programs.workload_ids) - self.without)
        facts = device_rows(self.data, devices)
        model = train_model(train, kind.arch, seed=SEED, devices=facts, options=kind.options, valid=0.0)
        info = describe_model(model, train, device_id=str(here["device_id"]), seed=SEED, licence="Apache-2.0")
        save_model(model, folder, info)


def held_out(data: Path, workloads: Collection[str]) -> set[str]:
    """Ids of these workloads, and of the kernels of `NETWORKS`."""
    rows = DataFolder.open(data).workloads(["workload_id", "networks"]).to_pylist()
    kernels = {row["workload_id"] for row in rows if NETWORKS & {each["name"] for each in row["networks"] or []}}
    return kernels | {workload_id(find_workload(name).module()) for name in workloads}
