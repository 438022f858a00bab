"""Models for the searches of the benchmarks; they have not seen the workloads that are searched."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from costhub.collector.device.identify import identify
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.workload import workload_id
from costhub.hub.catalogue.devices import device_rows
from costhub.models.folder import save_model
from costhub.models.train import describe_model, train_model

NETWORKS = {"resnet-18", "mobilenet-v2", "bert-small"}
"""Their kernels are held out too, beside the searched workloads."""


@dataclass(frozen=True)
class Kind:
    """How a model is made."""

    arch: str
    spec: str
    options: Mapping[str, Any]
    knows_this_chip: bool = True
    """Otherwise it learns from devices of other chips only, as if nobody had measured this one."""


COSTHUB = Kind("conditioned", "tiles@1", {"base": "blend"})
"""The kind of the embedded model for CPUs."""
KINDS = {
    "costhub": COSTHUB,
    "elsewhere": replace(COSTHUB, knows_this_chip=False),
    "tenset": Kind("mlp", "per_store@1", {"form": "tenset", "objective": "lambdarank"}),
    "draft": replace(COSTHUB, spec="trace_decisions@1"),
}


def held_out(data: Path, workloads: Collection[str]) -> set[str]:
    """Ids of these workloads, and of the kernels of `NETWORKS`."""
    rows = DataFolder.open(data).workloads(["workload_id", "networks"]).to_pylist()
    kernels = {row["workload_id"] for row in rows if NETWORKS & {each["name"] for each in row["networks"] or []}}
    return kernels | {workload_id(find_workload(name).module()) for name in workloads}


def trained(name: str, data: Path, out: Path, without: set[str], seed: int = 0) -> Path:
    """A model folder; trains the model if the folder does not exist.

    Args:
        name: A key of `KINDS`.
        data: The data folder; the model learns from all devices that its kind allows.
        out: Where model folders go.
        without: Ids of workloads to hold out.
        seed: Of the training; searches have seeds of their own.
    """
    held = hashlib.sha256(" ".join(sorted(without)).encode()).hexdigest()[:8]
    folder = out / f"{name}-{held}-{seed}"
    if folder.exists():
        return folder
    kind, here = KINDS[name], identify()
    devices = [
        row["device_id"]
        for row in DataFolder.open(data).devices(["device_id", "microarchitecture"]).to_pylist()
        if kind.knows_this_chip or row["microarchitecture"] != here["microarchitecture"]
    ]
    if not devices:
        raise click.ClickException(
            f"{data} has no measurements of a chip other than {here['microarchitecture']}; "
            "name a folder that has some with --data."
        )
    programs = load_programs(data, device=devices, spec=kind.spec)
    train = programs.of_workloads(set(programs.workload_ids) - without)
    facts = device_rows(data, devices)
    model = train_model(train, kind.arch, seed=seed, devices=facts, options=kind.options, valid=0.0)
    info = describe_model(model, train, device_id=str(here["device_id"]), seed=seed, licence="Apache-2.0")
    save_model(model, folder, info)
    return folder


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
