"""The embedded dataset for scripts: a copy, since the cache of features grows beside its data."""

from __future__ import annotations

import shutil
from pathlib import Path

from costhub.hub.roots import EMBEDDED

DATASET = "amd-epyc-zen5"
DEVICE = "amd-epyc-zen5-1c"
SPLIT = Path("splits") / "held-out-14.json"


def copy_dataset(folder: str, name: str = DATASET) -> Path:
    """Copies a dataset into `folder` and returns its data folder; the default one holds SPLIT."""
    return shutil.copytree(EMBEDDED / "datasets" / "costhub" / name, Path(folder, name))
