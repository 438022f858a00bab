from __future__ import annotations

from typing import Any

import pytest

from costhub.dataset.workload_service import LoadModule, ModuleWorker, ReplayTrace, handle


def test_a_module_becomes_its_row(tiny_matmul: Any) -> None:
    row = handle(LoadModule(tiny_matmul.module_json))

    assert isinstance(row, dict)
    assert row["workload_id"] == tiny_matmul.workload_id
    assert (row["flop"], row["bytes"]) == (2 * 16**3, 3 * 16 * 16 * 4)


@pytest.mark.parametrize("module", ["{}", "", "[" * 1000])
def test_a_module_that_tvm_cannot_read_has_no_row(module: str) -> None:
    assert handle(LoadModule(module)) is None


def test_a_trace_replays_to_its_canonical_form(tiny_matmul: Any) -> None:
    handle(LoadModule(tiny_matmul.module_json))

    assert [handle(ReplayTrace(trace, tiny_matmul.target)) for trace in tiny_matmul.traces] == list(tiny_matmul.traces)
    assert handle(ReplayTrace(tiny_matmul.bad_trace, tiny_matmul.target)) is None
    assert handle(ReplayTrace("{", tiny_matmul.target)) is None


def test_a_trace_that_brings_tvm_down_costs_itself_only(tiny_matmul: Any) -> None:
    # TVM 0.27 does not fail on a decision that is null: it crashes.
    deadly = tiny_matmul.traces[0].replace("[]]]", "[]]]").rsplit(",[", 1)[0] + ",[[0,null]]]"
    good = tiny_matmul.traces[1]
    with ModuleWorker() as worker:
        assert worker.load(tiny_matmul.module_json) is not None
        assert worker.replay(deadly, tiny_matmul.target) is None
        assert worker.replay(good, tiny_matmul.target) == good
