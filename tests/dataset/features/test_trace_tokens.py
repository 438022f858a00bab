from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset import trace as trace_text
from costhub.dataset.features import trace_tokens
from costhub.dataset.features.trace_tokens import (
    COLUMN_NAMES,
    KIND_NUMBERS,
    KINDS,
    MAX_ROWS,
    WORD_NUMBERS,
    WORDS,
    TraceSkeleton,
    tokenise,
)

TRACE = [
    [
        ["GetSBlock", [], ["C", "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1", "l2"]],
        ["SamplePerfectTile", ["l2"], [2, 64], ["v3", "v4"]],
        ["Split", ["l2", "v3", "v4"], [True, False], ["l5", "l6"]],
        ["SampleCategorical", [], [[0, 16, 64], [0.25, 0.25, 0.5]], ["v7"]],
        ["Annotate", ["l5", "v7"], ["pragma_auto_unroll_max_step"], []],
        ["Annotate", ["b0", '"SSRSRS"'], ["meta_schedule.tiling_structure"], []],
        ["EnterPostproc", [], [], []],
        ["Bind", ["l6"], ["threadIdx.x"], []],
    ],
    [[2, [4, 8]], [4, 1]],
]


def table(trace: Any) -> list[dict[str, float]]:
    rows = tokenise(json.dumps(trace))
    assert rows is not None
    return [{k: v for k, v in zip(COLUMN_NAMES, row.tolist(), strict=True) if v} for row in rows]


def test_an_instruction_becomes_its_kind_arguments_and_decision() -> None:
    _, loops, tile, split, choice, note, structure, _, bind = table(TRACE)

    kind = {name: number for number, name in enumerate(KINDS, 1)}
    word = {name: number for number, name in enumerate(WORDS, 1)}
    assert loops == {
        "kind": kind["GetLoops"],
        "n_arguments": 1,
        "n_results": pytest.approx(np.log2(3)),
        "argument0.back": 1,
    }
    assert (tile["has_decision"], tile["factor0"], tile["factor1"]) == pytest.approx((1, np.log2(5), np.log2(9)))
    assert (tile["argument0.back"], tile["argument0.result"]) == (1, 1)
    # The loop was made two instructions ago; the factors are results 0 and 1 of the last one, 4 and 8.
    assert (split["argument0.back"], split["argument1.back"], split["argument2.back"]) == (2, 1, 1)
    assert (split["argument1.value"], split["argument2.value"]) == pytest.approx((np.log2(5), np.log2(9)))
    assert (choice["has_decision"], choice["choice"]) == (1, 1)
    assert [choice[f"attribute{i}"] for i in (1, 2, 3)] == pytest.approx([np.log2(17), np.log2(65), np.log2(1.25)])
    assert note["argument1.value"] == pytest.approx(np.log2(17))
    assert note["text0"] == word["pragma_auto_unroll_max_step"]
    assert (structure["text0"], structure["text1"]) == (
        word["meta_schedule.tiling_structure"],
        word["SSRSRS"],
    )
    assert (bind["in_postproc"], bind["text0"], bind["argument0.back"]) == (1, word["threadIdx.x"], 5)


def test_names_outside_the_vocabulary_have_few_numbers_that_stay() -> None:
    numbers = {table([[["GetSBlock", [], [f"block{i}", "main"], ["b0"]]], []])[0]["text0"] for i in range(500)}

    assert numbers == set(range(len(WORDS) + 1, len(WORDS) + 33))
    assert table(TRACE)[0]["text0"] == len(WORDS) + 1 + 0x3DD7FFA7 % 32  # crc32 of "C"


def test_traces_of_older_versions_have_the_same_tokens() -> None:
    older = json.loads(json.dumps(TRACE).replace("GetSBlock", "GetBlock").replace("[true, false]", "[1, 0]"))

    assert table(older) == table(TRACE)


def test_real_traces_have_known_instructions_only(tiny_matmul: Any) -> None:
    for trace in tiny_matmul.traces:
        rows = tokenise(trace)
        assert rows is not None
        assert (rows[:, 0] > 0).all()
        assert len(rows) == len(json.loads(trace)[0])


@pytest.mark.parametrize("name", ["matmul.128x128x128", "softmax.64x1000"])
def test_candidates_of_a_search_have_the_rows_of_their_traces(name: str) -> None:
    from tvm.s_tir import meta_schedule as ms

    from costhub.collector.propose.sampler import Sampler
    from costhub.collector.workloads.suites import find_workload
    from costhub.dataset.trace import replay

    mod = find_workload(name).module()
    target = '{"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}'
    traces = [program.trace for program in Sampler(mod, target, seed=1).random(12)]
    candidates = [ms.MeasureCandidate(replay(mod, trace), []) for trace in traces]

    found = trace_tokens.extract_candidates(None, candidates)

    assert len({json.dumps(json.loads(trace)[0]) for trace in traces}) > 1
    for rows, trace in zip(found, traces, strict=True):
        np.testing.assert_array_equal(rows, tokenise(trace))


