"""Provides find_local, find_by_target, local_kind and local_target: this machine's devices and their TVM targets."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from costhub.collector.device.cpu_state import core_count, cpu_quota
from costhub.collector.device.identity import (
    CUDA_NEEDS,
    ISA_LEVELS,
    LINUX_NAMES,
    NO_ROCM,
    cpu_flags,
    identify,
    isa_level,
    limited,
)
from costhub.errors import DeviceError, either
from costhub.isolation.limits import usable_cpus
from costhub.names import close_names
from costhub.versions import installed_versions

_AMD_GPU = re.compile(r"rocm|(?:amd-|radeon-instinct-)?mi\d{2,3}x?")


def local_target(kind: str = "cpu", *, isa: str | None = None, threads: int | None = None) -> dict[str, Any]:
    """The target of this machine as a dictionary for TVM, with the core count that TVM's CPU rules require.

    Args:
        kind: TVM's name for the kind of device, ``cpu`` or ``cuda``.
        isa: Limits the CPU to an instruction set, a key of `ISA_LEVELS`.
        threads: Limits the CPU to this many cores.

    Raises:
        DeviceError: TVM finds no device of that kind here, or cannot compile for it.
        UnknownNameError: No instruction set has that name.
    """
    import tvm

    if kind == "cpu":
        fields = _detected_by_tvm()
        if isa is not None:
            fields = {"kind": "llvm", "mtriple": fields["mtriple"], "mcpu": isa_level(isa).mcpu}
        else:
            if (name := _real_name(fields)) is not None:
                fields["mcpu"] = name
            if hidden := hidden_features(fields):
                fields["mattr"] = [*fields.get("mattr", ()), *(f"-{feature}" for feature in hidden)]
        return {**fields, "num-cores": threads or core_count()}
    if not tvm.device(kind, 0).exist:
        raise DeviceError(
            f"TVM sees no {kind} device on this machine; --device auto is its CPU. "
            f"For NVIDIA's, TVM needs {CUDA_NEEDS}."
        )
    check_cuda_compiler()
    exported = json.loads(str(tvm.target.Target.from_device(kind)))
    return {k: v for k, v in exported.items() if k not in ("keys", "tag")}


def check_cuda_compiler() -> None:
    """Refuses to begin without what TVM compiles CUDA code with: else, each program of a search would fail.

    Raises:
        DeviceError: It is missing.
    """
    from tvm.support import nvcc

    if os.environ.get("TVM_CUDA_COMPILE_MODE", "nvrtc") == "nvrtc":
        try:
            found = importlib.util.find_spec("cuda.bindings")
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise DeviceError(
                "TVM compiles for NVIDIA's GPUs with their run-time compiler, whose Python package is not installed: "
                f"pip install 'apache-tvm[cuda]=={installed_versions()['tvm']}'."
            )
    try:
        nvcc.find_cuda_path()
    except RuntimeError as error:
        raise DeviceError(
            "TVM finds no CUDA installation here, whose headers it needs: set CUDA_PATH to the folder that has "
            "include/cuda_runtime.h."
        ) from error


def _detected_by_tvm() -> dict[str, Any]:
    """The target of this machine's CPU as TVM detects it, which may lack instructions or name ones that are hidden."""
    import tvm

    target = json.loads(str(tvm.target.Target.from_device("cpu")))
    return {k: target[k] for k in ("kind", "mtriple", "mcpu", "mattr") if target.get(k)}


def _real_name(target: Mapping[str, Any]) -> str | None:
    """The name of a CPU with matrix units (AMX) for which LLVM took an older one, misled by a hidden model number."""
    if LINUX_NAMES["amx-tile"] not in cpu_flags() or "amx-tile" in _expected_features(target):
        return None
    name = str(identify()["microarchitecture"])
    # In an emulator, which shows the flags of its host, the name is that of the machine, such as aarch64.
    return name if "amx-tile" in _expected_features({**target, "mcpu": name}) else None


