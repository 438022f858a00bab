"""Instructions read once, decisions entered into a copy; what a row holds is tested in test_trace_tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costhub.dataset.features.trace_tokens import COLUMN_NAMES, TraceSkeleton

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
