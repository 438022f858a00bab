"""Provides Split: the workloads and devices to train and to test on, and its file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from costhub.errors import DataError, UnknownNameError
from costhub.files import read_regular, write_replacing
from costhub.names import close_names, is_plain_name
from costhub.terminal_text import Printed, counted

KINDS = ("workload", "network", "operator", "device")
SPLIT_VERSION = 2
SPLITS_FOLDER = "splits"
MOST_SPLIT_BYTES = 16 << 20
"""The ids of 200,000 workloads take 14 MB."""

_MOST_NAME = 120
_LISTS = ("train", "test")
_LATER_LISTS = ("hold_out", "train_devices", "test_devices")


@dataclass(frozen=True)
class WorkloadFingerprint:
    """Identifies the workloads that a split was made from, so that others can compare theirs."""

    workloads: int
    """Number of workloads."""
    sha256: str
    """sha256 of their sorted ids, each followed by a line feed."""

    @classmethod
    def of(cls, workload_ids: Iterable[str]) -> WorkloadFingerprint:
        """Fingerprints a set of workloads; neither order nor repetition matters.

        Example:
            >>> WorkloadFingerprint.of(["b", "a"]) == WorkloadFingerprint.of(["a", "b", "a"])
            True
        """
        ids = sorted(set(workload_ids))
        return cls(len(ids), hashlib.sha256("".join(f"{i}\n" for i in ids).encode()).hexdigest())


@dataclass(frozen=True, repr=False)
class Split(Printed):
    """Workloads to train on and workloads to test on; no measurement is on both sides. `print` shows how many.

    Example:
        >>> split = Split("mine", ("w0", "w2", "w1"), ("w3",))
        >>> split.train, compare_split(split, ["w0", "w1", "w3", "w9"]).new
        (('w0', 'w1', 'w2'), ('w9',))
    """

    name: str
    train: tuple[str, ...]
    """Ids of the workloads to train on, sorted."""
    test: tuple[str, ...]
    """Ids of the workloads to test on, sorted."""
    seed: int | None = None
    """Seed of the random choice; None for a split without one."""
    kind: str = "workload"
    """Kind of the hold-out: one of `KINDS`."""
    hold_out: tuple[str, ...] = ()
    """Names of the networks, operator families or devices held out, sorted."""
    train_devices: tuple[str, ...] = ()
    """Devices to train on, sorted; empty for any device."""
    test_devices: tuple[str, ...] = ()
    """Devices to test on, sorted; empty for any device."""
    made_from: WorkloadFingerprint | None = None
    """None in files of version 1."""

    def __post_init__(self) -> None:
        for side in ("train", "test", "hold_out", "train_devices", "test_devices"):
            object.__setattr__(self, side, tuple(sorted(set(getattr(self, side)))))
        if self.kind not in KINDS:
            raise DataError(f"The split {self.name!r} has the kind {self.kind!r}; use one of {', '.join(KINDS)}.")
        both = set(self.train) & set(self.test)
        apart = self.train_devices and self.test_devices
        if both and not (apart and set(self.train_devices).isdisjoint(self.test_devices)):
            raise DataError(
                f"The split {self.name!r} has the workload {min(both)} on both sides; it must be on one, or "
                "the two sides must have different devices."
            )

    def __str__(self) -> str:
        sides = (("train", self.train, self.train_devices), ("test", self.test, self.test_devices))
        return f"{self.name}: " + ", ".join(
            f"{counted(len(ids), 'workload')} to {side} on" + (f" ({', '.join(devices)})" if devices else "")
            for side, ids, devices in sides
        )

    def check_device(self, device_id: str, side: str) -> None:
        """Rejects a device that is not on `side`, ``"train"`` or ``"test"``.

        Raises:
            DataError: The split names devices for that side, but not this one.
        """
        devices = self.train_devices if side == "train" else self.test_devices
        if devices and device_id not in devices:
            raise DataError(
                f"The split {self.name!r} has {', '.join(devices)} to {side} on, and {device_id!r} is not "
                f"among them; choose one of these with --device."
            )


@dataclass(frozen=True)
class SplitComparison:
    """Differences between a split and a folder."""

    same: bool
    """Whether the split was made from exactly the workloads of the folder."""
    unknown: tuple[str, ...]
    """Workloads of the split that the folder lacks, sorted."""
    new: tuple[str, ...]
    """Workloads of the folder that are on neither side, sorted."""
    unknown_devices: tuple[str, ...]
    """Devices of the split that the folder lacks, sorted."""

    def sentences(self) -> list[str]:
        """Describes the differences in sentences; empty if split and folder agree."""
        reasons = (
            (self.unknown, "workload", "of the split {} not in the folder"),
            (self.new, "workload", "of the folder {} on neither side"),
            (self.unknown_devices, "device", "of the split {} not in the folder"),
        )
        return [
            f"{counted(len(ids), what)} {why.format('is' if len(ids) == 1 else 'are')}, such as {ids[0]}."
            for ids, what, why in reasons
            if ids
        ]


def compare_split(
    split: Split, workload_ids: Iterable[str], device_ids: Iterable[str] | None = None
) -> SplitComparison:
    """Compares a split with the workloads of a folder, and with its devices if given."""
    present, sides = set(workload_ids), {*split.train, *split.test}
    devices = {*split.train_devices, *split.test_devices}
    missing = set() if device_ids is None else devices - set(device_ids)
    return SplitComparison(
        same=split.made_from == WorkloadFingerprint.of(present),
        unknown=tuple(sorted(sides - present)),
        new=tuple(sorted(present - sides)),
        unknown_devices=tuple(sorted(missing)),
    )


def split_text(split: Split) -> str:
    """Renders a split as JSON in a fixed order, byte for byte the same for equal splits."""
    made_from = split.made_from or WorkloadFingerprint.of([*split.train, *split.test])
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
    write_replacing(path, split_text(split).encode())


def put_split(folder: str | Path, split: Split, *, into: str | Path | None = None) -> Path:
    """Writes a split as `splits/<name>.json` of a data folder; an equal existing one is kept.

    Args:
        folder: The data folder.
        split: The split.
        into: Another folder for the file, for data that must not change; created if missing.

    Raises:
        DataError: Another split has that name, or the name cannot be a file name.
    """
    if not is_plain_name(split.name, most=_MOST_NAME):
        raise DataError(
            f"{split.name!r} cannot name a split; use letters, digits, dots and dashes, {_MOST_NAME} at most."
        )
    path = (Path(folder) / SPLITS_FOLDER if into is None else Path(into)) / f"{split.name}.json"
    if path.exists():
        if read_regular(path, limit=MOST_SPLIT_BYTES, error=DataError) != split_text(split).encode():
            raise DataError(
                f"{path} is another split of that name, and figures may have been reported on it; "
                "remove the file first if nobody needs it."
            )
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    save_split(split, path)
    return path


def list_splits(folder: str | Path) -> list[str]:
    """Lists the names of the splits of a data folder, sorted."""
    return sorted(path.stem for path in (Path(folder) / SPLITS_FOLDER).glob("*.json") if path.name[0] != ".")


def load_split(path: str | Path, name: str | None = None) -> Split:
    """Reads a split.

    Args:
        path: The file; with `name`, the data folder that holds it.
        name: A name from `list_splits`.

    Raises:
        DataError: The file is missing, not a split, or has a newer version.
        UnknownNameError: The data folder has no split with that name.
    """
    if name is not None:
        names = list_splits(path)
        if name not in names:
            raise UnknownNameError("split", name, close_names(name, names), f"`costhub split {path}`")
        path = Path(path) / SPLITS_FOLDER / f"{name}.json"
    try:
        content = json.loads(read_regular(path, limit=MOST_SPLIT_BYTES, error=DataError))
    except (DataError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read as a split ({error}); `costhub split` makes splits.") from error
    if not isinstance(content, dict) or content.get("costhub") != "split":
        raise DataError(f"{path} is JSON, but not a split of costhub; `costhub split` makes splits.")
    if content.get("version") not in range(1, SPLIT_VERSION + 1):
        raise DataError(
            f"{path} has split version {content.get('version')}; this costhub reads up to {SPLIT_VERSION}: upgrade it."
        )
    return _parse_split(content, path)


def find_split(folder: str | Path, given: str) -> Split:
    """Finds the split that `given` names: a file, or one in the data folder.

    Raises:
        DataError: The file is not a split.
        UnknownNameError: Neither a file nor a split has that name.
    """
    return load_split(given) if Path(given).is_file() else load_split(folder, given)


def _parse_split(content: dict[str, Any], path: str | Path) -> Split:
    first = content["version"] == 1
    lists = {key: content.get(key) for key in (_LISTS if first else _LISTS + _LATER_LISTS)}
    name, seed = content.get("name"), content.get("seed")
    sound = all(isinstance(ids, list) and all(isinstance(i, str) for i in ids) for ids in lists.values())
    if not sound or not isinstance(name, str) or not (isinstance(seed, int) or (seed is None and not first)):
        raise DataError(
            f"{path} lacks one of name, seed, {', '.join(lists)}, or one has the wrong type; "
            "make it again with `costhub split`."
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
        made_from=_parse_fingerprint(content, path),
    )


def _parse_fingerprint(content: dict[str, Any], path: str | Path) -> WorkloadFingerprint:
    try:
        return WorkloadFingerprint(int(content["made_from"]["workloads"]), str(content["made_from"]["sha256"]))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{path} lacks the field made_from, or it is damaged; make the split again with `costhub split`."
        ) from error
