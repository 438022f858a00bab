from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costhub.dataset.ansor.sketch import HALF_VECTOR_LENGTHS, UNROLL_STEPS, VECTOR_LENGTHS, read_sketch
from costhub.errors import WorkloadError
from tests.dataset.ansor.ansor_steps import Tiles

small = st.integers(1, 8)


@settings(deadline=None, max_examples=50)
@given(
    spatial=st.lists(st.tuples(*[small] * 5), min_size=1, max_size=4),
    reduction=st.lists(st.tuples(*[small] * 3), min_size=1, max_size=3),
    vectors=st.tuples(st.sampled_from(VECTOR_LENGTHS), st.sampled_from(VECTOR_LENGTHS)),
    unroll=st.sampled_from(UNROLL_STEPS),
    stages=st.sampled_from([((0, 1), 2, False), ((1, 2), 3, True)]),
)
def test_what_ansor_decided_is_read_back(spatial: Any, reduction: Any, vectors: Any, unroll: int, stages: Any) -> None:
    sources, computes, padding = stages
    tiles = Tiles(spatial, reduction, vectors, unroll, sources, computes, padding)

    sketch = read_sketch(tiles.steps())

    assert sketch.tiles == [list(each) for each in (*spatial, *reduction)]
    assert (sketch.vectors, sketch.unroll) == (vectors, unroll)


def test_a_program_that_lacks_a_step_or_has_one_twice_is_refused() -> None:
    steps = Tiles().steps()
    for number in range(len(steps)):
        for wrong in (
            steps[:number] + steps[number + 1 :],
            [*steps[: number + 1], *copy.deepcopy(steps[number:])],
        ):
            with pytest.raises(WorkloadError):
                read_sketch(wrong)


def test_a_program_with_another_structure_is_refused() -> None:
    """Every number of every step counts, but for lengths of splits, and a fetch's extent, which Ansor leaves stale."""
    steps = Tiles().steps()
    free = {("SP", 3), ("SP", 4), ("PR", 1), ("PR", 2)}
    for number, step in enumerate(steps):
        for place, value in enumerate(step):
            if place == 0 or (step[0], place) in free:
                continue
            wrong = copy.deepcopy(steps)
            wrong[number][place] = value + 1 if isinstance(value, int) else [7] if isinstance(value, list) else "other"
            with pytest.raises(WorkloadError):
                read_sketch(wrong)


@pytest.mark.parametrize(
    ("tiles", "why"),
    [
        (Tiles(vectors=(5, 1)), "lengths other than 1, 2, 3, 4"),
        (Tiles(unroll=7), "unrolls up to 7"),
        (Tiles(reduction=((1, 1, 128),)), "more than 64"),
    ],
)
def test_decisions_outside_of_the_space_are_not_rounded(tiles: Tiles, why: str) -> None:
    with pytest.raises(WorkloadError, match=why):
        read_sketch(tiles.steps())


def test_float16_has_one_longer_vector() -> None:
    assert read_sketch(Tiles(vectors=(8, 3)).steps(), HALF_VECTOR_LENGTHS).vectors == (8, 3)
    with pytest.raises(WorkloadError, match="lengths other than 1, 2, 3, 4, 8, the"):
        read_sketch(Tiles(vectors=(5, 1)).steps(), HALF_VECTOR_LENGTHS)
    with pytest.raises(WorkloadError, match="lengths other than 1, 2, 3, 4, the"):
        read_sketch(Tiles(vectors=(8, 1)).steps())


@pytest.mark.parametrize("lengths", [[3, 1, 1, 1], [0, 1, 1, 1], [-2, -1, 1, 1], [2.0, 1, 1, 1], [True, 1, 1, 1]])
def test_a_split_must_divide_its_axis(lengths: list[Any]) -> None:
    steps = Tiles().steps()
    steps[1][4] = lengths
    with pytest.raises(WorkloadError, match="a split"):
        read_sketch(steps)


@pytest.mark.parametrize("steps", [[], [[]], [["CHW"]], ["CHW", 2], [None], [["CHW", 2, "local"]], [[[]] * 9], [{}]])
def test_what_is_no_program_is_refused(steps: Any) -> None:
    with pytest.raises(WorkloadError):
        read_sketch(steps)