def hidden_features(target: Mapping[str, Any]) -> list[str]:
    """Instructions that LLVM expects of the CPU that it names, but that Linux does not list, in LLVM's names.

    LLVM takes the name from the CPU's model number. A hypervisor may hide the CPU's larger units, whose instructions
    then end the process.

    Args:
        target: A dictionary for TVM.
    """
    listed = cpu_flags()
    if not listed:
        return []
    expected = _expected_features(target)
    return [name for name, flag in HIDEABLE.items() if name in expected and flag not in listed]


def _expected_features(target: Mapping[str, Any]) -> set[str]:
    import tvm

    return set(map(str, tvm.target.codegen.llvm_get_cpu_features(tvm.target.Target(dict(target)))))


HIDEABLE = {
    **{name: LINUX_NAMES[name] for name in ("amx-tile", "avx512bf16", "avxvnni")},
    **{"amx-bf16": "amx_bf16", "amx-int8": "amx_int8", "avx512fp16": "avx512_fp16"},
}
"""LLVM's name of a feature -> Linux's, for what costhub uses without asking."""


@dataclass(frozen=True)
class LocalDevice:
    """A device of this machine."""

    row: dict[str, Any]
    """Its row in the devices table, without the probed columns."""
    target: dict[str, Any]
    """Its TVM target."""
    isa: str | None
    """The instruction set it is limited to; None if it may use all of them."""

    @property
    def device_id(self) -> str:
        """Its device id."""
        return str(self.row["device_id"])

    @property
    def threads(self) -> int | None:
        """Number of threads that a program may use on it; None for a GPU."""
        return int(self.row["cores"]) if self.row["kind"] == "cpu" else None


def find_local(names: Sequence[str]) -> list[LocalDevice]:
    """Finds the devices called `names`; all must belong to this machine and run the same compiled programs.

    Args:
        names: Device ids, such as ``amd-epyc-zen5-1c-avx2`` or, for four of its cores, ``amd-epyc-zen5-4c``; or
            ``auto`` for the whole CPU.

    Raises:
        DeviceError: This machine has no device of that name, or the devices need different builds.

    Example:
        >>> find_local(["auto"])[0].isa is None
        True
    """
    devices = list({device.device_id: device for device in (_find(name) for name in names)}.values())
    if len({(device.row["kind"], device.isa) for device in devices}) > 1:
        raise DeviceError(
            f"{' and '.join(d.device_id for d in devices)} run differently compiled programs; collect on one "
            "after the other. Devices that differ only in their number of threads can share a collection."
        )
    return devices


def find_by_target(target: Mapping[str, Any]) -> LocalDevice | None:
    """Finds the device of this machine's CPU that matches a target; None if no device has that target.

    A device is defined by its instructions and number of threads, so only ``mcpu``, ``mattr`` and ``num-cores`` count.
    The target that TVM itself detects is for all instructions, even where costhub would correct it.

    Args:
        target: A dictionary for TVM, with ``num-cores``. The device keeps it.

    Example:
        >>> found = find_by_target(local_target())
        >>> found is not None and found.device_id == identify()["device_id"]
        True
    """
    cores = target.get("num-cores")
    names = local_names(*([cores] if isinstance(cores, int) else []))
    detected = _detected_by_tvm()
    for isa, threads in sorted(names.values(), key=lambda limits: limits[0] is not None):
        is_detected = isa is None and _is_same_code({**detected, "num-cores": threads}, target)
        if is_detected or _is_same_code(local_target(isa=isa, threads=threads), target):
            return LocalDevice(identify(isa=isa, threads=threads), dict(target), isa)
    return None


def _is_same_code(own: Mapping[str, Any], target: Mapping[str, Any]) -> bool:
    return all(_plain(own.get(key)) == _plain(target.get(key)) for key in ("mcpu", "mattr", "num-cores"))


def _plain(value: Any) -> Any:
    """A field of a target as a plain value; TVM omits empty fields."""
    return sorted(map(str, value)) if isinstance(value, list | tuple) else value or None


