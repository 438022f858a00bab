"""Shares of the sources: read from text, refused where they do not sum to 1, kept over many calls."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.collector.shares import Shares, Turns
from costhub.errors import MeasureError


def test_a_source_that_is_not_named_has_no_share() -> None:
    assert Shares.parse("random=0.5, mutation=0.3, model=0.2") == Shares(0.5, 0.3, 0.2)
    assert Shares.parse("random=1") == Shares(1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("random=0.5,mutation=0.4", "sum to 1"),
        ("random=1.5,model=-0.5", "between 0 and 1"),
        ("random=nan", "sum to 1"),
        ("random=0.5,luck=0.5", "'luck' is not a source"),
        ("random=half,model=0.5", "'random' is not a source"),
        ("random=0.5,random=0.5", "twice"),
        ("", "are not of the form"),
    ],
)
def test_what_is_not_a_share_is_refused_with_a_sentence(text: str, said: str) -> None:
    with pytest.raises(MeasureError, match=said):
        Shares.parse(text)


@given(
    st.tuples(*[st.integers(0, 9)] * 3).filter(any),
    st.lists(st.integers(0, 9), min_size=1, max_size=40),
)
def test_many_small_requests_keep_the_shares(parts: tuple[int, ...], counts: list[int]) -> None:
    shares = [part / sum(parts) for part in parts]
    turns = Turns()
    taken = [turns.take(count, Shares(*shares)) for count in counts]

    assert [sum(t) for t in taken] == counts
    for source, share in enumerate(shares):
        # Never more than two programs off, however the requests are cut.
        assert abs(sum(t[source] for t in taken) - share * sum(counts)) < 2


def test_a_source_without_a_share_has_no_turn_whatever_it_was_owed() -> None:
    turns = Turns()
    turns.take(1, Shares(0.5, 0.25, 0.25))
    assert turns.take(5, Shares(1, 0, 0)) == (5, 0, 0)
