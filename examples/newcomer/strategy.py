"""A search strategy of one's own: it measures where the nearest measured programs were fast."""

import numpy as np

from costhub.search.knobs import coordinates

NEAREST = 3
"""How many measured programs a guess rests on."""
BY_CHANCE = 0.25
"""The share of each batch that is random, so that one good corner does not hide the others."""


class Neighbours:
    """Guesses the latency of each program from the measured programs whose decisions are most alike.

    Play it with ``costhub bench search --strategy examples/newcomer/strategy.py:Neighbours --model none``.
    """

    needs_features = False  # it reads only the decisions

    def __init__(self, task, *, model=None, seed=0):
        points = coordinates(task.knobs)  # (n, d): the decisions of each schedule as numbers
        self.points = (points - points.mean(axis=0)) / (points.std(axis=0) + 1e-9)
        self.rest = np.random.default_rng(seed).permutation(task.n)
        self.told, self.log_latency = np.zeros(0, int), np.zeros(0)

    def ask(self, count):
        """The programs that promise most, and a few by chance; a random batch as long as nothing was measured."""
        if not len(self.told):
            return self.rest[:count]
        promising = self.rest[np.argsort(self._guesses(), kind="stable")][: count - int(BY_CHANCE * count)]
        others = self.rest[~np.isin(self.rest, promising)]
        return np.concatenate([promising, others[: count - len(promising)]])

    def tell(self, programs, latency_s):
        """Remembers the latencies; the logarithm, so that a slow program does not outweigh a fast one."""
        self.told = np.concatenate([self.told, programs])
        self.log_latency = np.concatenate([self.log_latency, np.log(latency_s)])
        self.rest = self.rest[~np.isin(self.rest, programs)]

    def _guesses(self):
        """(rest,) the mean log latency of the nearest measured programs, the nearer the heavier."""
        distance = np.stack([((self.points[self.rest] - self.points[each]) ** 2).sum(axis=1) for each in self.told])
        nearest = np.argsort(distance, axis=0, kind="stable")[:NEAREST]
        weight = 1.0 / (np.take_along_axis(distance, nearest, axis=0) + 1e-6)
        return (weight * self.log_latency[nearest]).sum(axis=0) / weight.sum(axis=0)
