"""The genetic search of AutoTVM's figure 4, among made programs."""

from __future__ import annotations

import numpy as np

from costhub.search.knobs import Knobs
from scripts.bench.common.pools import keep_order, search_pool
from scripts.bench.models.genetic import GeneticSearch


def grid(size: int) -> tuple[list[Knobs], np.ndarray]:
    """Programs with two tile sizes; throughput falls with the distance from the largest ones."""
    places = [(a, b) for a in range(size) for b in range(size)]
    throughput = np.array([1.0 / (1 + (size - 1 - a) + (size - 1 - b)) for a, b in places])
    return [Knobs("s", ((1, (2**a,)), (4, (2**b,)))) for a, b in places], throughput


def test_what_is_proposed_is_what_was_not_measured() -> None:
    knobs, throughput = grid(6)
    search = GeneticSearch(knobs, throughput, batch=4, seed=0)

    rest = np.arange(5, 36)
    found = search(np.arange(5), rest)

    assert sorted(found.tolist()) == rest.tolist()


def test_nothing_measured_leaves_the_random_order() -> None:
    knobs, throughput = grid(3)

    assert GeneticSearch(knobs, throughput, batch=4, seed=0)(np.zeros(0, np.int64), np.array([4, 1, 7])).tolist() == [
        4,
        1,
        7,
    ]


def test_children_are_near_their_parents() -> None:
    """With parents in one corner only, no child needs a program from the other half."""
    knobs, throughput = grid(8)
    parents = np.array([0, 1, 8, 9])
    rest = np.setdiff1d(np.arange(64), parents)
    search = GeneticSearch(knobs, throughput, batch=6, seed=0)

    proposed = search(parents, rest)[:6]

    assert np.median([place // 8 + place % 8 for place in proposed]) <= 4


def test_parents_with_complementary_knobs_have_the_best_child() -> None:
    """One parent has the best first knob, the other the best second one."""
    knobs, throughput = grid(8)
    parents = np.array([56, 7])  # (7, 0) and (0, 7)
    rest = np.setdiff1d(np.arange(64), parents)

    first = [GeneticSearch(knobs, throughput, batch=8, seed=seed)(parents, rest)[:8].tolist() for seed in range(20)]

    assert sum(63 in own for own in first) > 6  # half of them; by chance an eighth


def test_it_finds_better_programs_than_chance_where_knobs_matter_one_by_one() -> None:
    knobs, throughput = grid(16)

    def mean_of_last(propose_by_seed: object) -> float:
        lasts = []
        for seed in range(6):
            propose = (
                GeneticSearch(knobs, throughput, batch=8, seed=seed) if propose_by_seed == "genetic" else keep_order
            )
            chosen = search_pool(throughput, propose, batch=8, trials=64, seed=seed)
            lasts.append(throughput[chosen].max())
        return float(np.mean(lasts))

    assert mean_of_last("genetic") > 1.5 * mean_of_last("random")
