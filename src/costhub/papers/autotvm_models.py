"""The models of AutoTVM (Chen et al., *Learning to Optimize Tensor Programs*, 2018): ensemble and acquisition."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr

from costhub.dataset.programs import FloatArray, IntArray, Programs
from costhub.models.compound.members import MemberSpec, load_members, member_folder, save_members, update_members
from costhub.models.inputs import check_training, checked_rows, is_informative, not_fitted_error
from costhub.models.options import check_ranges, check_width, parse_options
from costhub.models.protocol import CostModel, Scores
from costhub.progress import bar


@dataclass(frozen=True)
class EnsembleOptions:
    """What an Ensemble is made of."""

    members: int = 5
    """Number of models."""
    member: str = "gbt"
    """The architecture of all members, as `MemberSpec.parse` reads it: `gbt` or `gbt(rounds=100)`."""

    def __post_init__(self) -> None:
        check_ranges({"members": (self.members, 2, 32)})
        if MemberSpec.parse(self.member).feature_spec:
            raise ValueError(
                f"a member of an ensemble reads what the ensemble reads; leave :SPEC out of {self.member!r}."
            )


class Ensemble(CostModel):
    """Models trained on different random draws of the programs: where they agree, the score is reliable.

    Chen et al., *Learning to Optimize Tensor Programs* (AutoTVM), sections 3.3 and 6: five models, each
    trained on programs drawn with replacement, give the mean and the spread that acquisition functions need.
    Their spread is that of the regression objective, whose scores are on the scale of the predicted quantity.

    Args:
        feature_spec: Name and version of the feature layout it reads.
        options: Its options.

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

    def __init__(self, *, feature_spec: str, options: EnsembleOptions | None = None) -> None:
        self.feature_spec = feature_spec
        self.options = options or EnsembleOptions()
        self.columns: int | None = None
        """Width of a feature row; None before fitting or loading."""
        self.members = self._new_members(self.options)

    def fit(self, train: Programs, valid: Programs | None, *, seed: int, progress: bool = True) -> None:
        """Learns from scratch; `valid`, from other workloads, tells each member when to stop.

        Raises:
            DataError: No workload has two programs of different latency.
        """
        check_training(train)
        members = self._new_members(self.options)
        seeds = np.random.SeedSequence(seed).generate_state(len(members))
        with bar(len(members), desc="training", unit="model", enabled=progress) as progress_bar:
            for i, (member, own_seed) in enumerate(zip(members, map(int, seeds), strict=True)):
                member.checkpoint = self.checkpoint and member_folder(self.checkpoint, i)
                drawn = bootstrap(train, np.random.default_rng(own_seed))
                member.fit(drawn, valid, seed=own_seed, progress=False)
                progress_bar.update()
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
            ModelError: As for `predict`.
        """
        scores = self._by_member(rows, counts)
        return scores.mean(axis=0), scores.std(axis=0, ddof=1)

    def update(self, programs: Programs, *, seed: int) -> None:
        """Trains every member a little more on all of the programs.

        Takes as long as its members together.
        """
        update_members(self, programs, seed=seed)

    def sub_models(self, programs: Programs) -> list[tuple[CostModel, Programs]]:
        """The sub-models of the members; see `CostModel.sub_models`."""
        self._check_input(programs.rows, programs.counts)
        return [part for member in self.members for part in member.sub_models(programs)]

    def config(self) -> dict[str, Any]:
        """The width of the rows, the options, and what each member needs."""
        fitted = [member.config() for member in self.members]
        return {"columns": self.columns or 0, **asdict(self.options), "fitted": fitted}

    def save_weights(self, folder: Path) -> None:
        """Writes the weights of each member into a separate subfolder."""
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
    """Draws as many programs with replacement within each group (Efron, 1979).

    A draw in which no two latencies differ would teach nothing and is drawn again, so `programs` must be
    informative.

    Args:
        programs: Programs to draw from; every group keeps its size.
        rng: The only source of randomness.
    """
    order = np.argsort(programs.group, kind="stable")
    group = programs.group[order]
    sizes = np.bincount(group)
    starts = np.cumsum(sizes) - sizes
    while True:
        drawn = programs.select(order[starts[group] + rng.integers(sizes[group])])
        if is_informative(drawn):
            return drawn


def upper_confidence_bound(mean: Scores, std: Scores, kappa: float) -> Scores:
    """An optimistic score that a candidate may reach: mean + kappa std.

    Srinivas et al., *Gaussian Process Optimization in the Bandit Setting* (2010); AutoTVM (section 3.3 and
    figure 7) compares it with the mean alone.

    Args:
        mean: (n,) scores, higher is faster.
        std: (n,) their spread, from `Ensemble.predict_with_spread`.
        kappa: How much a spread counts; 0 searches where the mean is best.

    Raises:
        ValueError: A spread is negative or NaN, or the shapes differ.

    Example:
        >>> upper_confidence_bound(np.array([1.0, 0.8]), np.array([0.0, 0.5]), 1.0).tolist()
        [1.0, 1.3]
    """
    _check(mean, std)
    return mean + kappa * std


def expected_improvement(mean: Scores, std: Scores, best: float) -> Scores:
    """The expected amount by which a candidate scores above `best`, if its score is normally distributed.

    Jones et al., *Efficient Global Optimization of Expensive Black-Box Functions* (1998), equation 15:
    E max(f - best, 0) = (mean - best) Phi(z) + std phi(z) with z = (mean - best) / std.

    Args:
        mean: (n,) scores, higher is faster.
        std: (n,) their spread; where it is 0 the score is taken as certain.
        best: The score to improve on, such as the highest mean of the programs that were measured.

    Returns:
        (n,) values of 0 or more, on the scale of the scores.

    Raises:
        ValueError: A spread is negative or NaN, or the shapes differ.

    Example:
        >>> expected_improvement(np.array([2.0, 1.0]), np.array([0.0, 1.0]), 1.0).round(4).tolist()
        [1.0, 0.3989]
    """
    _check(mean, std)
    gain = mean - best
    certain = std == 0.0
    # Beyond 40 standard deviations both functions are 0 or 1 to the last digit.
    with np.errstate(over="ignore"):
        z = np.clip(gain / np.where(certain, 1.0, std), -40.0, 40.0)
    density = np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)
    expected: Scores = np.where(certain, gain, gain * ndtr(z) + std * density)
    return np.maximum(expected, 0.0)


def _check(mean: Scores, std: Scores) -> None:
    if mean.shape != std.shape or not (std >= 0.0).all():
        raise ValueError(
            f"std must have one spread of 0 or more for each of the {mean.shape} means, got shape {std.shape}"
            f" with a lowest value of {std.min(initial=math.inf):g}."
        )
