"""Provides Split: the workloads and devices to learn from and to test on, and whether it fits a folder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from costhub.errors import DataError

KINDS = ("workload", "network", "operator", "device")


@dataclass(frozen=True)
class MadeFrom:
    """The workloads a split was made from, so that others can tell whether theirs are the same."""

    workloads: int
    """How many there were."""
    sha256: str
    """Of their sorted ids, each followed by a line feed."""

    @classmethod
    def of(cls, workload_ids: Iterable[str]) -> MadeFrom:
        """Describes a set of workloads; neither order nor repetition matters.

        Example:
            >>> MadeFrom.of(["b", "a"]) == MadeFrom.of(["a", "b", "a"])
            True
        """
        ids = sorted(set(workload_ids))
        return cls(len(ids), hashlib.sha256("".join(f"{i}\n" for i in ids).encode()).hexdigest())


@dataclass(frozen=True)
class Split:
    """Workloads to learn from and workloads to test on; no measurement is on both sides.

    Example:
        >>> split = Split("mine", ("w0", "w2", "w1"), ("w3",))
        >>> split.train, fit(split, ["w0", "w1", "w3", "w9"]).new
        (('w0', 'w1', 'w2'), ('w9',))
    """

    name: str
    train: tuple[str, ...]
    """Ids of the workloads to learn from, sorted."""
    test: tuple[str, ...]
    """Ids of the workloads to test on, sorted."""
    seed: int | None = None
    """Of what was drawn; None where a rule alone decided."""
    kind: str = "workload"
    """What was held out: one of `KINDS`."""
    hold_out: tuple[str, ...] = ()
    """Names of the networks, operator families or devices held out, sorted."""
    train_devices: tuple[str, ...] = ()
    """Devices to learn from, sorted; any where there is none."""
    test_devices: tuple[str, ...] = ()
    """Devices to test on, sorted; any where there is none."""
    made_from: MadeFrom | None = None
    """None in files of version 1."""

    def __post_init__(self) -> None:
        for side in ("train", "test", "hold_out", "train_devices", "test_devices"):
            object.__setattr__(self, side, tuple(sorted(set(getattr(self, side)))))
        if self.kind not in KINDS:
            raise DataError(
                f"The split {self.name!r} is of kind {self.kind!r}; a kind is {', '.join(KINDS)}."
            )
        both = set(self.train) & set(self.test)
        apart = self.train_devices and self.test_devices
        if both and not (apart and set(self.train_devices).isdisjoint(self.test_devices)):
            raise DataError(
                f"The split {self.name!r} has the workload {min(both)} on both sides; it must be on one, or "
                "the devices of the two sides must be different ones."
            )

    def check_device(self, device_id: str, side: str) -> None:
        """Refuses a device that is not of `side`, ``"train"`` or ``"test"``.

        Raises:
            DataError: The split names devices for that side, and not this one.
        """
        devices = self.train_devices if side == "train" else self.test_devices
        if devices and device_id not in devices:
            raise DataError(
                f"The split {self.name!r} has {', '.join(devices)} to {side} on, and {device_id!r} is not "
                f"among them; choose one of these with --device."
            )


@dataclass(frozen=True)
class Fit:
    """What a split and a folder do not know of one another."""

    same: bool
    """Whether the split was made from exactly the folder's workloads."""
    unknown: tuple[str, ...]
    """Workloads of the split that the folder does not have, sorted."""
    new: tuple[str, ...]
    """Workloads of the folder that are on neither side, sorted: neither learned from nor tested on."""
    unknown_devices: tuple[str, ...]
    """Devices of the split that the folder does not have, sorted."""

    def sentences(self) -> list[str]:
        """What is amiss, for people; nothing where the split fits."""
        reasons = (
            (self.unknown, "workloads of the split are not in the folder"),
            (self.new, "workloads of the folder are on neither side"),
            (self.unknown_devices, "devices of the split are not in the folder"),
        )
        return [f"{len(ids)} {why}, such as {ids[0]}." for ids, why in reasons if ids]


def fit(split: Split, workload_ids: Iterable[str], device_ids: Iterable[str] | None = None) -> Fit:
    """Compares a split with the workloads, and perhaps the devices, of a folder."""
    have, sides = set(workload_ids), {*split.train, *split.test}
    devices = {*split.train_devices, *split.test_devices}
    missing = set() if device_ids is None else devices - set(device_ids)
    return Fit(
        same=split.made_from == MadeFrom.of(have),
        unknown=tuple(sorted(sides - have)),
        new=tuple(sorted(have - sides)),
        unknown_devices=tuple(sorted(missing)),
    )
