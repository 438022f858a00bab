"""Copies of the embedded datasets, since the cache of features grows beside the data."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from costhub.dataset.folder import DataFolder
from costhub.hub.catalogue.hubs import EMBEDDED


@dataclass(frozen=True)
class Part:
    """One split, or one fold of it, of one device."""

    split: str
    """`held-out-14`, or `fold-5`."""
    fold: int
    train: frozenset[str]
    test: frozenset[str]


def folds(about: Sequence[dict[str, Any]], count: int, seed: int) -> list[Part]:
    """Deals the workloads of each operator family over the folds, one after the other, in random order."""
    rng = np.random.default_rng(seed)
    ids = sorted((row["operator"], row["workload_id"]) for row in about)
    families = sorted({operator for operator, _ in ids})
    dealt = [i for f in families for i in rng.permutation([w for operator, w in ids if operator == f]).tolist()]
    sides = [frozenset(dealt[number::count]) for number in range(count)]
    return [Part(f"fold-{count}", n, frozenset(dealt) - test, test) for n, test in enumerate(sides)]


DATASET = "amd-epyc-zen5"
DEVICE = "amd-epyc-zen5-1c"
SPLIT = Path("splits") / "held-out-14.json"


def copy_dataset(folder: str | Path, name: str = DATASET) -> Path:
    """Copies a dataset into `folder` and returns its data folder; the default one holds SPLIT."""
    return shutil.copytree(EMBEDDED / "datasets" / "costhub" / name, Path(folder, name))


def own_copy(name: str = DATASET) -> Path:
    """As `copy_dataset`, in an `own_folder`."""
    return copy_dataset(own_folder(), name)


def copy_with(device_id: str) -> Path | None:
    """As `own_copy`, of the dataset with measurements of a device; None if no dataset has any."""
    for folder in sorted((EMBEDDED / "datasets" / "costhub").iterdir()):
        if device_id in DataFolder.open(folder).device_ids():
            return own_copy(folder.name)
    return None


def own_folder() -> Path:
    """A folder that goes away with the process."""
    folder = tempfile.mkdtemp(prefix="costhub-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
