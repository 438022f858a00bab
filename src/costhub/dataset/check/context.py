"""Provides Context: what the rules on measurements know of devices and workloads."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class WorkloadFacts:
    """What is needed of a workload; its module stays in its file."""

    workload_id: str
    flop: float
    """Floating-point operations, without products with zeros that a schedule can skip."""
    bytes: float
    is_float32: bool
    """Whether the peak of a device, which is one of float32, bounds it."""


@dataclass
class Context:
    """The devices and workloads of a folder, and the time of the check."""

    devices: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Rows of the devices table by id."""
    workloads: dict[str, WorkloadFacts] = field(default_factory=dict)
    now_us: int = field(default_factory=lambda: time.time_ns() // 1000)

    def device_column(self, name: str) -> Floats:
        """A numeric column of the devices, and a last NaN for an unknown device; NaN for null."""
        values = [row.get(name) for row in self.devices.values()]
        return np.array([np.nan if value is None else value for value in values] + [np.nan], np.float64)

    def workload_column(self, name: str) -> Floats:
        """A numeric column of the workloads, and a last NaN for an unknown workload."""
        return np.array([getattr(facts, name) for facts in self.workloads.values()] + [np.nan], np.float64)

    def device_ids(self) -> pa.Array:
        """Ids of the devices, in order."""
        return pa.array(self.devices, pa.string())

    def workload_ids(self) -> pa.Array:
        """Ids of the workloads, in order."""
        return pa.array(self.workloads, pa.string())
