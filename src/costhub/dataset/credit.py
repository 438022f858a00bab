"""Provides data_credit and joined_credit: who measured some data, and under which licences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from costhub.dataset.folder import DataFolder

_SEPARATOR = ", "


def data_credit(folder: str | Path, device_ids: Sequence[str] | None = None) -> str | None:
    """Names the contributors of measurements and their licences, for the models that train on them.

    Args:
        folder: The data folder.
        device_ids: The devices; all by default.

    Returns:
        ``NAME (LICENCE), NAME (LICENCE)``; None where no row names a contributor.

    Raises:
        DataError: The folder cannot be read, or has no such device.

    Example:
        >>> from costhub.hub.catalogue.hubs import dataset_folders
        >>> data_credit(dataset_folders()["costhub/nvidia-h200"])
        'costhub (Apache-2.0)'
    """
    credits: set[tuple[str, str]] = set()
    for batch in DataFolder.open(folder).iter_measurements(device_ids, ["contributor", "licence"]):
        distinct = pa.Table.from_batches([batch]).group_by(["contributor", "licence"]).aggregate([])
        for row in distinct.to_pylist():
            credits.add((row["contributor"] or "", row["licence"] or "no licence"))
    return _SEPARATOR.join(f"{name} ({licence})" for name, licence in sorted(credits) if name) or None


def joined_credit(*credits: str | None) -> str | None:
    """Joins the credit of several pieces of data, each name once.

    Example:
        >>> joined_credit("Ada (MIT)", None, "Ada (MIT), Bob (MIT)")
        'Ada (MIT), Bob (MIT)'
    """
    names = dict.fromkeys(name for text in credits if text for name in text.split(_SEPARATOR))
    return _SEPARATOR.join(names) or None
