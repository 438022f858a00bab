"""A genetic search without a model, the baseline of AutoTVM's figure 4, among measured programs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from costhub.dataset.programs import IntArray
from costhub.search.knobs import Decision, Knobs, coordinates
from scripts.bench.common.pools import Throughput

POPULATION = 16
"""The fastest measured programs, which have offspring: fewer than in the paper, since a search has 64 trials."""
MUTATION = 0.1
"""The chance of each knob of a child to change, as in AutoTVM's code."""


class GeneticSearch:
    """Recombines the knobs of the fastest measured programs; a `Propose` of `search_pool`.

    Parents are drawn by their throughput, a child takes its first knobs from one parent and the others from a second
    one of the same sketch, and some knobs change at random. Only measured programs have a latency here, so that the
    program nearest to the child in knobs (`coordinates`) takes its place among those that were not measured yet.

    Args:
        knobs: (n,) of the programs of the pool.
        throughput: (n,) of the same; read for measured programs only.
        batch: Children of a generation.
        seed: The only source of chance.

    Example:
        >>> knobs = [Knobs("s", ((1, (2**size,)),)) for size in (0, 1, 2, 8, 9)]
        >>> search = GeneticSearch(knobs, np.array([0.1, 0.2, 0.3, 0.9, 1.0]), batch=1, seed=0)
        >>> sorted(search(np.array([0, 3]), np.array([1, 2, 4])).tolist())
        [1, 2, 4]
    """

    def __init__(self, knobs: Sequence[Knobs], throughput: Throughput, *, batch: int, seed: int) -> None:
        self._knobs, self._throughput, self._batch = knobs, throughput, batch
        self._random = np.random.default_rng(seed)
        self._values: dict[tuple[str, int], list[Decision]] = {}
        for program in knobs:
            for place, decision in program.decisions:
                self._values.setdefault((program.sketch, place), []).append(decision)

    def __call__(self, chosen: IntArray, rest: IntArray) -> IntArray:
        """`rest` with the substitutes of a generation first; in its own order while nothing was measured."""
        if not len(chosen):
            return rest
        fittest = chosen[np.argsort(-self._throughput[chosen], kind="stable")][:POPULATION]
        children = [self._child(fittest) for _ in range(self._batch)]
        points = coordinates([*(self._knobs[place] for place in rest.tolist()), *children])
        taken: list[int] = []
        for child in points[len(rest) :]:
            distance = ((points[: len(rest)] - child) ** 2).sum(axis=1)
            distance[taken] = np.inf
            if len(taken) < len(rest):
                taken.append(int(np.argmin(distance)))
        return np.concatenate([rest[taken], np.delete(rest, taken)])

    def _child(self, fittest: IntArray) -> Knobs:
        first = self._parent(fittest)
        kin = [place for place in fittest.tolist() if self._knobs[place].sketch == first.sketch]
        second = dict(self._parent(np.array(kin)).decisions)
        cut = self._random.integers(len(first.decisions) + 1)
        decisions = [
            (place, decision if number < cut else second.get(place, decision))
            for number, (place, decision) in enumerate(first.decisions)
        ]
        return Knobs(first.sketch, tuple((p, self._mutated(first.sketch, p, d)) for p, d in decisions))

    def _parent(self, among: IntArray) -> Knobs:
        fitness = self._throughput[among]
        return self._knobs[int(self._random.choice(among, p=fitness / fitness.sum()))]

    def _mutated(self, sketch: str, place: int, decision: Decision) -> Decision:
        if self._random.random() >= MUTATION:
            return decision
        values = self._values[sketch, place]
        return values[int(self._random.integers(len(values)))]
