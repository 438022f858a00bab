"""Provides CollectionSession: turns measured programs into rows of the measurements table."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from costhub.collector.measurer import MeasuredDevice, Measurer, MeasureResult
from costhub.collector.propose.sampler import Program
from costhub.collector.run.evaluator import Evaluator
from costhub.dataset.trace import record_id
from costhub.versions import costhub_version, installed_versions


@dataclass(frozen=True)
class Rights:
    """The contributor of rows, and their licence."""

    contributor: str = "anonymous"
    licence: str = "CC-BY-4.0"


@dataclass(frozen=True)
class CollectionSession:
    """The values that all rows of one device in a collection share."""

    device: MeasuredDevice
    target: dict[str, Any]
    """The TVM target that programs are built for."""
    evaluator: Evaluator
    rights: Rights
    session: str
    """Shared by everything that one measurer measures."""

    def row(self, workload_id: str, program: Program, result: MeasureResult) -> dict[str, Any]:
        """Makes one row of the measurements table: a program of a workload, and its measurement."""
        now = datetime.datetime.now(datetime.timezone.utc)
        run, machine = result.run, result.machine
        return {
            "record_id": record_id(program.program_id, self.device.device_id, self.session, now),
            "program_id": program.program_id,
            "workload_id": workload_id,
            "device_id": self.device.device_id,
            "target": json.dumps(self.target),
            "trace": program.trace,
            "status": result.status,
            "error": result.error,
            "run_s": list(result.run_s),
            "evaluator_number": self.evaluator.number,
            "evaluator_repeat": self.evaluator.max_repeat or self.evaluator.repeat,
            "evaluator_min_repeat_ms": self.evaluator.min_repeat_ms,
            "cache_flush": self.evaluator.cache_flush,
            "build_s": result.build.build_s,
            "run_wall_s": run.wall_s if run else None,
            "load_average": machine.load_average,
            "reference_s": machine.reference_s,
            "reference_drift": machine.reference_drift,
            "reference_after_s": machine.reference_after_s,
            "output_checked": run.output_checked if run else None,
            "cpu_affinity": self.device.cpu_affinity,
            "governor": self.device.governor,
            "board": result.board,
            "clock_mhz": machine.clock_mhz,
            "temperature_c": machine.temperature_c,
            "proposed_by": program.proposed_by,
            "space": program.space,
            "predicted_score": program.predicted_score,
            "timestamp": now,
            "session": self.session,
            "contributor": self.rights.contributor,
            "licence": self.rights.licence,
            "driver_version": self.device.row.get("driver"),
            "compiler_version": _compiler_version() if self.target["kind"] == "llvm" else None,
            **_versions(),
        }


def open_sessions(measurer: Measurer, rights: Rights) -> tuple[CollectionSession, ...]:
    """One session for each device of a measurer."""
    return tuple(
        CollectionSession(device, measurer.target, measurer.evaluator, rights, measurer.session)
        for device in measurer.devices
    )


@cache
def _versions() -> dict[str, str | None]:
    return {"tvm_version": installed_versions().get("tvm"), "costhub_version": costhub_version()}


@cache
def _compiler_version() -> str:
    import tvm

    return f"llvm {tvm.target.codegen.llvm_version_major()}"
