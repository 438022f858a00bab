"""Provides the inputs of `costhub.compile`: a target by name or as JSON, rows of similar devices, ids to exclude.

`costhub.tune` takes from here the known schedules with which a search begins.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from costhub.errors import ArgumentError, CosthubError, DeviceError, UnknownNameError, WorkloadError, last_line
from costhub.names import close_names, refuse_text

if TYPE_CHECKING:
    from costhub.search.zero_trials.compile import CompileTarget
    from costhub.search.zero_trials.known import DeviceRows, KnownSchedules

log = logging.getLogger("costhub")
MOST_DEVICES = 4
"""How many of the most similar devices to take schedules from. Reading all rows of one takes a third of a second."""
_MOST_CORES = 1 << 16
_LLVM_S = 60.0
"""Time limit for LLVM to list its CPUs or the features of one, which takes milliseconds."""
_Answer = TypeVar("_Answer")
_ID = re.compile(r"[0-9a-f]{64}")
_EXAMPLE = '{"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72", "num-cores": 4}'
_ADVICE = (
    "For a CPU that is not listed, run `costhub probe --json > chip.json` on it and name that file, or give a TVM "
    f"target such as {_EXAMPLE}."
)


@dataclass(frozen=True)
class FoundTarget:
    """A device to compile for."""

    row: Mapping[str, Any]
    """Its row of the devices table."""
    target: CompileTarget


def check_target(device: str) -> None:
    """Refuses what `find_target` refuses, as far as that can be told without TVM.

    Raises:
        DeviceError: It is a GPU, or nothing is known to compile for.
        ArgumentError: A target given as JSON is not for a CPU, or lacks the number of cores.
        UnknownNameError: No device has that name.
    """
    if device == "rocm":
        raise _not_a_cpu(device, "rocm")
    if device.lstrip().startswith("{"):
        _read_target(device)
        return
    _, kind = _here(device)
    if kind is None:
        _indexed(device)
    elif kind == "cuda":
        raise _not_a_cpu(device, "cuda")


def find_target(device: str) -> FoundTarget:
    """The device to compile for.

    Args:
        device: `auto` for this machine's CPU, a part of it, any CPU of the device index, a file that
            `costhub probe --json` wrote on another CPU, or a TVM target as JSON.

    Raises:
        CosthubError: As for `check_target`, a WorkloadError if TVM does not accept the target, or an UnknownNameError
            if LLVM does not know its CPU.
    """
    from costhub.collector.device.local import find_local
    from costhub.hub.catalogue.devices import is_device_file
    from costhub.search.zero_trials.compile import CompileTarget

    check_target(device)
    if device.lstrip().startswith("{"):
        return _of_json(device)
    here, kind = _here(device)
    if kind == "cpu":
        (local,) = find_local([here])
        return FoundTarget(local.row, CompileTarget(json.dumps(local.target), local.threads))
    row = _indexed(device)
    if is_device_file(device):
        check_llvm(_read_target(str(row["target"])), advice=f"The target in {device} names it.")
    return FoundTarget(row, CompileTarget(str(row["target"])))


def _here(device: str) -> tuple[str, str | None]:
    """A name, in full if it is an alias of a device of this machine, and that device's kind; None for anything else."""
    from costhub.api.measuring import local_devices
    from costhub.collector.device.local import local_kind
    from costhub.hub.catalogue.devices import is_device_file

    if is_device_file(device):
        return device, None
    (name,) = local_devices(device)
    return name, local_kind(name)


def _indexed(device: str) -> dict[str, Any]:
    """The row of a CPU in the device index, or in a file, with its target."""
    from costhub.hub.catalogue.devices import is_device_file, read_device
    from costhub.hub.catalogue.names import resolve_device

    is_file = is_device_file(device)
    found = read_device(device) if is_file else resolve_device(device, advice=_ADVICE)
    if found.kind != "cpu":
        raise _not_a_cpu(device, found.kind)
    if found.target is None:
        why = "has no target in its file" if is_file else "stands for many CPUs and has no target"
        raise DeviceError(f"{found.device_id} {why}; name a CPU, or give a target such as {_EXAMPLE}.")
    if is_file:
        if not isinstance(found.target, str):
            raise DeviceError(f"The target in {device} is {found.target!r:.99}, and a text in JSON was expected.")
        refuse_llvm_options(_read_target(found.target), device)
    return found.row()


def _not_a_cpu(device: str, kind: str) -> DeviceError:
    from costhub.collector.device.identity import NO_ROCM

    advice = f". {NO_ROCM}" if kind == "rocm" else "; `costhub tune --device cuda` tunes for a GPU here."
    return DeviceError(f"{device} is a GPU, and this compiles for CPUs only{advice}")


