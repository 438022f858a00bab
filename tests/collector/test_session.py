"""One measurement as a row of the measurements table."""

from __future__ import annotations

from costhub.collector.build.builder import BuildResult
from costhub.collector.measurer import MeasuredDevice, MeasureResult
from costhub.collector.propose.sampler import Program
from costhub.collector.run.drift_monitor import MachineState
from costhub.collector.run.evaluator import Evaluator
from costhub.collector.run.runner import RunResult
from costhub.collector.session import CollectionSession, Rights
from costhub.dataset.schema import table_from_rows

TARGET = {"kind": "llvm"}
DEVICE = MeasuredDevice({"device_id": "d", "driver": "driver 1"}, TARGET, cpu_affinity="0-1")
SESSION = CollectionSession(DEVICE, TARGET, Evaluator(), Rights("me", "MIT"), "a-session")
PROGRAM = Program("p", "[[],[]]", "{}", (), "mutation")


def test_a_success_and_a_failure_are_rows() -> None:
    machine = MachineState(0.5, 1e-3, 0.01)
    run = RunResult("ok", (1e-3, 2e-3), 0.1, None)
    good = MeasureResult(BuildResult("ok", "a.so", 0.1, None), run, machine, "d")
    bad = MeasureResult(BuildResult("build_error", None, 0.1, "why"), None, machine, "d")

    rows = [SESSION.row("w", PROGRAM, result) for result in (good, bad)]

    assert table_from_rows("measurements", rows).num_rows == 2
    assert [r["status"] for r in rows] == ["ok", "build_error"]
    assert [r["run_s"] for r in rows] == [[1e-3, 2e-3], []]
    assert rows[1]["error"] == "why"
    assert rows[0]["record_id"] != rows[1]["record_id"]
    assert rows[0]["proposed_by"] == "mutation"
    assert rows[0]["compiler_version"].removeprefix("llvm ").isdigit()
    shared = {"device_id": "d", "driver_version": "driver 1", "contributor": "me", "licence": "MIT"}
    shared |= {"cpu_affinity": "0-1", "session": "a-session", "reference_s": 1e-3}
    assert all(row[name] == value for row in rows for name, value in shared.items())
