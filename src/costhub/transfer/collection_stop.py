"""Provides LearningCurve: says when more measurements of a collection no longer improve a model; and spend_all."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from costhub.dataset.programs import IntArray, Programs
from costhub.errors import DataError
from costhub.models.architectures import new_model
from costhub.models.evaluate import evaluate
from costhub.models.inputs import is_informative
from costhub.models.protocol import CostModel
from costhub.transfer.stopping import SpendAll

GROWTH = 1.25
"""A test is made once the number of programs has grown by this factor since the last one."""
LEAST = 256
"""Programs before the first test."""


@dataclass
class LearningCurve:
    """Asks, each time a collection has grown by a quarter, whether the last quarter taught a model anything.

    The new programs are a test before they are a lesson (prequential evaluation, Dawid, 1984): they are ranked by trees
    that have learned from all programs before them, and by trees that have learned from those before the last quarter.
    The collection is large enough when the difference stays below `worth` in two consecutive tests. The curve of
    accuracy against the logarithm of the number of programs is then flat, so doubling the collection would gain little.

    Args:
        read: Returns all programs measured so far, in the order of `costhub.dataset.load.load_programs`.
        spec: Name of their feature spec.
        worth: Share of the pairs that a quarter more programs must add.
        seed: Seed of the trees.
    """

    read: Callable[[], Programs]
    spec: str
    worth: float = 0.005
    seed: int = 0
    gains: list[float] = field(default_factory=list)
    """What each test showed: the share of pairs in the right order, minus that of the trees from one test earlier."""
    _counts: dict[str, int] = field(default_factory=dict)
    _next: int = LEAST
    _held: int = 0
    _models: list[CostModel] = field(default_factory=list)

    def reason_to_stop(self, done: int) -> str | None:
        """Why the collection is large enough, as a sentence; None as long as it is not.

        Args:
            done: Programs measured in this run; nothing is read before there are enough new ones.
        """
        if done < self._next:
            return None
        programs = self.read()
        # Programs of earlier runs count, too, so a resumed collection needs more new ones to grow by a quarter.
        missing = math.ceil(GROWTH * self._held) - programs.n
        if missing > 0:
            self._next = done + missing
            return None
        self._next, self._held = done + math.ceil((GROWTH - 1) * programs.n), programs.n
        self._test(programs.select(self._new(programs)))
        self._learn(programs)
        if len(self.gains) < 2 or max(self.gains[-2:]) >= self.worth:
            return None
        last = f"{self.gains[-2]:+.4f} and {self.gains[-1]:+.4f}"
        return (
            f"The last two quarters of the programs changed the share of correctly ordered pairs by {last} (less than "
            f"{self.worth:.4f} each)."
        )

    def _new(self, programs: Programs) -> IntArray:
        """The positions of the programs that the last test did not see: those of a workload come in order."""
        new: list[int] = []
        for number in np.unique(programs.workload).tolist():
            name, places = programs.workload_ids[number], np.flatnonzero(programs.workload == number)
            new += places[self._counts.get(name, 0) :].tolist()
            self._counts[name] = len(places)
        return np.array(new, np.int64)

    def _test(self, new: Programs) -> None:
        if len(self._models) < 2 or not new.n:
            return
        try:
            earlier, now = (evaluate(model, new).totals["pairwise"] for model in self._models)
        except DataError:  # no two of them differ by more than the noise
            return
        self.gains.append(now - earlier)

    def _learn(self, programs: Programs) -> None:
        if not is_informative(programs):
            return
        model = new_model("gbt", feature_spec=self.spec, options={"objective": "log"})
        model.fit(programs, None, seed=self.seed, progress=False)
        self._models = [*self._models, model][-2:]


def spend_all(read: Callable[[], Programs], spec: str, *, seed: int = 0) -> SpendAll:
    """The rule that never ends a collection, created like `LearningCurve`."""
    return SpendAll()
