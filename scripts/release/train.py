"""Trains the models of the embedded hub and installs them there; the table RELEASES says how."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import click

from costhub.api.measuring import put_device
from costhub.cli.main import run
from costhub.dataset.credit import joined_credit
from costhub.dataset.folder import DataFolder
from costhub.dataset.splits.split import SPLITS_FOLDER, Split, list_splits, load_split, save_split
from costhub.files import write_replacing
from costhub.hub.catalogue.hubs import CONFIG, EVALUATION, dataset_folders, read_config
from costhub.hub.dataset_documents import folder_credit, tables_revision
from costhub.hub.install import evaluation_text, install_model, read_figures
from scripts.bench.common.data import BLOCKED, DATASETS, copy_dataset

AMD, INTEL, A100, H200 = "amd-epyc-zen5", "intel-xeon-graniterapids", "nvidia-a100", "nvidia-h200"
ZEN4, ZEN3, EMERALD = "amd-epyc-zen4", "amd-epyc-zen3", "intel-xeon-emeraldrapids"
K80, V100, MI50 = "nvidia-k80", "nvidia-v100", "amd-mi50"


@dataclass(frozen=True)
class ModelRelease:
    """One model."""

    device: str
    """What it is for; its figures are of this device if it is one of `devices`."""
    arch: str
    split: str
    """A split of its dataset; the figures of the card are of the workloads that it holds out."""
    options: tuple[str, ...] = ()
    dataset: str = AMD
    """A dataset of the embedded hub, or several joined by `+`."""
    devices: tuple[str, ...] = ()
    """The devices it learns from; by default `device`."""
    stop_share: float = 0.0
    """The share of workloads held out for early stopping; on the CPUs every workload is worth more."""
    each: int | None = None
    """At most so many programs of each workload and device; by default all."""


CPUS = (
    *(f"{AMD}-{cores}{isa}" for cores in ("1c", "2c") for isa in ("", "-avx2", "-sse4.2")),
    *(f"{chip}-{cores}" for chip in (INTEL, ZEN4, ZEN3, EMERALD) for cores in ("1c", "2c")),
)
GPUS = (A100, H200, V100, K80, MI50)
MANY, SOME, FEW = "workload-40-seed0", "workload-18-seed0", "workload-12-seed0"
HELD_OUT = {A100: SOME, H200: FEW, V100: FEW, K80: FEW, MI50: FEW}
JOINT = "held-out-of-all"
"""A split of several GPUs' data, which holds out what the split of any of them holds out."""
EACH = 128
"""The logs of Ansor hold some 800 programs of a workload, of which a model would see little else."""
TREES = ("objective=log", "rounds=200", "learning_rate=0.1")
"""Half the usual number of trees, which takes half the space, of logarithms, which `costhub adapt` corrects: those of
throughput have no scale on which it could."""
BLEND = f"members=gbt({','.join(TREES)}) mlp"
GPU = {"blend": (BLEND,), "gbt": TREES, "mlp": ()}
"""Architecture -> options, on the GPUs."""
ANY_DEVICE = ("base=blend", BLEND)
"""Options of the models for many devices."""
ANY_CPU = ModelRelease("any-cpu", "conditioned", MANY, ANY_DEVICE, "+".join((AMD, INTEL, ZEN4, ZEN3, EMERALD)), CPUS)
"""The model of all CPUs, whose training many benchmarks vary."""
RELEASES = (
    ModelRelease("amd-epyc-zen5-2c", "gbt", MANY, ("objective=log",)),
    ModelRelease("amd-epyc-zen5-2c", "mlp", MANY),
    ModelRelease("amd-epyc-zen5-2c", "treegru", MANY),
    ModelRelease(f"{INTEL}-2c", "gbt", MANY, TREES, INTEL),
    ModelRelease(f"{INTEL}-2c", "mlp", MANY, (), INTEL),
    ANY_CPU,
    *(
        ModelRelease(H200, arch, FEW, options, f"{H200}+{A100}", (H200, A100), stop_share=0.1)
        for arch, options in GPU.items()
    ),
    *(ModelRelease(A100, arch, SOME, options, A100, stop_share=0.1, each=2 * EACH) for arch, options in GPU.items()),
    *(
        ModelRelease(device, "blend", FEW, GPU["blend"], device, stop_share=0.1, each=EACH)
        for device in (V100, K80, MI50)
    ),
    ModelRelease("any-gpu", "conditioned", JOINT, ANY_DEVICE, "+".join(GPUS), GPUS, stop_share=0.1, each=EACH),
)


@click.command()
@click.option("--device", "devices", multiple=True, help="Of these only.")
@click.option("--arch", "archs", multiple=True, help="Of these only.")
@click.option("--seed", default=0, show_default=True)
def main(devices: tuple[str, ...], archs: tuple[str, ...], seed: int) -> None:
    """Trains and installs; equal data and seed give equal models on one machine."""
    chosen = [
        each for each in RELEASES if (not devices or each.device in devices) and (not archs or each.arch in archs)
    ]
    with tempfile.TemporaryDirectory() as folder:
        data: dict[str, Path] = {}
        for each in chosen:
            if each.dataset not in data:
                data[each.dataset] = dataset(each.dataset, folder)
            click.echo(f"Installed {install_model(trained(each, data[each.dataset], Path(folder), seed))}.\n")


