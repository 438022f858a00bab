"""Provides splits of workloads into those to learn from and those to test on, and their file format."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from costhub.errors import DataError

SPLIT_VERSION = 1


@dataclass(frozen=True)
class Split:
    """Workloads to learn from and workloads to test on; no workload is in both."""

    name: str
    train: tuple[str, ...]
    """Ids of the workloads to learn from, sorted."""
    test: tuple[str, ...]
    """Ids of the workloads held out, sorted."""
    seed: int

    def __post_init__(self) -> None:
        both = set(self.train) & set(self.test)
        if both:
            raise DataError(
                f"The split {self.name!r} has the workload {min(both)} on both sides; it must be on one."
            )


def split_by_workload(workload_rows: Sequence[Mapping[str, Any]], *, held_out: int, seed: int) -> Split:
    """Holds out workloads so that every operator family that can spare one is tested.

    Each family with two or more workloads has at least one on either side; the rest is held out in proportion
    to the size of the families. Families of one workload are learned from.

    Args:
        workload_rows: Rows with `workload_id` and `operator`.
        held_out: Number of workloads to test on.
        seed: Chooses the workloads within each family; the order of the rows does not matter.

    Raises:
        DataError: `held_out` is less than the number of families with two or more workloads, or leaves a
            family nothing to learn from.

    Example:
        >>> rows = [{"workload_id": f"w{i}", "operator": "conv2d"} for i in range(4)]
        >>> len(split_by_workload(rows, held_out=1, seed=0).train)
        3
    """
    families: dict[str, set[str]] = {}
    for row in workload_rows:
        families.setdefault(row["operator"], set()).add(row["workload_id"])
    spare = {name: len(ids) - 1 for name, ids in sorted(families.items()) if len(ids) > 1}
    if not len(spare) <= held_out <= sum(spare.values()):
        raise DataError(
            f"{held_out} workloads cannot be held out of {sum(map(len, families.values()))} in "
            f"{len(families)} operator families; ask for {len(spare)} to {sum(spare.values())}."
        )
    taken = _shares({name: len(families[name]) for name in spare}, spare, held_out)
    rng = np.random.default_rng(seed)
    test: set[str] = set()
    for name in spare:
        test.update(rng.permutation(sorted(families[name]))[: taken[name]].tolist())
    every = set().union(*families.values())
    return Split(f"workload-{held_out}-seed{seed}", tuple(sorted(every - test)), tuple(sorted(test)), seed)


def _shares(sizes: Mapping[str, int], spare: Mapping[str, int], held_out: int) -> dict[str, int]:
    """How many each family gives: one, then always the family that has given the smallest part of itself."""
    taken = dict.fromkeys(sizes, 1)
    for _ in range(held_out - len(sizes)):
        able = [name for name in sizes if taken[name] < spare[name]]
        taken[min(able, key=lambda name: taken[name] / sizes[name])] += 1
    return taken


def save_split(split: Split, path: str | Path) -> None:
    """Writes a split as JSON, atomically."""
    content = {
        "costhub": "split",
        "version": SPLIT_VERSION,
        "name": split.name,
        "seed": split.seed,
        "train": list(split.train),
        "test": list(split.test),
    }
    path = Path(path)
    temporary = path.with_name(f".{path.name}-{os.getpid()}")
    temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    os.replace(temporary, path)


def load_split(path: str | Path) -> Split:
    """Reads a split.

    Raises:
        DataError: The file is missing, not a split, or of a newer version.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as a split ({error}); save one with save_split.") from error
    if not isinstance(content, dict) or content.get("costhub") != "split":
        raise DataError(f"{path} is JSON, but not a split of costhub; save one with save_split.")
    if content.get("version") != SPLIT_VERSION:
        raise DataError(
            f"{path} is a split of version {content.get('version')}; costhub here reads "
            f"{SPLIT_VERSION}: upgrade."
        )
    sides = [content.get("train"), content.get("test")]
    well_formed = all(isinstance(s, list) and all(isinstance(i, str) for i in s) for s in sides)
    if (
        not well_formed
        or not isinstance(content.get("name"), str)
        or not isinstance(content.get("seed"), int)
    ):
        raise DataError(f"{path} lacks one of name, seed, train and test; save it again with save_split.")
    return Split(content["name"], tuple(content["train"]), tuple(content["test"]), content["seed"])
