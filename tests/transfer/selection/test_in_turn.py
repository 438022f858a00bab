from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.programs import Programs
from costhub.transfer.selection.in_turn import in_turn


def pool(sizes: list[int]) -> Programs:
    workload = np.repeat(np.arange(len(sizes)), sizes)
    names = tuple(f"w{number}" for number in range(len(sizes)))
    return Programs.from_list(
        [np.ones((1, 2))] * len(workload), workload, names, 1.0 + np.arange(len(workload))
    )


@given(
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=6),
    trials=st.integers(0, 80),
    seed=st.integers(0, 9),
)
def test_programs_are_chosen_once_and_all_where_there_are_fewer(
    sizes: list[int], trials: int, seed: int
) -> None:
    found = in_turn(pool(sizes), trials, seed=seed, each=4)

    assert len(found) == len(set(found.tolist())) == min(trials, sum(sizes))


@given(seed=st.integers(0, 20))
def test_more_trials_begin_with_those_of_fewer(seed: int) -> None:
    programs = pool([9, 5, 7])

    np.testing.assert_array_equal(in_turn(programs, 20, seed=seed)[:13], in_turn(programs, 13, seed=seed))


def test_workloads_come_one_after_the_other_and_again_when_all_had_their_turn() -> None:
    programs = pool([6, 6, 6])

    turns = programs.workload[in_turn(programs, 18, seed=3, each=4)]

    assert turns[:12].tolist() == [w for w in dict.fromkeys(turns.tolist()) for _ in range(4)]
    assert sorted(turns[12:].tolist()) == [0, 0, 1, 1, 2, 2]
