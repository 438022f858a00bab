from __future__ import annotations

from dataclasses import dataclass

from costhub.transfer.strategies.ground import Ground
from costhub.transfer.strategies.strategy import Exploration, Explorer


@dataclass(frozen=True)
class Own(Explorer):
    """As a stranger may write one."""

    name = "own"

    def begin(self, ground: Ground) -> Exploration:
        raise NotImplementedError


def test_an_explorer_becomes_a_strategy_of_tvm_each_time_a_new_one() -> None:
    from tvm.s_tir.meta_schedule.search_strategy import SearchStrategy

    one, two = Own().to_tvm(), Own().to_tvm()

    assert isinstance(one, SearchStrategy)
    assert not one.same_as(two)
    assert not one.clone().same_as(one)
