"""Provides the files of splits, alone or in the folder `splits` of a data folder."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from costhub.dataset.splits.split import MadeFrom, Split
from costhub.errors import DataError, UnknownNameError
from costhub.names import close_names

SPLIT_VERSION = 2
FOLDER = "splits"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,119}")
_LISTS = ("train", "test")
_LATER_LISTS = ("hold_out", "train_devices", "test_devices")


def split_text(split: Split) -> str:
    """The file of a split: JSON of fixed order, byte for byte the same for equal splits."""
    made_from = split.made_from or MadeFrom.of([*split.train, *split.test])
    content = {
        "costhub": "split",
        "version": SPLIT_VERSION,
        "name": split.name,
        "kind": split.kind,
        "hold_out": split.hold_out,
        "seed": split.seed,
        "made_from": asdict(made_from),
        "train_devices": split.train_devices,
        "test_devices": split.test_devices,
        "train": split.train,
        "test": split.test,
    }
    return json.dumps(content, indent=1) + "\n"


def save_split(split: Split, path: str | Path) -> None:
    """Writes a split as JSON, atomically."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}-{os.getpid()}")
    temporary.write_text(split_text(split), encoding="utf-8")
    os.replace(temporary, path)


def put_split(folder: str | Path, split: Split) -> Path:
    """Writes a split as `splits/<name>.json` of a data folder; one that is there already stays.

    Raises:
        DataError: Another split has that name, or the name cannot be that of a file.
    """
    if not _NAME.fullmatch(split.name):
        raise DataError(
            f"{split.name!r} cannot name a split; use letters, digits, dots and dashes, 120 at most."
        )
    path = Path(folder) / FOLDER / f"{split.name}.json"
    if path.exists():
        if path.read_text(encoding="utf-8") != split_text(split):
            raise DataError(
                f"{path} is another split of that name, and figures may have been reported on it; "
                "remove the file first if it is no longer wanted."
            )
        return path
    path.parent.mkdir(exist_ok=True)
    save_split(split, path)
    return path


def list_splits(folder: str | Path) -> list[str]:
    """The names of the splits of a data folder, sorted."""
    return sorted(path.stem for path in (Path(folder) / FOLDER).glob("*.json") if path.name[0] != ".")


def load_split(path: str | Path, name: str | None = None) -> Split:
    """Reads a split.

    Args:
        path: Its file; with `name`, the data folder that has it.
        name: What `list_splits` calls it.

    Raises:
        DataError: The file is missing, not a split, or of a newer version.
        UnknownNameError: The data folder has no split of that name.
    """
    if name is not None:
        known = list_splits(path)
        if name not in known:
            raise UnknownNameError("split", name, close_names(name, known), f"costhub split {path}")
        path = Path(path) / FOLDER / f"{name}.json"
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read as a split ({error}); save one with save_split.") from error
    if not isinstance(content, dict) or content.get("costhub") != "split":
        raise DataError(f"{path} is JSON, but not a split of costhub; save one with save_split.")
    if content.get("version") not in range(1, SPLIT_VERSION + 1):
        raise DataError(
            f"{path} is a split of version {content.get('version')}; costhub here reads up to "
            f"{SPLIT_VERSION}: upgrade."
        )
    return _split(content, path)


def find_split(folder: str | Path, given: str) -> Split:
    """The split that `given` names: a file, or one of the data folder.

    Raises:
        DataError: The file is not a split.
        UnknownNameError: There is neither a file nor a split of that name.
    """
    return load_split(given) if Path(given).is_file() else load_split(folder, given)


def _split(content: dict[str, Any], path: str | Path) -> Split:
    first = content["version"] == 1
    lists = {key: content.get(key) for key in (_LISTS if first else _LISTS + _LATER_LISTS)}
    name, seed = content.get("name"), content.get("seed")
    sound = all(isinstance(ids, list) and all(isinstance(i, str) for i in ids) for ids in lists.values())
    if not sound or not isinstance(name, str) or not (isinstance(seed, int) or (seed is None and not first)):
        raise DataError(
            f"{path} lacks one of name, seed, {', '.join(lists)}, or one is of the wrong type; "
            "save it again with save_split."
        )
    side = {key: tuple(ids or ()) for key, ids in lists.items()}
    if first:
        return Split(name, side["train"], side["test"], seed)
    return Split(
        name,
        side["train"],
        side["test"],
        seed=seed,
        kind=str(content.get("kind")),
        hold_out=side["hold_out"],
        train_devices=side["train_devices"],
        test_devices=side["test_devices"],
        made_from=_made_from(content, path),
    )


def _made_from(content: dict[str, Any], path: str | Path) -> MadeFrom:
    try:
        return MadeFrom(int(content["made_from"]["workloads"]), str(content["made_from"]["sha256"]))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} does not say what it was made from; save it again with save_split."
        ) from error
