"""The ensemble of AutoTVM (Chen et al., *Learning to Optimize Tensor Programs*, 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from costhub.dataset.programs import FloatArray, IntArray, Programs
from costhub.models.compound.members import MemberSpec, load_members, save_members
from costhub.models.inputs import check_training, checked_rows, is_informative, not_fitted_error
from costhub.models.options import check_ranges, check_width, parse_options
from costhub.models.protocol import CostModel, Scores, update_sub_models
from costhub.progress import bar


@dataclass(frozen=True)
class EnsembleOptions:
    """What an Ensemble is made of."""

    members: int = 5
    member: str = "gbt"
    """The architecture of all members, as `Member.parse` reads it: `gbt` or `gbt(rounds=100)`."""

    def __post_init__(self) -> None:
        check_ranges({"members": (self.members, 2, 32)})
        if MemberSpec.parse(self.member).feature_spec:
            raise ValueError(
                f"a member of an ensemble reads what the ensemble reads; leave :SPEC out of {self.member!r}."
            )


class Ensemble:
    """Models trained on different random draws of the programs: where they agree, the score is reliable.

    Chen et al., *Learning to Optimize Tensor Programs* (AutoTVM), sections 3.3 and 6: five models, each
    trained on programs drawn with replacement, give the mean and the spread that acquisition functions need.
    Their spread is that of the regression objective, whose scores are on the scale of what is predicted.

    Args:
        feature_spec: Name and version of the feature layout it reads.
        options: What it is made of.

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
        >>> ones, latency_s = np.ones(64, np.int64), np.exp(rows[:, 0]).astype(float)
        >>> programs = Programs(rows, ones, 0 * ones, ("w",), latency_s)
        >>> model = Ensemble(feature_spec="demo@1", options=EnsembleOptions(member="gbt(rounds=20)"))
        >>> model.fit(programs, None, seed=0, progress=False)
        >>> mean, std = model.predict_with_spread(programs.rows, programs.counts)
        >>> mean.shape, bool((std > 0).any())
        ((64,), True)
    """

    arch = "ensemble"
    default_spec = "tiles@1"

    def __init__(self, *, feature_spec: str, options: EnsembleOptions | None = None) -> None:
        self.feature_spec = feature_spec
        self.options = options or EnsembleOptions()
        self.columns: int | None = None
        """Width of a feature row; None before fitting or loading."""
        self.members = self._new_members(self.options)

    def fit(self, train: Programs, valid: Programs | None, *, seed: int, progress: bool = True) -> None:
        """Learns from scratch; `valid`, of other workloads, tells each member when to stop.

        Raises:
            DataError: No workload has two programs of different latency.
        """
        check_training(train)
        members = self._new_members(self.options)
        seeds = np.random.SeedSequence(seed).generate_state(len(members))
        with bar(len(members), desc="training", unit="model", enabled=progress) as shown:
            for member, own_seed in zip(members, map(int, seeds), strict=True):
                drawn = bootstrap(train, np.random.default_rng(own_seed))
                member.fit(drawn, valid, seed=own_seed, progress=False)
                shown.update()
        self.members, self.columns = members, train.rows.shape[1]

    def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
        """(n,) scores, the mean of the members'; see `CostModel.predict`."""
        mean: Scores = self._by_member(rows, counts).mean(axis=0)
        return mean

    def predict_with_spread(self, rows: FloatArray, counts: IntArray) -> tuple[Scores, Scores]:
        """Mean and spread of the members' scores.

        Returns:
            (n,) means, which are the scores of `predict`, and (n,) sample standard deviations.

        Raises:
            ModelError: As `predict`.
        """
        scores = self._by_member(rows, counts)
        return scores.mean(axis=0), scores.std(axis=0, ddof=1)

    def update(self, programs: Programs, *, seed: int) -> None:
        """Every member learns a little more from all of the programs.

        Takes as long as its members together.
        """
        update_sub_models(self, programs, seed=seed)

    def inner(self, programs: Programs) -> list[tuple[CostModel, Programs]]:
        """The members, see `Compound`."""
        self._check_input(programs.rows, programs.counts)
        return [(member, programs) for member in self.members]

    def config(self) -> dict[str, Any]:
        """The width of the rows, the options, and what each member needs."""
        fitted = [member.config() for member in self.members]
        return {"columns": self.columns or 0, **asdict(self.options), "fitted": fitted}

    def save_weights(self, folder: Path) -> None:
        """Writes the weights of each member into a sub-folder of its own."""
        self._check_fitted()
        save_members(self.members, folder)

    def load_weights(self, folder: Path, config: Mapping[str, Any]) -> None:
        """Reads the sub-folders.

        Raises:
            ModelError: `config` or a file is not what the code expects.
        """
        rest = dict(config)
        columns = check_width("columns", rest.pop("columns", None), arch=self.arch)
        fitted = rest.pop("fitted", None)
        options = parse_options(EnsembleOptions, rest, arch=self.arch)
        members = self._new_members(options)
        load_members(members, folder, fitted, columns=[columns] * len(members))
        self.options, self.columns, self.members = options, columns, members

    def _new_members(self, options: EnsembleOptions) -> list[CostModel]:
        member = MemberSpec.parse(options.member)
        return [member.new(feature_spec=self.feature_spec) for _ in range(options.members)]

    def _by_member(self, rows: FloatArray, counts: IntArray) -> Scores:
        """(members, n) scores."""
        rows = self._check_input(rows, counts)
        return np.stack([member.predict(rows, counts) for member in self.members])

    def _check_input(self, rows: FloatArray, counts: IntArray) -> FloatArray:
        return checked_rows(rows, counts, columns=self._check_fitted())

    def _check_fitted(self) -> int:
        if self.columns is None:
            raise not_fitted_error()
        return self.columns


def bootstrap(programs: Programs, rng: np.random.Generator) -> Programs:
    """As many programs, drawn with replacement within each group (Efron, 1979).

    A draw in which no two latencies differ would teach nothing and is drawn again, so `programs` must be
    informative.

    Args:
        programs: What to draw from; every group keeps its size.
        rng: The only source of chance.
    """
    order = np.argsort(programs.group, kind="stable")
    group = programs.group[order]
    sizes = np.bincount(group)
    starts = np.cumsum(sizes) - sizes
    while True:
        drawn = programs.select(order[starts[group] + rng.integers(sizes[group])])
        if is_informative(drawn):
            return drawn