def local_names(*threads: int) -> dict[str, tuple[str | None, int]]:
    """The names of the devices that this machine's CPU offers: (instruction set, threads) by device id.

    Args:
        threads: Numbers of threads besides 1 and all; those that the machine lacks are left out.
    """
    whole = identify()
    isas = [None, *(name for name, level in ISA_LEVELS.items() if level.flag in whole["isa_features"])]
    sizes = sorted({1, whole["cores"], *(size for size in threads if 1 <= size <= whole["cores"])})
    return {str(limited(whole, isa, size)["device_id"]): (isa, size) for isa in isas for size in sizes}


def limits_of(name: str) -> tuple[str | None, int] | None:
    """Instruction set and threads of the device of this machine's CPU called `name`; None if it has none.

    Example:
        >>> limits_of(str(identify(threads=1)["device_id"])), limits_of("toaster-4c")
        ((None, 1), None)
    """
    cores = re.search(r"-(\d{1,4})c(-|$)", name)
    return local_names(*([int(cores[1])] if cores else [])).get(name)


def local_limits(row: Mapping[str, Any]) -> tuple[str, str | None, int | None]:
    """The arguments of `costhub probe` for a device of this machine: kind, instruction set, threads; None for all.

    Args:
        row: Its row in the devices table.
    """
    isa, threads = limits_of(str(row["device_id"])) or (None, None)
    # A process that may use only some CPUs names the number, which is right in another one, too.
    is_limited = len(usable_cpus()) != os.cpu_count() or cpu_quota() is not None
    whole = row["kind"] != "cpu" or (threads == core_count() and not is_limited)
    return str(row["kind"]), isa, None if whole else threads


def probe_command(row: Mapping[str, Any]) -> str:
    """The command that probes a device of this machine, which may be a part of it.

    Args:
        row: Its row in the devices table.
    """
    kind, isa, threads = local_limits(row)
    limits = [f"--kind {kind}"] * (kind != "cpu") + [f"--isa {isa}"] * bool(isa)
    limits += [f"--threads {threads}"] * (threads is not None)
    return " ".join(["costhub probe", *limits])


def local_kind(name: str) -> str | None:
    """The kind of the device called `name`, determined without TVM; None if this machine has no device of that name.

    Example:
        >>> local_kind("auto"), local_kind("cuda"), local_kind("toaster")
        ('cpu', 'cuda', None)
    """
    if name == "auto" or limits_of(name):
        return "cpu"
    return "cuda" if _may_be_gpu(name) else None


def _may_be_gpu(name: str) -> bool:
    return name == "cuda" or name.startswith("nvidia-")


def _find(name: str) -> LocalDevice:
    if name.endswith(".json"):
        raise DeviceError(
            f"{name} cannot be measured here: only `costhub compile` and `estimate` take the file of another machine's "
            "probe. Run the command on that machine, or name its board with --tracker HOST:PORT --key KEY."
        )
    if _AMD_GPU.fullmatch(name):
        raise DeviceError(f"{name} cannot be measured here. {NO_ROCM}")
    limits = (None, None) if name == "auto" else limits_of(name)
    if limits is not None:
        return _cpu(*limits)
    names = local_names()
    if _may_be_gpu(name):
        device = LocalDevice(identify("cuda"), local_target("cuda"), None)
        if name in ("cuda", device.device_id):
            return device
        names = {**names, device.device_id: (None, 0)}
    close = close_names(name, list(names))
    meant = f"Did you mean {either(close)}? " if close else ""
    raise DeviceError(
        f"This machine has no device named {name!r}. {meant}It is {identify()['device_id']}; `costhub devices` lists "
        "the parts of it that can be named instead. Measure on the device itself, or name a board with --tracker "
        "HOST:PORT --key KEY (BoardsAt in Python); --device auto is the CPU here."
    )


def _cpu(isa: str | None, threads: int | None) -> LocalDevice:
    row = identify(isa=isa, threads=threads)
    return LocalDevice(row, local_target(isa=isa, threads=threads), isa)
