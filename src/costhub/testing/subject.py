"""Provides Subject: a cost model under test, with the programs that it is tried on."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from costhub.dataset.programs import Programs
from costhub.models.protocol import CostModel
from costhub.testing.made_programs import made_programs


class Subject:
    """A cost model under test; it is fitted when a property first needs it.

    Args:
        make: Makes the model, not yet fitted, each time a new one; with options that train it in a second.
        columns: Width of the rows it reads where costhub does not know its feature spec; 6 by default.
        programs: Programs to fit and to score, of two workloads or more; by default made up, see
            `made_programs`.

    Raises:
        ValueError: `programs` are of a single workload.
    """

    def __init__(
        self, make: Callable[[], CostModel], *, columns: int | None = None, programs: Programs | None = None
    ) -> None:
        self.make = make
        model = make()
        self.feature_spec = model.feature_spec
        self.name = f"The model {type(model).__name__} ({model.arch}, {model.feature_spec})"
        """For messages."""
        if programs is None:
            self.train = made_programs(self.feature_spec, columns=columns)
            self.unseen = made_programs(self.feature_spec, columns=columns, workloads=2, seed=1)
        else:
            self.train, self.unseen = _divided(programs)

    @property
    def width(self) -> int:
        """Number of columns of a row."""
        return int(self.train.rows.shape[1])

    @functools.cached_property
    def fitted(self) -> CostModel:
        """The model after `fit` on `train`; properties must not change it."""
        return self.fit(self.train)

    def fit(self, programs: Programs) -> CostModel:
        """A new model, fitted on these programs with seed 0."""
        model = self.make()
        model.fit(programs, None, seed=0, progress=False)
        return model


def _divided(programs: Programs) -> tuple[Programs, Programs]:
    """The programs of the first two thirds of the workloads, and those of the others."""
    used = [programs.workload_ids[number] for number in np.unique(programs.workload)]
    if len(used) < 2:
        raise ValueError(f"Programs of two workloads or more are needed, got {len(used)}.")
    last = set(used[-max(1, len(used) // 3) :])
    return programs.of_workloads(set(used) - last), programs.of_workloads(last)