def _read_target(text: str) -> dict[str, Any]:
    try:
        target = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"The target {text:.99} is not JSON; write for example {_EXAMPLE}.") from error
    target = target if isinstance(target, dict) else {}
    if target.get("kind") == "rocm":
        raise _not_a_cpu(text[:99], "rocm")
    cores = target.get("num-cores")
    if target.get("kind") != "llvm" or type(cores) is not int or not 1 <= cores <= _MOST_CORES:
        raise ArgumentError(
            f'A target needs "kind": "llvm" and "num-cores", the number of threads (at most {_MOST_CORES:,}), as in '
            f"{_EXAMPLE}."
        )
    refuse_unprintable(target)
    return dict(target)


def refuse_llvm_options(target: Mapping[str, Any], device: str) -> None:
    """Refuses the target of a file, or of a row, that sets options of LLVM.

    Args:
        target: A TVM target of the kind llvm.
        device: The file or device that has it.

    Raises:
        DeviceError: It sets options of LLVM.
    """
    from costhub.dataset.workload import LLVM_OPTIONS, sets_llvm_options

    if sets_llvm_options(target):
        raise DeviceError(f"The target in {device} has {LLVM_OPTIONS}: no options of LLVM are taken from a file.")


def refuse_unprintable(target: Mapping[str, Any]) -> None:
    """Refuses a target with texts that a terminal obeys: LLVM prints what it does not know.

    Raises:
        ArgumentError: It has characters that cannot be printed.
    """
    from costhub.dataset.workload import target_texts

    if not all(part.isprintable() for part in target_texts(target)):
        raise ArgumentError(f"The target {json.dumps(target)!r:.99} has characters that cannot be printed.")


def _of_json(text: str) -> FoundTarget:
    """A device described by its target alone; LLVM says how wide its vectors are."""
    from tvm.target import codegen

    from costhub.collector.device.identity import ARM_OF_INTEREST, LINUX_NAMES, SIMD_BITS, X86_OF_INTEREST
    from costhub.dataset.workload import parse_target
    from costhub.search.zero_trials.compile import CompileTarget

    target = _read_target(text)
    check_llvm(target)
    found = [str(name) for name in codegen.llvm_get_cpu_features(parse_target(text))]
    features = {LINUX_NAMES.get(name, name) for name in found}
    cores = target["num-cores"]
    row = {
        "device_id": f"{target.get('mcpu') or str(target.get('mtriple', 'cpu')).split('-')[0]}-{cores}c",
        "kind": "cpu",
        "cores": cores,
        "simd_bits": next((bits for flag, bits in SIMD_BITS if flag in features), None),
        "isa_features": [flag for flag in (*X86_OF_INTEREST, *ARM_OF_INTEREST) if flag in features],
        "target": text,
    }
    return FoundTarget(row, CompileTarget(json.dumps(target)))


def check_llvm(target: Mapping[str, Any], *, advice: str = "") -> None:
    """Refuses a machine or CPU that LLVM does not know.

    For an unknown CPU, TVM would compile for a generic one, with a line on stderr; an unknown machine crashes it.

    Args:
        target: A TVM target of the kind llvm.
        advice: A sentence on where the target is from.

    Raises:
        ArgumentError: LLVM has no such machine.
        MeasureError: The child process that asks LLVM does not start.
        UnknownNameError: LLVM has no such CPU.
        WorkloadError: TVM or LLVM does not accept the target.
    """
    from costhub.collector.build.linker import is_this_machine

    triple, name = target.get("mtriple"), target.get("mcpu")
    asked = json.dumps({key: value for key, value in target.items() if key != "mcpu"})  # LLVM warns of an empty one
    if triple is None or (isinstance(triple, str) and is_this_machine(triple)):
        known = cpu_names(asked)
    else:
        known = _cpu_names_elsewhere(asked, triple)
    if isinstance(name, str) and known and name not in known:
        close = close_names(name, known)
        raise UnknownNameError("CPU (mcpu)", name, close, "`llc -mcpu=help` of LLVM", advice=advice)


def _cpu_names_elsewhere(asked: str, triple: Any) -> list[str]:
    from costhub.isolation.child import CallFailed, ChildDied, ChildTimeout

    try:
        return ask_llvm(cpu_names, asked)
    except (CallFailed, ChildDied, ChildTimeout) as error:
        raise ArgumentError(
            f"TVM cannot generate code for the machine {triple!r:.99} (mtriple); write for example {_EXAMPLE}."
        ) from error


def ask_llvm(question: Callable[[str], _Answer], target: str) -> _Answer:
    """What a function says of a target, as JSON, asked in a child process.

    LLVM crashes on some machines that a target may name, and prints CPUs that it does not know.

    Raises:
        ChildError: The child crashes or takes too long.
        MeasureError: The child cannot be started.
        CallFailed: The function fails.
    """
    from costhub.isolation.tvm_children import tvm_child

    with tvm_child() as child:
        return child.call(question, target, timeout_s=_LLVM_S)


def cpu_names(target: str) -> list[str]:
    """The CPUs that LLVM knows for the machine of a target, as JSON; an unknown machine crashes the process.

    Raises:
        WorkloadError: TVM or LLVM does not accept the target.
    """
    from tvm.target import codegen

    from costhub.dataset.workload import parse_target

    parsed = parse_target(target)
    try:
        return [str(each) for each in codegen.llvm_get_cpu_archlist(parsed)]
    except Exception as error:
        raise WorkloadError(f"LLVM does not accept the target {target:.200} ({last_line(error)}).") from error


