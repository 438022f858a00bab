"""Provides the rules that make splits: by workload, by network, by operator family and by device."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from costhub.dataset.splits.split import Split, WorkloadFingerprint
from costhub.errors import DataError, UnknownNameError
from costhub.names import close_names

WorkloadRows = Sequence[Mapping[str, Any]]

TENSET_NETWORKS = ("bert-base", "bert-tiny", "mobilenet-v2", "resnet-50", "resnext-50")
"""The test networks of TenSet (NeurIPS 2021; `--hold-out all_five` of its scripts)."""

_LONGEST_NAME = 80
"""Characters; a longer name is cut and ends in a hash. The name of a split by workload may be appended to it."""
_LISTING = "`costhub stats DATA`"
"""The command that lists devices, operators and networks."""


def split_by_workload(workload_rows: WorkloadRows, *, held_out: int, seed: int) -> Split:
    """Holds out workloads from every operator family with two or more.

    Each such family has at least one workload on each side; the others are held out in proportion to the
    size of the families. Families of one workload go to the train side.

    Args:
        workload_rows: Rows with `workload_id` and `operator`.
        held_out: Number of workloads to test on.
        seed: Chooses the workloads within each family; the order of the rows does not matter.

    Raises:
        DataError: `held_out` is less than the number of families with two or more workloads, or leaves a
            family without a workload to train on.

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
    taken = _held_out_per_family({name: len(families[name]) for name in spare}, spare, held_out)
    rng = np.random.default_rng(seed)
    test: set[str] = set()
    for name in spare:
        test.update(rng.permutation(sorted(families[name]))[: taken[name]].tolist())
    return _split_of(f"workload-{held_out}-seed{seed}", workload_rows, test, kind="workload", seed=seed)


def split_into_folds(workload_rows: WorkloadRows, *, count: int, seed: int) -> list[Split]:
    """Deals the workloads into folds for cross-validation: each split tests on one fold and trains on the others.

    The workloads of each operator family are shuffled and dealt one by one, so every
    fold has its share of every family. A figure on these splits is the mean over the workloads of all folds.

    Args:
        workload_rows: Rows with `workload_id` and `operator`.
        count: Number of folds.
        seed: Chooses the order within each family; the order of the rows does not matter.

    Returns:
        Splits named ``fold-COUNT-seedSEED-NUMBER``, numbered from 1.

    Raises:
        DataError: There are fewer than two folds, or fewer workloads than folds.

    Example:
        >>> rows = [{"workload_id": f"w{i}", "operator": "conv2d"} for i in range(4)]
        >>> [(split.name, len(split.test)) for split in split_into_folds(rows, count=2, seed=0)]
        [('fold-2-seed0-1', 2), ('fold-2-seed0-2', 2)]
    """
    ids = sorted({(row["operator"], row["workload_id"]) for row in workload_rows})
    if not 2 <= count <= len(ids):
        raise DataError(f"{len(ids)} workloads cannot be split into {count} folds; ask for 2 to {len(ids)}.")
    rng = np.random.default_rng(seed)
    families = sorted({operator for operator, _ in ids})
    dealt = [i for f in families for i in rng.permutation([w for operator, w in ids if operator == f]).tolist()]
    return [
        _split_of(
            f"fold-{count}-seed{seed}-{number + 1}", workload_rows, {*dealt[number::count]}, kind="workload", seed=seed
        )
        for number in range(count)
    ]


def split_by_network(workload_rows: WorkloadRows, hold_out: Sequence[str], *, name: str | None = None) -> Split:
    """Holds out networks: every workload that one of them uses is on the test side, even if others use it.

    No workload on the train side occurs in a test network. Workloads without a network go to the train side.

    Args:
        workload_rows: Rows with `workload_id` and `networks`.
        hold_out: Names of networks; case does not matter, and ``-`` equals ``_``.
        name: Name of the split; composed of the networks' names by default.

    Raises:
        UnknownNameError: No workload belongs to a network with that name.
        DataError: The train side is empty.

    Example:
        >>> rows = [{"workload_id": "w0", "networks": [{"name": "resnet-18", "weight": 1.0}]},
        ...         {"workload_id": "w1", "networks": []}]
        >>> split_by_network(rows, ["ResNet_18"]).test
        ('w0',)
    """
    return _by_name("network", {r["workload_id"]: _networks(r) for r in workload_rows}, hold_out, name)


def split_as_tenset(workload_rows: WorkloadRows) -> Split:
    """Holds out those of TenSet's five test networks that occur in the data.

    Raises:
        DataError: None of them occurs, or the train side is empty.
    """
    present = _spellings({row["workload_id"]: _networks(row) for row in workload_rows})
    hold_out = [present[_fold(name)] for name in TENSET_NETWORKS if _fold(name) in present]
    if not hold_out:
        raise DataError(
            f"No workload comes from one of TenSet's networks, {', '.join(TENSET_NETWORKS)}; "
            "hold out other networks by name (--hold-out)."
        )
    return split_by_network(workload_rows, hold_out, name="network-tenset")


