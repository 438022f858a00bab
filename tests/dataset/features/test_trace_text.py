from __future__ import annotations

import json
from typing import Any

import pytest

from costhub.dataset.features.trace_text import (
    MAX_CHARACTERS,
    before_postproc,
    decision_pairs,
    read_trace,
)


def test_a_trace_is_its_instructions_and_its_decisions() -> None:
    instructions, decisions = [["GetLoops", ["b0"], [], ["l1"]]], [[0, [4, 8]]]
    assert read_trace(json.dumps([instructions, decisions])) == (instructions, decisions)


@pytest.mark.parametrize(
    "text",
    ["", "x", "[[]]", "[[],[],[]]", "[[],{}]", '{"0":[],"1":[]}', "[" * 100_000, " " * (MAX_CHARACTERS + 1)],
    ids=["empty", "no JSON", "one list", "three lists", "an object within", "an object", "nested", "long"],
)
def test_any_other_text_is_none(text: str) -> None:
    assert read_trace(text) is None


@pytest.mark.parametrize("odd", [None, 3, "ab", [], [0], [0, 1, 2], ["0", 1], [True, 1], [0.0, 1], {"0": 1}])
def test_what_is_no_pair_of_a_number_and_a_decision_is_left_out(odd: Any) -> None:
    assert decision_pairs([[1, "a"], odd, [2, None]]) == [(1, "a"), (2, None)]


@pytest.mark.parametrize("odd", [None, 3, [], {}, "EnterPostproc", ["Enter"]])
def test_post_processing_begins_with_the_instruction_that_says_so(odd: Any) -> None:
    assert before_postproc([odd, ["EnterPostproc"], ["EnterPostproc"]]) == 1
    assert before_postproc([odd, odd]) == 2
