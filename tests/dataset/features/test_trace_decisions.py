from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.features.trace_decisions import COLUMN_NAMES, SPEC

TRACE = [
    [
        ["GetSBlock", [], ["C", "main"], ["b0"]],
        ["SamplePerfectTile", ["l1"], [4, 64], ["v2", "v3", "v4", "v5"]],
        ["SampleCategorical", [], [[0, 16, 64], [0.25, 0.25, 0.5]], ["v6"]],
        ["EnterPostproc", [], [], []],
        ["SampleCategorical", [], [[1, 2], [0.5, 0.5]], ["v7"]],
    ],
    [[1, [1, 3, 7, 15]], [2, 2], [4, 1]],
]


def row_of(trace: Any) -> dict[str, float]:
    [rows] = SPEC.extract(None, [json.dumps(trace)], "")
    assert rows is not None
    assert rows.shape == (1, len(COLUMN_NAMES))
    return {k: v for k, v in zip(COLUMN_NAMES, rows[0].tolist(), strict=True) if v}


def test_a_row_holds_the_decisions_before_post_processing_in_order() -> None:
    assert row_of(TRACE) == {
        "instructions": 3,
        "decisions": 2,
        "decision0.place": 1,
        "decision0.factors": 4,
        "decision0.factor0": 1,
        "decision0.factor1": 2,
        "decision0.factor2": 3,
        "decision0.factor3": 4,
        "decision1.place": 2,
        "decision1.choice": 2,
    }


def test_what_the_columns_cannot_hold_is_left_out() -> None:
    many = row_of([TRACE[0][:1] * 100, [[i, list(range(9))] for i in range(100)]])

    assert (many["instructions"], many["decisions"], many["decision23.factors"]) == (100, 100, 9)


@pytest.mark.parametrize("name", ["matmul.128x128x128", "softmax.64x1000"])
def test_candidates_of_a_search_have_the_rows_of_their_traces(name: str) -> None:
    from tvm.s_tir import meta_schedule as ms

    from costhub.collector.propose.sampler import Sampler
    from costhub.collector.workloads.suites import find_workload
    from costhub.dataset.trace import replay

    mod = find_workload(name).module()
    target = '{"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}'
    traces = [program.trace for program in Sampler(mod, target, seed=1).random(8)]
    candidates = [ms.MeasureCandidate(replay(mod, trace), []) for trace in traces]

    found = SPEC.extract_candidates(None, candidates)

    expected = SPEC.extract(None, traces, target)
    assert [f is not None and f.tolist() for f in found] == [e is not None and e.tolist() for e in expected]
    assert len({f.tobytes() for f in found if f is not None}) == 8


@pytest.mark.parametrize("text", ["", "null", "[]", "[1,2]", "[[],{}]", "[" * 100_000])
def test_a_text_that_is_no_trace_has_no_features(text: str) -> None:
    assert SPEC.extract(None, [text], "") == [None]


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
anything = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4), max_leaves=9)


@given(st.lists(anything, max_size=6), st.lists(st.tuples(st.integers(-1, 6), anything) | anything))
def test_no_trace_of_a_stranger_does_harm(made: list[Any], decisions: list[Any]) -> None:
    [rows] = SPEC.extract(None, [json.dumps([made, decisions])], "")

    assert rows is not None
    assert np.isfinite(rows).all()
