"""Provides local_target: the TVM target of the machine we are on."""

from __future__ import annotations

import json
from typing import Any

import psutil

from costhub.errors import DeviceError


def local_target(kind: str = "cpu") -> dict[str, Any]:
    """The target of this machine as TVM's dictionary, with the core count that TVM's CPU rules require.

    Raises:
        DeviceError: TVM sees no device of that kind here.
    """
    import tvm

    if kind == "cpu":
        target = json.loads(str(tvm.target.Target.from_device("cpu")))
        fields = {k: target[k] for k in ("kind", "mtriple", "mcpu", "mattr") if target.get(k)}
        return {**fields, "num-cores": psutil.cpu_count(logical=False) or 1}
    if not tvm.device(kind, 0).exist:
        raise DeviceError(f"TVM sees no {kind} device on this machine; --device auto measures its CPU.")
    exported = json.loads(str(tvm.target.Target.from_device(kind)))
    return {k: v for k, v in exported.items() if k not in ("keys", "tag")}
