from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from costhub.dataset.check.deep import (
    DRAWN_PROGRAMS,
    FASTEST_PROGRAMS,
    SampledProgram,
    canonical_trace,
    check_workload,
    module_row,
    sample_programs,
)
from costhub.dataset.intrinsics import names_intrinsics
from costhub.dataset.workload import module_from_json, workload_row
from costhub.isolation.child import Child


def test_the_fastest_and_some_others_are_sampled(ledger: Any) -> None:
    latency_s = np.arange(1, 41) * 1e-3
    latency_s[0] = np.nan
    program = np.arange(40)[::-1].copy()
    made = ledger(40, latency_s=latency_s, program=program)

    found = sample_programs(made)
    assert found[:FASTEST_PROGRAMS] == [1, 2, 3, 4]
    assert found[FASTEST_PROGRAMS:] == list(range(40 - DRAWN_PROGRAMS, 40))


def test_every_workload_on_every_device_is_sampled(ledger: Any) -> None:
    made = ledger(30, workload=np.arange(30) % 3, device=np.arange(30) // 15)
    pairs = {(int(made["workload"][row]), int(made["device"][row])) for row in sample_programs(made)}

    assert len(pairs) == 6


def test_what_is_not_described_is_not_sampled(ledger: Any) -> None:
    assert sample_programs(ledger(5, workload=-1)) == []
    assert sample_programs(ledger(0)) == []


def test_a_module_becomes_its_row(tiny_matmul: Any) -> None:
    row = module_row(tiny_matmul.module_json)

    assert row is not None
    assert row["workload_id"] == tiny_matmul.workload_id
    assert (row["flop"], row["bytes"]) == (2 * 16**3, 3 * 16 * 16 * 4)


@pytest.mark.parametrize("module", ["{}", "", "[" * 1000])
def test_a_module_that_tvm_cannot_read_has_no_row(module: str) -> None:
    assert module_row(module) is None


def test_a_trace_replays_to_its_canonical_form(tiny_matmul: Any) -> None:
    def replayed(trace: str) -> str | None:
        return canonical_trace(tiny_matmul.module_json, trace, tiny_matmul.target)

    assert [replayed(trace) for trace in tiny_matmul.traces] == list(tiny_matmul.traces)
    assert replayed(tiny_matmul.bad_trace) is None
    assert replayed("{") is None


def test_a_target_without_end_beside_a_tensorizing_trace_is_a_breach(tiny_matmul: Any) -> None:
    instructions, decisions = json.loads(tiny_matmul.traces[0])
    trace = json.dumps([[*instructions, ["Tensorize", ["b0"], ["dot_4x4_i8i8s32_sdot", 1], []]], decisions])
    row = workload_row(module_from_json(tiny_matmul.module_json), name="tiny", operator="matmul")

    with Child() as child:
        found = list(check_workload(child, row, "table", [SampledProgram("shard", "r0", trace, "[" * 5000)]))

    assert names_intrinsics(trace)
    assert [breach.rule for breach in found] == ["CH023"]


@pytest.mark.parametrize("error", [RuntimeError, RecursionError, NotImplementedError])
def test_whatever_tvm_raises_about_a_module_is_a_breach(
    tiny_matmul: Any, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error("InternalError: Check failed")

    monkeypatch.setattr("costhub.dataset.check.deep.workload_row", fails)
    monkeypatch.setattr("costhub.dataset.check.deep.replay", fails)

    assert module_row(tiny_matmul.module_json) is None
    assert canonical_trace(tiny_matmul.module_json, tiny_matmul.traces[0], tiny_matmul.target) is None


def test_a_trace_that_brings_tvm_down_is_a_breach_and_the_child_serves_again(tiny_matmul: Any) -> None:
    # TVM 0.27 does not fail on a decision that is null: it crashes.
    deadly = tiny_matmul.traces[0].replace("[]]]", "[]]]").rsplit(",[", 1)[0] + ",[[0,null]]]"
    row = workload_row(module_from_json(tiny_matmul.module_json), name="tiny", operator="matmul")

    def breaches(child: Child, trace: str) -> list[str]:
        program = SampledProgram("shard", "r0", trace, tiny_matmul.target)
        return [breach.rule for breach in check_workload(child, row, "table", [program])]

    with Child() as child:
        assert breaches(child, deadly) == ["CH023"]
        assert breaches(child, tiny_matmul.traces[1]) == []
