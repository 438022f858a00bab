"""Provides REPLAY_STRATEGIES: searches that ask for programs of a task and are told their latencies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from costhub.dataset.programs import IntArray
from costhub.registry import Registry
from costhub.search.knobs import Decision, Knobs, coordinates
from costhub.search.replay.workloads import Latencies, ReplayTask

if TYPE_CHECKING:
    from costhub.search.search_model import SearchModel

POPULATION = 16
"""How many of the fastest measured programs have offspring: fewer than in AutoTVM, since a search is shorter."""
MUTATION = 0.1
"""The chance that a knob of a child changes, as in AutoTVM's code."""


class ReplayStrategy(Protocol):
    """A search: it asks for programs, and is told how long they take.

    A new one is made for each task and seed, as ``Strategy(task, model=model, seed=seed)``. With the class attribute
    ``needs_features = False``, no features are computed, which takes minutes per device.
    """

    def ask(self, count: int) -> Sequence[int] | IntArray:
        """Positions in `task.programs` of the next programs to measure, at most `count`, none of them told already."""

    def tell(self, programs: IntArray, latency_s: Latencies) -> None:
        """The latencies of the programs that were asked for, in seconds."""


class _Memory:
    """The programs told, and the others in a random order."""

    def __init__(self, task: ReplayTask, *, seed: int) -> None:
        self.task, self.seed = task, seed
        self.rest: IntArray = np.random.default_rng(seed).permutation(task.n)
        self.told: IntArray = np.zeros(0, np.int64)
        self.latency_s: Latencies = np.zeros(0)

    def tell(self, programs: IntArray, latency_s: Latencies) -> None:
        """Keeps the latencies; the rest stays in its order."""
        self.told = np.concatenate([self.told, programs])
        self.latency_s = np.concatenate([self.latency_s, latency_s])
        self.rest = self.rest[~np.isin(self.rest, programs)]


class RandomOrder(_Memory):
    """Measures programs in a random order; the score of its mean is 0.

    Example:
        >>> from costhub.testing import made_replay
        >>> search = RandomOrder(made_replay().task, model=None, seed=0)
        >>> len(search.ask(4))
        4
    """

    def __init__(self, task: ReplayTask, *, model: SearchModel | None, seed: int) -> None:
        super().__init__(task, seed=seed)

    def ask(self, count: int) -> IntArray:
        """The next ones in the order."""
        return self.rest[:count]


class ModelOrder(_Memory):
    """Measures what the model ranks first; the model learns from what is told, as in `costhub tune`.

    A share of each batch is random, as in TVM's evolutionary search (`eps_greedy`): one program in twenty,
    rounded down, so none of a batch of fewer.

    Example:
        >>> from costhub.models.trees.gbt import Gbt, GbtOptions
        >>> from costhub.search.search_model import SearchModel
        >>> from costhub.testing import made_programs, made_replay
        >>> model = Gbt(feature_spec="made@1", options=GbtOptions(rounds=4))
        >>> _ = model.fit(made_programs("made@1"), None, seed=0, progress=False)
        >>> len(ModelOrder(made_replay().task, model=SearchModel(model), seed=0).ask(4))
        4
    """

    random_share = 0.05

    def __init__(self, task: ReplayTask, *, model: SearchModel | None, seed: int) -> None:
        super().__init__(task, seed=seed)
        if model is None:
            raise TypeError("This strategy needs a model.")
        self._model = model

    def ask(self, count: int) -> IntArray:
        """The highest scores, and a few by chance."""
        features = self.task.features
        scores = self._model.predict(self.task.workload_id, [features[place] for place in self.rest.tolist()])
        ranked = self.rest[np.argsort(-scores, kind="stable")]
        by_chance = int(self.random_share * count)
        first = ranked[: count - by_chance]
        others = self.rest[~np.isin(self.rest, first)]
        return np.concatenate([first, others[:by_chance]])

    def tell(self, programs: IntArray, latency_s: Latencies) -> None:
        """Teaches the model."""
        super().tell(programs, latency_s)
        features = self.task.features
        self._model.update(self.task.workload_id, [features[place] for place in programs.tolist()], latency_s)


