"""Provides local_target: the TVM target of the machine we are on."""

from __future__ import annotations

import json
from typing import Any

from costhub.collector.cpu_state import core_count
from costhub.collector.isa import isa_level
from costhub.errors import DeviceError


def local_target(kind: str = "cpu", *, isa: str | None = None, threads: int | None = None) -> dict[str, Any]:
    """The target of this machine as TVM's dictionary, with the core count that TVM's CPU rules require.

    Args:
        kind: TVM's name of the device's kind, ``cpu`` or ``cuda``.
        isa: Limits the CPU to an instruction set, one of `isa.ISA_LEVELS`.
        threads: Limits the CPU to so many cores.

    Raises:
        DeviceError: TVM sees no device of that kind here.
    """
    import tvm

    if kind == "cpu":
        target = json.loads(str(tvm.target.Target.from_device("cpu")))
        fields = {k: target[k] for k in ("kind", "mtriple", "mcpu", "mattr") if target.get(k)}
        if isa is not None:
            fields = {"kind": "llvm", "mtriple": fields["mtriple"], "mcpu": isa_level(isa).mcpu}
        return {**fields, "num-cores": threads or core_count()}
    if not tvm.device(kind, 0).exist:
        raise DeviceError(f"TVM sees no {kind} device on this machine; --device auto measures its CPU.")
    exported = json.loads(str(tvm.target.Target.from_device(kind)))
    return {k: v for k, v in exported.items() if k not in ("keys", "tag")}
