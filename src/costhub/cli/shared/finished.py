"""Provides asked_for and finished_before: whether an adaptation with the same arguments has been finished."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from costhub.cards.adaptation import ADAPTATION, ADAPTATION_VERSION, masks_table
from costhub.errors import ModelError
from costhub.files import hash_regular, read_regular, refuse_newer
from costhub.terminal_text import clean, counted

MAX_ADAPTATION_BYTES = 64 << 20
"""Of `adaptation.json`, whose masks have a number for each layer and epoch."""


_NOT_ASKED = ("out", "explain", "as_json")


def asked_for(arguments: Mapping[str, Any], data: Path | None = None) -> str:
    """Identifies what a command asks for, without naming it: a model folder may be published.

    Args:
        arguments: Name -> value, of all options; where the model goes and how it is shown make no difference. Of
            files and model folders, what they hold counts as well.
        data: The data folder whose rows it learns from; None where the rows are measured by the command.

    Example:
        >>> len(asked_for({"trials": 64})), asked_for({"trials": 64}) == asked_for({"trials": 65})
        (64, False)
    """
    from costhub.dataset.folder import DataFolder
    from costhub.hub.dataset_documents import tables_revision
    from costhub.versions import costhub_version

    told = {name: value for name, value in arguments.items() if name not in _NOT_ASKED}
    told["contents"] = {name: digest for name, value in told.items() if (digest := _contents(value))}
    told["costhub"] = costhub_version()
    if data is not None:
        rows = DataFolder.open(data).measurements(columns=["status"]).num_rows  # of journals, too
        told |= {"revision": tables_revision(data), "rows": rows}
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()


def _contents(value: Any) -> str | list[str | None] | None:
    """The `_content` of an argument; of one that may be repeated, a list."""
    if not isinstance(value, tuple | list):
        return _content(value)
    found = [_content(each) for each in value]
    return found if any(found) else None


def _content(value: Any) -> str | None:
    """A hash of the file that an argument names, or of what a training writes into a model folder; None for others."""
    from costhub.models.folder import CONFIG

    if not isinstance(value, str | Path):
        return None
    path = Path(value) / CONFIG if Path(value).is_dir() else Path(value)
    return hash_regular(path)[0] if path.is_file() else None


def finished_before(out: Path, asked: str) -> dict[str, Any] | None:
    """The content of `adaptation.json` in a model folder that the same command has finished; None without one.

    Raises:
        ModelError: A newer costhub wrote the file.
    """
    path = out / ADAPTATION
    if not path.is_file():
        return None
    try:
        told = json.loads(read_regular(path, limit=MAX_ADAPTATION_BYTES, error=ModelError))
    except (ValueError, RecursionError):  # torn or of somebody else: the model is written anew
        return None
    if not isinstance(told, dict) or told.get("asked_sha256") != asked:
        return None
    refuse_newer(told, newest=ADAPTATION_VERSION, what=path, error=ModelError)
    return told


def finished_text(out: Path, told: Mapping[str, Any], *, explain: bool, as_json: bool) -> str:
    """Says that a model is finished, where it lies and how to begin anew."""
    if as_json:
        return json.dumps({"folder": str(out), **told, "finished_before": True}, indent=2)
    text = (
        f"{out} is finished: the same command has already made this model, from {clean(str(told['source']), 200)} and "
        f"{counted(int(told['trials']), 'trial')}. Use it with "
        f"`costhub tune resnet18.c7 --model {out} --out tuned-adapted/`, with the --device, or the --tracker and "
        "--key, of this command if it had any. "
        f"To start over, remove {out} (measurements are kept) or name another folder with --out."
    )
    return f"{masks_table(told)}\n\n{text}" if explain else text