def test_a_long_trace_is_cut_and_a_huge_text_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tokenise(json.dumps([TRACE[0][:1] * 2000, []]))
    assert rows is not None
    assert len(rows) == MAX_ROWS

    monkeypatch.setattr(trace_text, "MAX_TRACE_CHARACTERS", 10)
    assert tokenise(json.dumps(TRACE)) is None


@pytest.mark.parametrize("text", ["", "null", "[]", "[1,2]", "[[],{}]", "[" * 100_000, "[[" + "9" * 5000 + "],[]]"])
def test_a_text_that_is_no_trace_has_no_features(text: str) -> None:
    assert tokenise(text) is None


@pytest.mark.parametrize("text", ["[[],[]]", "[[],[[0,null]]]"])
def test_an_empty_trace_has_no_rows(text: str) -> None:
    rows = tokenise(text)
    assert rows is not None
    assert rows.shape == (0, len(COLUMN_NAMES))


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.sampled_from(["b0", "v3"])
anything = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner), max_leaves=9
)
instructions = st.tuples(st.sampled_from(["Split", "SampleCategorical", "?"]), anything, anything, anything)


@given(st.lists(instructions | anything, max_size=6), st.lists(st.tuples(st.integers(0, 6), anything) | anything))
def test_no_trace_of_a_stranger_does_harm(made: list[Any], decisions: list[Any]) -> None:
    rows = tokenise(json.dumps([made, decisions]))

    assert rows is not None
    assert rows.shape == (len(made), len(COLUMN_NAMES))
    assert np.isfinite(rows).all()


def test_the_kinds_are_those_of_tvm() -> None:
    from tvm.s_tir.schedule import InstructionKind

    assert [InstructionKind.get(kind).name for kind in KINDS] == KINDS


def test_every_kind_and_word_has_a_number_of_its_own_and_none_has_0() -> None:
    assert sorted(KIND_NUMBERS[kind] for kind in KINDS) == list(range(1, len(KINDS) + 1))
    assert sorted(WORD_NUMBERS.values()) == list(range(1, len(WORDS) + 1))
    assert KIND_NUMBERS["GetBlock"] == KIND_NUMBERS["GetSBlock"]


def test_names_of_columns_are_unique() -> None:
    assert len(set(COLUMN_NAMES)) == len(COLUMN_NAMES) == 48


INSTRUCTIONS: list[Any] = [
    ["GetLoops", ["b0"], [], ["l1"]],
    ["SamplePerfectTile", ["l1"], [2, 64], ["v2", "v3"]],
    ["Split", ["l1", "v2", "v3"], [True, False], ["l4", "l5"]],
    ["SampleCategorical", [], [[0, 16, 64], [0.25, 0.25, 0.5]], ["v6"]],
    ["Annotate", ["l4", "v6"], ["pragma_auto_unroll_max_step"], []],
]


def differing(a: np.ndarray, b: np.ndarray) -> dict[tuple[int, str], float]:
    return {(int(i), COLUMN_NAMES[j]): float(b[i, j]) for i, j in np.argwhere(a != b)}


def test_a_decision_enters_its_own_row_and_those_of_its_results() -> None:
    skeleton = TraceSkeleton.read(INSTRUCTIONS)
    bare = skeleton.decided({})

    tile = differing(bare, skeleton.decided({1: [3, 7]}))
    choice = differing(bare, skeleton.decided({3: 1}))

    assert tile == {
        (1, "has_decision"): 1.0,
        (1, "factor0"): 2.0,
        (1, "factor1"): 3.0,
        (2, "argument1.value"): 2.0,
        (2, "argument2.value"): 3.0,
    }
    assert choice == {
        (3, "has_decision"): 1.0,
        (3, "choice"): 1.0,
        (4, "argument1.value"): pytest.approx(np.log2(17)),
    }


def test_one_candidate_leaves_nothing_to_the_next() -> None:
    skeleton = TraceSkeleton.read(INSTRUCTIONS)
    before = skeleton.decided({}).copy()
    skeleton.decided({1: [3, 7], 3: 2})[:] = 5.0

    assert (skeleton.decided({}) == before).all()


def test_a_name_that_is_made_again_means_its_latest_maker() -> None:
    again = [*INSTRUCTIONS[:2], ["SamplePerfectTile", ["l1"], [2, 64], ["v2"]], *INSTRUCTIONS[2:]]

    rows = TraceSkeleton.read(again).decided({1: [3, 7], 2: [15]})

    assert rows[3, COLUMN_NAMES.index("argument1.value")] == 4.0
    assert rows[3, COLUMN_NAMES.index("argument2.value")] == 3.0


@pytest.mark.parametrize("decision", [None, "a", {}, 0.5, 99, -3, [], [[[1]]], [None, "x"], list(range(100))])
def test_a_decision_that_fits_nothing_does_no_harm(decision: Any) -> None:
    rows = TraceSkeleton.read(INSTRUCTIONS).decided({1: decision, 3: decision, 99: decision})

    assert rows.shape == (5, len(COLUMN_NAMES))
    assert np.isfinite(rows).all()