def split_by_operator(workload_rows: WorkloadRows, hold_out: Sequence[str], *, name: str | None = None) -> Split:
    """Holds out operator families: their workloads form the test side, all others the train side.

    Args:
        workload_rows: Rows with `workload_id` and `operator`.
        hold_out: Names of families.
        name: Name of the split; composed of the families' names by default.

    Raises:
        UnknownNameError: A family does not exist.
        DataError: The train side is empty.
    """
    return _by_name("operator", {r["workload_id"]: [r["operator"]] for r in workload_rows}, hold_out, name)


def split_by_device(
    workload_ids: Iterable[str],
    device_ids: Sequence[str],
    hold_out: Sequence[str],
    *,
    workloads: Split | None = None,
    name: str | None = None,
) -> Split:
    """Holds out devices: the measurements of all others form the train side.

    Args:
        workload_ids: All workloads. Without `workloads`, both sides contain all of them.
        device_ids: All devices.
        hold_out: The devices to test on.
        workloads: A split of the same workloads: train on its train side on the other devices, test on its
            test side on the devices held out, so that both are new to the model.
        name: Name of the split; composed of the devices' names by default.

    Raises:
        UnknownNameError: A device does not exist.
        DataError: No device is left to train on.
    """
    for device_id in hold_out:
        if device_id not in device_ids:
            raise UnknownNameError("device", device_id, close_names(device_id, list(device_ids)), _LISTING)
    rest = set(device_ids) - set(hold_out)
    if not rest or not hold_out:
        raise DataError(
            f"{len(hold_out)} of {len(device_ids)} devices cannot be held out; both sides need at least one."
        )
    ids = tuple(workload_ids)
    named = _split_name("device", hold_out) + (f"-{workloads.name}" if workloads else "")
    return Split(
        name or named,
        workloads.train if workloads else ids,
        workloads.test if workloads else ids,
        seed=workloads.seed if workloads else None,
        kind="device",
        hold_out=tuple(hold_out),
        train_devices=tuple(rest),
        test_devices=tuple(hold_out),
        made_from=WorkloadFingerprint.of(ids),
    )


def leave_one_out(workload_rows: WorkloadRows, kind: str) -> list[Split]:
    """Makes one split for each network or operator family, held out alone.

    Skips a network or family that contains every workload: the train side would be empty.

    Args:
        workload_rows: Rows with `workload_id` and `networks` or `operator`.
        kind: ``"network"`` or ``"operator"``.
    """
    names = {r["workload_id"]: _networks(r) if kind == "network" else [r["operator"]] for r in workload_rows}
    splits = []
    for folded, spelt in sorted(_spellings(names).items()):
        if not all(folded in map(_fold, values) for values in names.values()):
            splits.append(_by_name(kind, names, [spelt], None))
    return splits


def _by_name(kind: str, names: Mapping[str, Sequence[str]], hold_out: Sequence[str], name: str | None) -> Split:
    """Puts the workloads that have one of the names on the test side."""
    spellings = _spellings(names)
    for given in hold_out:
        if _fold(given) not in spellings:
            close = close_names(given, sorted(spellings.values()))
            raise UnknownNameError(kind, given, close, _LISTING)
    held = {_fold(given) for given in hold_out}
    test = {key for key, values in names.items() if not held.isdisjoint(map(_fold, values))}
    if not test or len(test) == len(names):
        raise DataError(
            f"Holding out {', '.join(hold_out) or 'nothing'} puts {len(test)} of {len(names)} workloads on "
            "the test side; both sides need at least one."
        )
    spelt = [spellings[folded] for folded in held]
    rows = [{"workload_id": key} for key in names]
    return _split_of(name or _split_name(kind, spelt), rows, test, kind=kind, hold_out=spelt)


def _split_of(
    name: str,
    rows: WorkloadRows,
    test: set[str],
    *,
    kind: str,
    seed: int | None = None,
    hold_out: Sequence[str] = (),
) -> Split:
    every = {row["workload_id"] for row in rows}
    return Split(
        name,
        tuple(every - test),
        tuple(test),
        seed=seed,
        kind=kind,
        hold_out=tuple(hold_out),
        made_from=WorkloadFingerprint.of(every),
    )


def _held_out_per_family(sizes: Mapping[str, int], spare: Mapping[str, int], held_out: int) -> dict[str, int]:
    """Counts the workloads held out per family: one each, then from the family with the smallest share held out."""
    taken = dict.fromkeys(sizes, 1)
    for _ in range(held_out - len(sizes)):
        able = [name for name in sizes if taken[name] < spare[name]]
        taken[min(able, key=lambda name: taken[name] / sizes[name])] += 1
    return taken


def _networks(row: Mapping[str, Any]) -> list[str]:
    return [network["name"] for network in row.get("networks") or ()]


def _spellings(names: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Folded name -> name, sorted; of several spellings the first, regardless of row order."""
    spelt = sorted({value for values in names.values() for value in values})
    return {_fold(value): value for value in reversed(spelt)}


def _fold(name: str) -> str:
    return name.casefold().replace("_", "").replace("-", "")


def _split_name(kind: str, hold_out: Iterable[str]) -> str:
    """Composes a name that is a valid file name.

    Example:
        >>> _split_name("network", ["ViT S/16", "bert-base"])
        'network-ViT-S-16+bert-base'
    """
    name = f"{kind}-" + "+".join(re.sub(r"[^A-Za-z0-9._-]+", "-", name) for name in sorted(hold_out))
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
