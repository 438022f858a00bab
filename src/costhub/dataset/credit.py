"""Provides data_credit, check_rights and is_replayed, among others: where data are from, and under which licences."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from costhub.dataset.check.texts import personal_data
from costhub.dataset.folder import DataFolder
from costhub.dataset.schema import HUB_LICENCES, IMPORTED
from costhub.errors import ArgumentError
from costhub.terminal_text import clean

log = logging.getLogger("costhub")

NOT_RECORDED = "measurer not recorded"
"""Stands in a credit for whoever measured imported rows, where that is not known."""
_SEPARATOR = ", "
_BETWEEN = re.compile(r"(?<=\)), ")
_COLUMNS = ("contributor", "licence", "proposed_by", "transplanted_from")


def data_credit(
    folder: str | Path, device_ids: Sequence[str] | None = None, *, importers: Collection[str] = ()
) -> str | None:
    """Names who measured the data and the licences, for the models that train on them.

    The contributor of a row is who measured it. Imported rows without one are credited to `NOT_RECORDED`; other rows
    without one are not credited.

    Args:
        folder: The data folder.
        device_ids: The devices; all by default.
        importers: Contributors who did not measure the imported rows that name them, as the card of a dataset may say
            (`only_imported` of its origins).

    Returns:
        ``NAME (LICENCE), NAME (LICENCE)``; None where nobody is credited. A licence is followed by the compiler
        whose log the rows were replayed from, if any.

    Raises:
        DataError: The folder cannot be read, or has no such device.

    Example:
        >>> from costhub.hub.catalogue.hubs import dataset_folders
        >>> data_credit(dataset_folders()["costhub/nvidia-h200"], importers={"costhub"})
        'measurer not recorded (Apache-2.0)'
        >>> data_credit(dataset_folders()["costhub/nvidia-k80"])
        'microsoft/nnfusion (MIT; replayed from logs of Ansor)'
    """
    credits: set[tuple[str, str]] = set()
    for batch in DataFolder.open(folder).iter_measurements(device_ids, _COLUMNS):
        for row in pa.Table.from_batches([batch]).group_by(list(_COLUMNS)).aggregate([]).to_pylist():
            compiler = row["transplanted_from"]
            replayed = f"; replayed from logs of {compiler.capitalize()}" if compiler else ""
            credits.add((_measurer(row, importers), f"{row['licence'] or 'no licence'}{replayed}"))
    return _SEPARATOR.join(f"{name} ({licence})" for name, licence in sorted(credits) if name) or None


def _measurer(row: Mapping[str, Any], importers: Collection[str]) -> str:
    """Who measured a row; empty where nobody is to be credited."""
    name = row["contributor"] or ""
    return NOT_RECORDED if is_imported(row) and (not name or name in importers) else name


def is_imported(row: Mapping[str, Any]) -> bool:
    """Whether a row was imported, not measured by costhub, as its `proposed_by` and `transplanted_from` say.

    Example:
        >>> is_imported({"proposed_by": "imported", "transplanted_from": None})
        True
        >>> is_imported({"proposed_by": "random", "transplanted_from": None})
        False
    """
    return row["proposed_by"] == IMPORTED or bool(row["transplanted_from"])


def is_replayed(folder: str | Path, device_id: str) -> bool:
    """Whether all of a device's measurements were replayed from another compiler's log.

    TVM makes the same programs, but the latencies are those of the other compiler's code.

    Args:
        folder: The data folder; one without measurements of the device counts as measured here.
        device_id: The device.

    Raises:
        DataError: A shard cannot be read.

    Example:
        >>> from costhub.hub.catalogue.hubs import dataset_folders
        >>> [is_replayed(dataset_folders()[f"costhub/{name}"], name) for name in ("nvidia-v100", "nvidia-h200")]
        [True, False]
    """
    if not (Path(folder) / "measurements" / device_id).is_dir():
        return False
    rows = 0
    for batch in DataFolder.open(folder).iter_measurements([device_id], ["transplanted_from"]):
        if batch["transplanted_from"].null_count:
            return False  # one row is enough, and the data may be large
        rows += batch.num_rows
    return rows > 0


def joined_credit(*credits: str | None) -> str | None:
    """Joins the credit of several pieces of data, each name once.

    Example:
        >>> joined_credit("Ada (MIT)", None, "Ada (MIT), Bob (MIT)")
        'Ada (MIT), Bob (MIT)'
        >>> joined_credit("Lovelace, Ada (MIT)", "Lovelace, Ada (MIT), Lovelace, Bob (MIT)")
        'Lovelace, Ada (MIT), Lovelace, Bob (MIT)'
    """
    # A name may have a comma of its own; each ends with its licence in parentheses.
    names = dict.fromkeys(name for text in credits if text for name in _BETWEEN.split(text))
    return _SEPARATOR.join(names) or None


def contributor_fault(name: str) -> str | None:
    """What keeps hubs from accepting a contributor, as the predicate of a sentence; None if it is a name.

    Example:
        >>> contributor_fault("ada@example.org"), contributor_fault("Ada L.")
        ('holds an e-mail address or account', None)
    """
    if kinds := personal_data(name):
        return f"holds {kinds[0]}"
    return None if name.strip() else "is empty"


def check_rights(contributor: str | None, licence: str | None) -> None:
    """Checks a contributor and a licence before rows get them, since rows keep both.

    A licence that hubs do not accept may be right for data that stay private, so it only causes a warning.

    Args:
        contributor: The given name; None if nobody is named.
        licence: The given name; None is reported by `costhub check` instead.

    Raises:
        ArgumentError: The contributor is no name but an e-mail address, a folder or a machine, or the licence is a
            misspelling of one that hubs accept.

    Example:
        >>> check_rights("Ada L.", "CC BY 4.0")
        Traceback (most recent call last):
        costhub.errors.ArgumentError: The licence 'CC BY 4.0' is not an SPDX name, and hubs would refuse the rows. ...
    """
    if contributor is not None and (fault := contributor_fault(contributor)):
        raise ArgumentError(
            f"The contributor {clean(contributor, 60)!r} {fault}, and hubs would refuse the rows. Write a name, such "
            "as 'Ada L.' or that of your account without an @."
        )
    if licence is None or licence.lower() in HUB_LICENCES:
        return
    for name in sorted(HUB_LICENCES):
        if _letters(name) == _letters(licence):
            message = f"The licence {licence!r} is not an SPDX name, and hubs would refuse the rows. Write {name}."
            raise ArgumentError(message)
    log.warning(
        "`costhub contribute` will refuse these rows: hubs do not accept the licence %r, only %s.",
        licence,
        ", ".join(sorted(HUB_LICENCES)),
    )


def _letters(licence: str) -> str:
    """Letters and digits of a licence's name, without words that do not distinguish it from others."""
    return re.sub(r"\b(the|licen[cs]e|version)\b|[^a-z0-9]", "", licence.lower())
