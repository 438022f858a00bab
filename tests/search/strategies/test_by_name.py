from __future__ import annotations

import pytest

from costhub.errors import UnknownNameError
from costhub.search.strategies.by_name import STRATEGIES, find_strategy


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_has_its_name_and_becomes_one_of_tvm(name: str) -> None:
    from tvm.s_tir.meta_schedule.search_strategy import SearchStrategy

    strategy = find_strategy(name)

    assert strategy.name == name
    assert isinstance(strategy.to_tvm(), SearchStrategy)


def test_an_unknown_name_says_what_there_is() -> None:
    with pytest.raises(UnknownNameError, match="annealing"):
        find_strategy("anealing")
