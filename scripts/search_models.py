"""The models of scripts/bench_search.py, which know nothing of the workloads that are searched."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from costhub.collector.device import identify
from costhub.collector.suite import find_workload
from costhub.dataset.folder import DataFolder
from costhub.dataset.load_programs import load_programs
from costhub.dataset.workload import workload_id
from costhub.hub.device_rows import device_rows
from costhub.models.folder import save_model
from costhub.models.train import describe_model, train_model

NETWORKS = {"resnet-18", "mobilenet-v2", "bert-small"}
"""Their kernels are held out, beside the workloads that are searched."""


@dataclass(frozen=True)
class Kind:
    """What a model is made of."""

    arch: str
    spec: str
    options: Mapping[str, Any]
    knows_this_chip: bool = True
    """Else it learns from devices of other chips only, as for whoever has one that nobody has measured."""


COSTHUB = Kind("conditioned", "tiles@1", {"base": "blend"})
"""What the embedded hub has for CPUs."""
KINDS = {
    "costhub": COSTHUB,
    "elsewhere": replace(COSTHUB, knows_this_chip=False),
    "tenset": Kind("mlp", "per_store@1", {"form": "tenset", "objective": "lambdarank"}),
    "draft": replace(COSTHUB, spec="trace_decisions@1"),
}


def held_out(data: Path, workloads: Collection[str]) -> set[str]:
    """Ids of these workloads, and of the kernels of `NETWORKS`."""
    rows = DataFolder.open(data).workloads(["workload_id", "networks"]).to_pylist()
    kernels = {
        row["workload_id"] for row in rows if NETWORKS & {each["name"] for each in row["networks"] or []}
    }
    return kernels | {workload_id(find_workload(name).module()) for name in workloads}


def trained(name: str, data: Path, out: Path, without: set[str], seed: int = 0) -> Path:
    """A model folder, made where there is none.

    Args:
        name: Of `KINDS`.
        data: The data folder; it learns from all devices that its kind may know.
        out: Where model folders go.
        without: Ids of workloads that it does not learn from.
        seed: Of the training; the searches differ in theirs.
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
    known = device_rows(data, devices)
    model = train_model(train, kind.arch, seed=seed, devices=known, options=kind.options, stop_share=0.0)
    info = describe_model(model, train, device_id=str(here["device_id"]), seed=seed, licence="Apache-2.0")
    save_model(model, folder, info)
    return folder
