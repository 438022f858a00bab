from __future__ import annotations

from costhub.transfer.search.result import SearchOptions
from costhub.transfer.strategies.evolutionary import Evolutionary


def test_it_is_tvms_own_with_the_sizes_of_a_search() -> None:
    from tvm.s_tir.meta_schedule.search_strategy import EvolutionarySearch

    sizes, strategy = SearchOptions(), Evolutionary()

    assert (strategy.population, strategy.generations) == (sizes.population, sizes.generations)
    made = Evolutionary(32, 1).to_tvm()
    assert isinstance(made, EvolutionarySearch)
    assert (made.population_size, made.genetic_num_iters) == (32, 1)
