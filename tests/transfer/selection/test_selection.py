from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.transfer.selection.clustered import Clustered
from costhub.transfer.selection.diverse import Diverse
from costhub.transfer.selection.knobs import Knobs
from costhub.transfer.selection.ranked import Ranked
from costhub.transfer.selection.selection import Candidates, Selection

SELECTIONS: list[Selection] = [
    Ranked(), Ranked(epsilon=1.0), Diverse(), Diverse(3.0, top=1.0), Clustered(), Clustered(top=math.inf)
]  # fmt: skip


def drawn(n: int, seed: int, *, visited: int = 0) -> Candidates:
    """Candidates of two sketches, some of which are the same program."""
    rng = np.random.default_rng(seed)
    knobs = [
        Knobs(str(rng.choice(["s", "t"])), ((1, (int(2 ** rng.integers(4)), 8)), (2, int(rng.integers(4)))))
        for _ in range(n)
    ]
    return Candidates(rng.normal(size=n), knobs, set(knobs[:visited]))


def test_there_is_a_score_for_each_candidate() -> None:
    with pytest.raises(ValueError, match="one score for each of the 1 candidates, got 2"):
        Candidates(np.zeros(2), [Knobs("s", ())])


def test_the_best_come_first_each_once_and_of_equals_the_first() -> None:
    a, b, c = (Knobs("s", ((1, choice),)) for choice in range(3))
    some = Candidates(np.array([0.5, 0.9, 0.5, 0.1, 0.9]), [a, b, c, a, b], {c})

    assert some.best_first().tolist() == [1, 0, 2]
    assert some.is_new().tolist() == [True, True, False, True, True]
    assert some.waiting().tolist() == [1, 0]


@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
@given(n=st.integers(0, 60), count=st.integers(0, 30), visited=st.integers(0, 60), seed=st.integers(0, 99))
def test_new_programs_are_chosen_and_each_once(
    selection: Selection, n: int, count: int, visited: int, seed: int
) -> None:
    some = drawn(n, seed, visited=visited)

    found = selection.choose(some, count, seed=seed)

    programs = [some.knobs[place] for place in found]
    fresh = len(set(some.knobs) - set(some.visited))
    assert len(set(programs)) == len(programs) <= min(count, fresh)
    assert not set(programs) & set(some.visited)
    if not isinstance(selection, Clustered):
        assert len(programs) == min(count, fresh)
    assert len(programs) > 0 or min(count, fresh) == 0  # a search goes on while there is something to measure
    np.testing.assert_array_equal(found, selection.choose(some, count, seed=seed))


@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
def test_every_selection_has_a_name(selection: Selection) -> None:
    assert selection.name in ("ranked", "diverse", "clustered")