def dataset(name: str, folder: str) -> Path:
    """A copy of a dataset of the package, or of the first of several with the rows of the others."""
    first, *others = name.split("+")
    joined = copy_dataset(Path(folder, name), first)
    for other in others:
        add(joined, copy_dataset(Path(folder, name), other))
    if set(HELD_OUT) <= {first, *others}:
        save_split(_joint_split(joined), joined / SPLITS_FOLDER / f"{JOINT}.json")
    return joined


def _joint_split(joined: Path) -> Split:
    """The V100, the K80 and the MI50 share workloads: what one is tested on, none may learn from."""
    tests = [load_split(DATASETS / name, split).test for name, split in HELD_OUT.items()]
    test = {workload for held in tests for workload in held}
    present = set(DataFolder.open(joined).workloads(["workload_id"])["workload_id"].to_pylist())
    return Split(JOINT, tuple(present - test), tuple(test), seed=0)


def add(data: Path, other: Path) -> None:
    """Adds the rows of a data folder to another one; a split's held-out workloads stay held out.

    A device that both know keeps its row, with the figures of its probe. Where both folders have a split of the same
    name, its training side also gets that of the other, and no more; that of `MANY` also gets the other's of `BLOCKED`,
    which has kernels that the workloads of the benchmark do without.
    """
    joined, added = DataFolder.open(data), DataFolder.open(other)
    for row in added.devices().to_pylist():
        put_device(joined, row)
    joined.put_workloads(added.workloads().to_pylist())
    for device in added.device_ids():
        with joined.writer(device) as writer:
            writer.extend(added.measurements(device))
    present = set(added.workloads(["workload_id"])["workload_id"].to_pylist())
    for name in list_splits(data):
        split = load_split(data, name)
        sides = [name, BLOCKED] if name == MANY else [name]
        having = [each for each in sides if each in list_splits(other)]
        more = {w for each in having for w in load_split(other, each).train} & present if having else present
        train = (*split.train, *(more - {*split.train, *split.test}))
        save_split(replace(split, train=train, made_from=None), data / SPLITS_FOLDER / f"{name}.json")


def trained(release: ModelRelease, data: Path, folder: Path, seed: int) -> Path:
    """The folder of the trained model."""
    out = folder / f"{release.device}-{release.arch}"
    devices = release.devices or (release.device,)
    arguments = ["--data", str(data), "--split", release.split, "--arch", release.arch, "--seed", str(seed)]
    arguments += [word for device in devices for word in ("--device", device)]
    arguments += [word for option in release.options for word in ("--option", option)]
    arguments += ["--for", release.device] if release.devices else []
    arguments += ["--stop-share", str(release.stop_share)]
    arguments += ["--programs-per-workload", str(release.each)] if release.each else []
    if code := run(["train", *arguments, "--out", str(out)]):
        raise SystemExit(code)
    put_datasets(out, release)
    return out


def put_datasets(model: Path, release: ModelRelease) -> None:
    """Writes into the configuration of a model which datasets of the package it learned from.

    It learned from a copy, or from several datasets joined, of which `costhub train` does not know the names.
    """
    learned = [f"costhub/{name}@{tables_revision(DATASETS / name)}" for name in release.dataset.split("+")]
    # The first one is that of the device, if the figures are of one of the devices only.
    tested = learned[:1] if release.device in release.devices else learned
    config = {**read_config(model), "datasets": learned, "test_datasets": tested}
    write_replacing(model / CONFIG, (json.dumps(config, indent=2, allow_nan=False) + "\n").encode())
    put_devices(model)
    put_credit(model, release)


def put_credit(model: Path, release: ModelRelease) -> None:
    """Writes into the configuration of a model who measured what it learned from.

    The cards of the datasets say it: a copy of several has the card of the first only.
    """
    learned_on = set(release.devices or (release.device,))
    credits = []
    for name in release.dataset.split("+"):
        own = [device for device in DataFolder.open(DATASETS / name).device_ids() if device in learned_on]
        credits.append(folder_credit(DATASETS / name, own))
    config = {**read_config(model), "data_credit": joined_credit(*credits)}
    write_replacing(model / CONFIG, (json.dumps(config, indent=2, allow_nan=False) + "\n").encode())


def put_devices(model: Path) -> None:
    """Writes into the figures of a model that was tested on several datasets which devices each of them has."""
    names = [name.partition("@")[0] for name in read_config(model).get("test_datasets") or ()]
    figures = read_figures(model, EVALUATION)
    if figures is not None and len(names) > 1:
        known = {name: DataFolder.open(dataset_folders()[name]).device_ids() for name in names}
        write_replacing(model / EVALUATION, evaluation_text({**figures, "datasets": known}).encode())