def data_folders(own: Sequence[Path] = ()) -> list[Path]:
    """The data folders to look in: those that the user has named, then those of the hubs on this machine.

    Args:
        own: The user's, from `own_folders`.
    """
    from costhub.hub.catalogue.hubs import dataset_folders

    return list(dict.fromkeys([*own, *dataset_folders().values()]))


def own_folders(data: str | Path | Sequence[str | Path]) -> list[Path]:
    """The data folders that a user has named.

    Args:
        data: One or several, each as for `costhub.load_programs`.

    Raises:
        CosthubError: The data do not exist.
    """
    from costhub.hub.data import find_data

    return [find_data(where).folder for where in ([data] if isinstance(data, str | Path) else data)]


def known_rows(row: Mapping[str, Any], folders: Sequence[Path], own: Collection[Path] = ()) -> list[DeviceRows]:
    """Where to find schedules of a device and of similar ones, the most similar device first.

    Args:
        row: The device's row of the devices table.
        folders: The data folders.
        own: Those of them that the user has named.

    Raises:
        DataError: A folder is damaged.
    """
    from costhub.dataset.folder import DataFolder
    from costhub.hub.catalogue.devices import complete_device_row
    from costhub.hub.catalogue.nearest import distance
    from costhub.search.zero_trials.known import DeviceRows

    row = complete_device_row(row)
    found = []
    for folder in folders:
        facts = {each["device_id"]: each for each in DataFolder.open(folder).devices().to_pylist()}
        for name in DataFolder.open(folder).device_ids():
            other = complete_device_row(facts.get(name, {"device_id": name, "kind": "unknown"}))
            if other["kind"] == row["kind"]:
                is_target = name == row["device_id"]
                is_alike = is_target or _has_instructions_of(row, other)
                rows = DeviceRows(folder, name, is_target, is_alike, folder in own)
                found.append((not is_target, distance(row, other), name, rows))
    nearest = [rows for *_, rows in sorted(found, key=lambda each: each[:3])]
    of_hub = [rows for rows in nearest if not rows.is_own][:MOST_DEVICES]
    return [rows for rows in nearest if rows.is_own or rows in of_hub]


def _has_instructions_of(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    shared = set(row.get("isa_features") or ()) & set(other.get("isa_features") or ())
    return bool(shared) and row.get("simd_bits") == other.get("simd_bits")


def known_schedules(device: Mapping[str, Any], *, without: Sequence[str] = ()) -> KnownSchedules:
    """The schedules that the hubs on this machine know for a device; none, with a warning, if the data are damaged.

    Args:
        device: Its row of the devices table.
        without: Workloads that count as unknown, as for `held_out`.
    """
    from costhub.search.zero_trials.known import KnownSchedules

    try:
        folders = data_folders()
        return KnownSchedules(known_rows(device, folders), without=held_out(without, folders))
    except CosthubError as error:
        log.warning("The search begins without known schedules. %s", error)
        return KnownSchedules([])


def check_held_out(names: Sequence[str], folders: Sequence[Path]) -> None:
    """Refuses unknown names of workloads, suites and networks, before TVM is loaded.

    Raises:
        ArgumentError: They are one text.
        UnknownNameError: One of them does not exist.
    """
    refuse_text(names, "What counts as unknown is")
    for name in names:
        _held_out(name, folders)


def held_out(names: Sequence[str], folders: Sequence[Path]) -> set[str]:
    """The ids of the workloads whose rows must not be used.

    Args:
        names: Ids or names of workloads, names of suites, or names of networks.
        folders: The data folders in which names are looked up first.

    Raises:
        UnknownNameError: One of them does not exist.
    """
    from costhub.collector.workloads.suites import find_suites
    from costhub.dataset.workload import workload_id

    found: set[str] = set()
    for name in names:
        ids = _held_out(name, folders)
        found |= ids or {workload_id(each.module()) for each in find_suites([name])}
    return found


def _held_out(name: str, folders: Sequence[Path]) -> set[str]:
    """The ids that a name stands for in the data; none for a workload or suite that is not in them."""
    from costhub.collector.workloads.suites import find_suites
    from costhub.collector.workloads.zoo.networks import NETWORKS
    from costhub.dataset.folder import DataFolder

    if _ID.fullmatch(name):
        return {name}
    label = NETWORKS[name].label if name in NETWORKS else name
    ids: set[str] = set()
    for folder in folders:
        for row in DataFolder.open(folder).workloads(["workload_id", "name", "networks"]).to_pylist():
            networks = {each["name"] for each in row["networks"] or ()}
            if name == row["name"] or label in networks:
                ids.add(row["workload_id"])
    if not ids and name not in NETWORKS:
        try:
            find_suites([name])
        except UnknownNameError as error:
            raise UnknownNameError("workload, suite or network", name, error.close, "`costhub tune --list`") from None
    return ids
