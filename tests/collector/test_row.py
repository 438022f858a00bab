"""One outcome as a row of the measurements table."""

from __future__ import annotations

from costhub.collector.builder import Built
from costhub.collector.evaluator import Evaluator
from costhub.collector.outcome import Outcome, Surroundings
from costhub.collector.row import Session
from costhub.collector.runner import Ran
from costhub.collector.sampler import Program
from costhub.dataset.schema import table_from_rows

SESSION = Session("d", {"kind": "llvm"}, Evaluator(), "me", "CC-BY-4.0", "driver 1")
PROGRAM = Program("p", "[[],[]]", "{}", (), "mutation")
AROUND = Surroundings(0.5, 1e-3, 0.01)


def test_a_success_and_a_failure_are_rows() -> None:
    good = Outcome(PROGRAM, Built("ok", "a.so", 0.1, None), Ran("ok", (1e-3, 2e-3), 0.1, None), AROUND, "d")
    bad = Outcome(PROGRAM, Built("build_error", None, 0.1, "why"), None, AROUND, "d")

    rows = [SESSION.row("w", good), SESSION.row("w", bad)]

    assert table_from_rows("measurements", rows).num_rows == 2
    assert [r["status"] for r in rows] == ["ok", "build_error"]
    assert rows[0]["run_s"] == [1e-3, 2e-3]
    assert rows[1]["error"] == "why"
    assert rows[0]["record_id"] != rows[1]["record_id"]
    assert rows[0]["proposed_by"] == "mutation"
    assert rows[0]["compiler_version"].removeprefix("llvm ").isdigit()
