"""Provides CollectionSession and MeasureResult: one measured program, and its row of the measurements table."""

from __future__ import annotations

import datetime
import hashlib
import json
import uuid
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from costhub.collector.build.builder import BuildResult
from costhub.collector.propose.sampler import Program
from costhub.collector.run.drift_monitor import MachineState
from costhub.collector.run.evaluator import Evaluator
from costhub.collector.run.runner import RunResult
from costhub.versions import costhub_version, installed_versions


@dataclass(frozen=True)
class MeasureResult:
    """One program and its measurement on one device."""

    program: Program
    built: BuildResult
    ran: RunResult | None
    """None where it was not built."""
    surroundings: MachineState
    device_id: str
    board: str | None = None
    """The number of the board that measured it; None if this machine did."""

    @property
    def status(self) -> str:
        """The measurement's status, as in the measurements table."""
        return self.ran.status if self.ran else self.built.status

    @property
    def error(self) -> str | None:
        """Why it failed; None when it did not."""
        return self.ran.error if self.ran else self.built.error


@dataclass(frozen=True)
class CollectionSession:
    """The constant part of a collection's rows."""

    device_id: str
    target: dict[str, Any]
    evaluator: Evaluator
    contributor: str
    licence: str
    driver_version: str | None
    cpu_affinity: str | None = None
    """The cores that programs may use, such as ``0-1``."""
    governor: str | None = None
    """The frequency governor."""
    session: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    def row(self, workload_id: str, outcome: MeasureResult) -> dict[str, Any]:
        """One row of the measurements table."""
        now = datetime.datetime.now(datetime.timezone.utc)
        program, ran, around = outcome.program, outcome.ran, outcome.surroundings
        identity = f"{program.program_id} {self.device_id} {self.session} {now.isoformat()}"
        return {
            "record_id": hashlib.sha256(identity.encode()).hexdigest(),
            "program_id": program.program_id,
            "workload_id": workload_id,
            "device_id": self.device_id,
            "target": json.dumps(self.target),
            "trace": program.trace,
            "status": outcome.status,
            "error": outcome.error,
            "run_s": list(ran.run_s) if ran else [],
            "evaluator_number": self.evaluator.number,
            "evaluator_repeat": self.evaluator.max_repeat or self.evaluator.repeat,
            "evaluator_min_repeat_ms": self.evaluator.min_repeat_ms,
            "cache_flush": self.evaluator.cache_flush,
            "build_s": outcome.built.build_s,
            "run_wall_s": ran.wall_s if ran else None,
            "load_average": around.load_average,
            "reference_s": around.reference_s,
            "reference_drift": around.reference_drift,
            "reference_after_s": around.reference_after_s,
            "output_checked": ran.output_checked if ran else None,
            "cpu_affinity": self.cpu_affinity,
            "governor": self.governor,
            "board": outcome.board,
            "clock_mhz": around.clock_mhz,
            "temperature_c": around.temperature_c,
            "proposed_by": program.proposed_by,
            "space": program.space,
            "predicted_score": program.predicted_score,
            "timestamp": now,
            "session": self.session,
            "contributor": self.contributor,
            "licence": self.licence,
            "driver_version": self.driver_version,
            "compiler_version": _compiler_version() if self.target["kind"] == "llvm" else None,
            **_versions(),
        }


@cache
def _versions() -> dict[str, str | None]:
    versions = installed_versions()
    return {
        "tvm_version": versions.get("tvm"),
        "costhub_version": costhub_version(),
    }


@cache
def _compiler_version() -> str:
    import tvm

    return f"llvm {tvm.target.codegen.llvm_version_major()}"


@dataclass(frozen=True)
class Rights:
    """Whose rows they are, and what others may do with them."""

    contributor: str = "anonymous"
    licence: str = "CC-BY-4.0"
