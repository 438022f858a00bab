"""Provides Evolutionary: TVM's own search strategy under its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Evolutionary:
    """TVM's evolutionary search (*Tensor Program Optimization with Probabilistic Programs*, section 4)."""

    population: int = 256
    generations: int = 2

    name = "evolutionary"

    def to_tvm(self) -> Any:
        """See `Strategy`."""
        from tvm.s_tir import meta_schedule as ms

        return ms.search_strategy.EvolutionarySearch(
            population_size=self.population, genetic_num_iters=self.generations
        )
