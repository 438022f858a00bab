from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.programs import Programs
from costhub.transfer.trial_order import disagreement, most_disagreed, round_robin


def pool(sizes: list[int]) -> Programs:
    workload = np.repeat(np.arange(len(sizes)), sizes)
    names = tuple(f"w{number}" for number in range(len(sizes)))
    return Programs.from_list([np.ones((1, 2))] * len(workload), workload, names, 1.0 + np.arange(len(workload)))


@given(
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=6),
    trials=st.integers(0, 80),
    seed=st.integers(0, 9),
)
def test_programs_are_chosen_once_and_all_where_there_are_fewer(sizes: list[int], trials: int, seed: int) -> None:
    found = round_robin(pool(sizes), trials, seed=seed, each=4)

    assert len(found) == len(set(found.tolist())) == min(trials, sum(sizes))


@given(seed=st.integers(0, 20))
def test_more_trials_begin_with_those_of_fewer(seed: int) -> None:
    programs = pool([9, 5, 7])

    np.testing.assert_array_equal(round_robin(programs, 20, seed=seed)[:13], round_robin(programs, 13, seed=seed))


def test_workloads_come_one_after_the_other_and_again_when_all_had_their_turn() -> None:
    programs = pool([6, 6, 6])

    turns = programs.workload[round_robin(programs, 18, seed=3, each=4)]

    assert turns[:12].tolist() == [w for w in dict.fromkeys(turns.tolist()) for _ in range(4)]
    assert sorted(turns[12:].tolist()) == [0, 0, 1, 1, 2, 2]


def pool_telling(sizes: list[int], seed: int = 0) -> Programs:
    """Programs of three numbers each; nobody has measured them."""
    workload = np.repeat(np.arange(len(sizes)), sizes)
    names = tuple(f"w{number}" for number in range(len(sizes)))
    rows = np.random.default_rng(seed).normal(size=(len(workload), 1, 3))
    return Programs.from_list(list(rows), workload, names, np.full(len(workload), np.inf))


def unlike(programs: Programs) -> np.ndarray:
    """Three sources that agree about even workloads, and about odd ones the less the higher."""
    first, *others = programs.rows.T.astype(float)
    odd = np.where(programs.workload % 2 == 1, programs.workload, 0)
    return np.stack([first, *(first + odd * other for other in others)])


@given(
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=6),
    trials=st.integers(0, 80),
    seed=st.integers(0, 9),
)
def test_programs_are_chosen_once_and_more_trials_begin_with_those_of_fewer(
    sizes: list[int], trials: int, seed: int
) -> None:
    found = most_disagreed(pool_telling(sizes), unlike, trials, seed=seed, each=4)

    assert len(found) == len(set(found.tolist())) == min(trials, sum(sizes))
    np.testing.assert_array_equal(most_disagreed(pool_telling(sizes), unlike, 99, seed=seed, each=4)[:trials], found)


@given(seed=st.integers(0, 20))
def test_workloads_on_which_the_sources_agree_come_last_in_every_turn(seed: int) -> None:
    programs = pool_telling([6] * 6)

    turns = programs.workload[most_disagreed(programs, unlike, 36, seed=seed, each=4)]

    assert set(turns[:12]) == set(turns[24:30]) == {1, 3, 5}
    assert set(turns[12:24]) == set(turns[30:]) == {0, 2, 4}


@given(seed=st.integers(0, 20))
def test_within_a_workload_and_without_contradiction_the_order_is_that_of_chance(seed: int) -> None:
    programs = pool_telling([9, 5, 7])
    chance = round_robin(programs, 21, seed=seed)

    found = most_disagreed(programs, unlike, 21, seed=seed)
    for workload in range(3):
        np.testing.assert_array_equal(
            found[programs.workload[found] == workload], chance[programs.workload[chance] == workload]
        )
    agreed = most_disagreed(programs, lambda some: unlike(some)[:1], 21, seed=seed)
    np.testing.assert_array_equal(agreed, chance)


def test_sources_are_asked_once_about_a_few_programs_of_every_workload() -> None:
    asked: list[int] = []

    def score(some: Programs) -> np.ndarray:
        asked.append(some.n)
        return unlike(some)

    most_disagreed(pool_telling([30, 3, 30]), score, 8, seed=0, each=8)

    assert asked == [8 + 3 + 8]


def test_the_scale_of_a_source_does_not_count() -> None:
    programs = pool_telling([8] * 6)

    def scaled(some: Programs) -> np.ndarray:
        return np.array([[1.0], [1e3], [1e-3]]) * unlike(some)

    np.testing.assert_array_equal(
        most_disagreed(programs, scaled, 48, seed=0), most_disagreed(programs, unlike, 48, seed=0)
    )


def test_contradiction_is_small_where_all_agree_or_those_who_do_not_are_unsure() -> None:
    up, down = np.arange(4.0), -np.arange(4.0)

    assert disagreement(np.stack([up, 3 * up])) == 0.0
    assert disagreement(np.stack([up, 0.01 * down])) < 0.01 * disagreement(np.stack([up, down])) * 1.01
    assert disagreement(np.stack([up, up, down])) < disagreement(np.stack([up, down]))