class GeneticOrder(_Memory):
    """Recombines the knobs of the fastest measured programs: AutoTVM's baseline without a model (figure 4).

    Parents are drawn by their throughput, a child takes its first knobs from one parent and the others from a second
    one of the same sketch, and some knobs change at random. Only measured programs have a latency here, so the one
    nearest to the child in knobs (`coordinates`) takes its place.

    Example:
        >>> from costhub.testing import made_replay
        >>> search = GeneticOrder(made_replay().task, model=None, seed=0)
        >>> search.tell(np.array([0, 3]), np.array([2e-3, 1e-3]))
        >>> sorted({0, 3} & set(search.ask(4).tolist()))
        []
    """

    def __init__(self, task: ReplayTask, *, model: SearchModel | None, seed: int) -> None:
        super().__init__(task, seed=seed)
        self._random = np.random.default_rng([seed, 1])
        self._values: dict[tuple[str, int], list[Decision]] = {}
        for program in task.knobs:
            for place, decision in program.decisions:
                self._values.setdefault((program.sketch, place), []).append(decision)

    def ask(self, count: int) -> IntArray:
        """The substitutes for a generation; a random batch as long as nothing has been measured."""
        if not len(self.told):
            return self.rest[:count]
        children = [self._child() for _ in range(min(count, len(self.rest)))]
        knobs = self.task.knobs
        points = coordinates([*(knobs[place] for place in self.rest.tolist()), *children])
        taken: list[int] = []
        for child in points[len(self.rest) :]:
            distance = ((points[: len(self.rest)] - child) ** 2).sum(axis=1)
            distance[taken] = np.inf
            taken.append(int(np.argmin(distance)))
        return self.rest[taken]

    def _child(self) -> Knobs:
        fittest = np.argsort(self.latency_s, kind="stable")[:POPULATION]
        first = self._parent(fittest)
        kin = [place for place in fittest.tolist() if self._knobs(place).sketch == first.sketch]
        second = dict(self._parent(np.array(kin)).decisions)
        cut = self._random.integers(len(first.decisions) + 1)
        decisions = [
            (place, decision if number < cut else second.get(place, decision))
            for number, (place, decision) in enumerate(first.decisions)
        ]
        return Knobs(first.sketch, tuple((p, self._mutated(first.sketch, p, d)) for p, d in decisions))

    def _knobs(self, told: int) -> Knobs:
        return self.task.knobs[int(self.told[told])]

    def _parent(self, among: IntArray) -> Knobs:
        fitness = 1.0 / self.latency_s[among]
        return self._knobs(int(self._random.choice(among, p=fitness / fitness.sum())))

    def _mutated(self, sketch: str, place: int, decision: Decision) -> Decision:
        if self._random.random() >= MUTATION:
            return decision
        values = self._values[sketch, place]
        return values[int(self._random.integers(len(values)))]


class NearestOrder(_Memory):
    """Measures what is nearest in knobs to the fastest so far: a local search without a model.

    Example:
        >>> from costhub.testing import made_replay
        >>> search = NearestOrder(made_replay().task, model=None, seed=0)
        >>> search.tell(np.array([2]), np.array([1e-3]))
        >>> 2 in search.ask(3)
        False
    """

    def __init__(self, task: ReplayTask, *, model: SearchModel | None, seed: int) -> None:
        super().__init__(task, seed=seed)
        self._points = coordinates(task.knobs)

    def ask(self, count: int) -> IntArray:
        """The neighbours of the best; a random batch as long as nothing has been measured."""
        if not len(self.told):
            return self.rest[:count]
        best = self._points[self.told[int(np.argmin(self.latency_s))]]
        distance = ((self._points[self.rest] - best) ** 2).sum(axis=1)
        return self.rest[np.argsort(distance, kind="stable")[:count]]


class ReplayFactory(Protocol):
    """Makes a strategy for a task; a class with this constructor is one."""

    def __call__(self, task: ReplayTask, *, model: SearchModel | None, seed: int) -> ReplayStrategy:
        """The strategy.

        Args:
            task: What is searched.
            model: A fresh model for the task, or None if the benchmark was not given one.
            seed: The only source of randomness.
        """


REPLAY_STRATEGIES: Registry[ReplayFactory] = Registry(
    "replay strategy",
    {"model": ModelOrder, "random": RandomOrder, "genetic": GeneticOrder, "nearest": NearestOrder},
    group="costhub.replay_strategies",
    listing="`costhub bench search --help`",
)
"""Name -> a strategy of the replay benchmark; installed packages add theirs."""
WITHOUT_MODEL = frozenset({"random", "genetic", "nearest"})
"""Strategies that read neither a model nor features."""
