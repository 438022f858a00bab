"""One outcome as a row of the measurements table."""

from __future__ import annotations

from costhub.collector.build.builder import BuildResult
from costhub.collector.propose.sampler import Program
from costhub.collector.run.drift_monitor import MachineState
from costhub.collector.run.evaluator import Evaluator
from costhub.collector.run.runner import RunResult
from costhub.collector.session import CollectionSession, MeasureResult
from costhub.dataset.schema import table_from_rows

SESSION = CollectionSession("d", {"kind": "llvm"}, Evaluator(), "me", "CC-BY-4.0", "driver 1")
PROGRAM = Program("p", "[[],[]]", "{}", (), "mutation")
AROUND = MachineState(0.5, 1e-3, 0.01)


def test_a_success_and_a_failure_are_rows() -> None:
    good = MeasureResult(
        PROGRAM, BuildResult("ok", "a.so", 0.1, None), RunResult("ok", (1e-3, 2e-3), 0.1, None), AROUND, "d"
    )
    bad = MeasureResult(PROGRAM, BuildResult("build_error", None, 0.1, "why"), None, AROUND, "d")

    rows = [SESSION.row("w", good), SESSION.row("w", bad)]

    assert table_from_rows("measurements", rows).num_rows == 2
    assert [r["status"] for r in rows] == ["ok", "build_error"]
    assert rows[0]["run_s"] == [1e-3, 2e-3]
    assert rows[1]["error"] == "why"
    assert rows[0]["record_id"] != rows[1]["record_id"]
    assert rows[0]["proposed_by"] == "mutation"
    assert rows[0]["compiler_version"].removeprefix("llvm ").isdigit()


RANDOM = Program("p", "[[],[]]", "{}", (), "random")
QUIET = MachineState(0.5, 1e-3, 0.01)


def test_the_status_is_that_of_the_run_and_of_the_build_where_there_was_none() -> None:
    built = BuildResult("ok", "a.so", 0.1, None)
    unbuilt = BuildResult("build_timeout", None, 0.1, "too long")
    assert MeasureResult(RANDOM, unbuilt, None, QUIET, "d").status == "build_timeout"
    assert MeasureResult(RANDOM, unbuilt, None, QUIET, "d").error == "too long"
    assert MeasureResult(RANDOM, built, RunResult("ok", (1.0,), 0.1, None), QUIET, "d").status == "ok"
    assert MeasureResult(RANDOM, built, RunResult("run_error", (), 0.1, "why"), QUIET, "d").error == "why"
