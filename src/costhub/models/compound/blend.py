"""Provides Blend: models of different architectures, each reading some parts of the features, combined into one."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from costhub.dataset.programs import FloatArray, IntArray, Programs
from costhub.errors import DataError, ModelError
from costhub.models.compound.members import MemberSpec, load_members, member_folder, save_members, update_members
from costhub.models.evaluate import evaluate_scores
from costhub.models.inputs import check_training, checked_rows, is_informative, not_fitted_error
from costhub.models.options import check_width, parse_options
from costhub.models.parts import part_names, part_widths, read_as, take_parts
from costhub.models.protocol import CostModel, Scores
from costhub.progress import bar

_STEPS = 4
"""Weights are multiples of 1 / _STEPS: finer ones would fit the noise of a few held-out workloads."""
_MOST_SCORE = 1e12
"""For mean scores and their spreads: in the models that costhub ships they are between 0.2 and 6."""


@dataclass(frozen=True)
class ScoreScale:
    """Mean, spread and weight of each member; fixed when the blend is fitted."""

    mean: Scores
    """(m,) mean score over the training programs."""
    spread: Scores
    """(m,) root mean square distance of a score from the mean of its group; 1 for a member that is constant
    within all groups."""
    weight: Scores
    """(m,) weights, adding up to 1."""

    @classmethod
    def of(cls, scores: Scores, group: IntArray) -> ScoreScale:
        """The scale of (m, n) scores of programs of the (n,) groups, with equal weights.

        Example:
            >>> ScoreScale.of(np.array([[1.0, 3.0, 9.0, 9.0]]), np.array([0, 0, 1, 1])).spread.round(3).tolist()
            [0.707]
        """
        size = np.bincount(group)
        centres = np.stack([np.bincount(group, weights=own) / np.maximum(size, 1) for own in scores])
        spread = np.sqrt(((scores - centres[:, group]) ** 2).mean(axis=1))
        constant = spread <= 1e-12 * (1.0 + np.abs(scores).max(axis=1))
        weight = np.full(len(scores), 1.0 / len(scores))
        return cls(scores.mean(axis=1), np.where(constant, 1.0, spread), weight)

    def __call__(self, scores: Scores) -> Scores:
        """(m, n) scores on the common scale."""
        return (scores - self.mean[:, None]) / self.spread[:, None]

    def to_json(self) -> dict[str, list[float]]:
        """The three arrays as lists; JSON keeps every digit of a double."""
        return {name: values.tolist() for name, values in asdict(self).items()}

    @classmethod
    def from_json(cls, values: object, *, members: int) -> ScoreScale:
        """Reads what `to_json` returned, from an untrusted file.

        Raises:
            ModelError: It lacks a finite number for each member, or a spread or weight is out of range.
        """
        names = [field.name for field in fields(cls)]
        if isinstance(values, dict) and all(_are_finite_numbers(values.get(name), members) for name in names):
            standard = cls(*(np.array(values[name], np.float64) for name in names))
            is_sound = (np.abs(standard.mean) <= _MOST_SCORE) & (standard.spread <= _MOST_SCORE)
            is_sound &= (standard.spread >= 1 / _MOST_SCORE) & (standard.weight >= 0.0) & (standard.weight <= 1.001)
            if is_sound.all():
                return standard
        raise ModelError(
            f"standard of this blend model must be {', '.join(names)} with a finite number for each of its "
            f"{members} members, means and spreads within {_MOST_SCORE:g}, spreads at least {1 / _MOST_SCORE:g} and "
            "weights from 0 to 1; fetch it again."
        )


def fitted_weights(standardised: Scores, valid: Programs) -> Scores:
    """The weights from a coarse grid that rank the validation programs best.

    Best means the largest sum of `top_1` and `pairwise`; among equally good ones, those closest to equal weights.

    Args:
        standardised: (m, n) scores of the validation programs.
        valid: The programs.

    Returns:
        (m,) weights, adding up to 1.
    """
    members = len(standardised)
    equal = np.full(members, 1.0 / members)
    # Farthest first, so that the last among equally good ones is the closest.
    grid = sorted([equal, *_grid(members)], key=lambda weight: -float(np.abs(weight - equal).sum()))
    best, chosen = -math.inf, equal
    for weight in grid:
        try:
            evaluation = evaluate_scores(weight @ standardised, valid)
        except DataError:  # the programs differ by less than the noise, so nothing tells weights apart
            return equal
        if evaluation.top_1 + evaluation.pairwise >= best:
            best, chosen = evaluation.top_1 + evaluation.pairwise, weight
    return chosen


def _grid(members: int) -> Iterator[Scores]:
    """All weights that are multiples of 1 / _STEPS."""
    for bars in itertools.combinations(range(_STEPS + members - 1), members - 1):
        yield (np.diff([-1, *bars, _STEPS + members - 1]) - 1) / _STEPS


def _are_finite_numbers(values: Any, members: int) -> bool:
    return (
        isinstance(values, list)
        and len(values) == members
        # A whole number of 400 digits is JSON too, but not a double.
        and all(type(value) in (int, float) and abs(value) < sys.float_info.max for value in values)
    )


MOST_MEMBERS = 6
WEIGHTS = ("equal", "fitted")


@dataclass(frozen=True)
class BlendOptions:
    """What a Blend is made of."""

    members: str = "gbt mlp"
    """Members as `MemberSpec.parse` reads them, such as `gbt:per_store@1+relation@1 mlp:per_store@1`; a member
    without a spec reads all parts."""
    weights: str = "equal"
    """"equal", or "fitted": those from a coarse grid that rank the validation programs best."""

    def __post_init__(self) -> None:
        if self.weights not in WEIGHTS:
            raise ValueError(f"weights must be one of {', '.join(WEIGHTS)}, got {self.weights!r}.")
        count = len(self.parsed())
        if not 1 <= count <= MOST_MEMBERS:
            raise ValueError(f"members must be 1 to {MOST_MEMBERS} words, got {count}.")

    def parsed(self) -> list[MemberSpec]:
        """The members."""
        return [MemberSpec.parse(word) for word in self.members.split()]


class Blend(CostModel):
    """The score is a weighted mean of the members' scores, each on its own scale.

    The scale of a member is the mean and the spread of its scores within the groups it was trained on. It is
    fixed at `fit`, so the score of a program never depends on its neighbours in a batch.

    Args:
        feature_spec: Name and version of the feature layout it reads; usually a composite one.
        options: What the blend is made of.

    Raises:
        ModelError: A member reads a part that `feature_spec` lacks, or has an unknown option.

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
        >>> ones, latency_s = np.ones(64, np.int64), np.exp(rows[:, 0]).astype(float)
        >>> programs = Programs(rows, ones, 0 * ones, ("w",), latency_s)
        >>> options = BlendOptions(members="gbt(rounds=20) gbt(rounds=20,objective=rank)")
        >>> model = Blend(feature_spec="demo@1", options=options)
        >>> model.fit(programs, None, seed=0, progress=False)
        >>> model.predict(programs.rows, programs.counts).shape
        (64,)
    """

    arch = "blend"

    def __init__(self, *, feature_spec: str, options: BlendOptions | None = None) -> None:
        self.feature_spec = feature_spec
        self.options = options or BlendOptions()
        self.columns: int | None = None
        """Width of a feature row; None before fitting or loading."""
        self.members = self._new_members(self.options)
        self.standard: ScoreScale | None = None

    def fit(self, train: Programs, valid: Programs | None, *, seed: int, progress: bool = True) -> None:
        """Learns from scratch; `valid`, of other workloads, decides when to stop and which weights fit.

        Without validation programs, fitted weights are equal.

        Raises:
            DataError: No workload has two programs with different latencies.
        """
        check_training(train)
        columns = train.rows.shape[1]
        part_widths(self.feature_spec, columns)
        members = self._new_members(self.options)
        seeds = np.random.SeedSequence(seed).generate_state(len(members))
        held_out = [None] * len(members) if valid is None else self._of_members(members, valid)
        own_train = self._of_members(members, train)
        with bar(len(members), desc="training", unit="model", enabled=progress) as progress_bar:
            for i, member in enumerate(members):
                member.checkpoint = self.checkpoint and member_folder(self.checkpoint, i)
                member.fit(own_train[i], held_out[i], seed=int(seeds[i]), progress=False)
                progress_bar.update()
        scores = np.stack([m.predict(p.rows, p.counts) for m, p in zip(members, own_train, strict=True)])
        standard = ScoreScale.of(scores, train.group)
        self.members, self.columns, self.standard = members, columns, standard
        if self.options.weights == "fitted" and valid is not None and is_informative(valid):
            standardised = standard(self._by_member(valid.rows, valid.counts))
            self.standard = replace(standard, weight=fitted_weights(standardised, valid))

    def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
        """(n,) scores, see `CostModel.predict`."""
        columns, standard = self._fitted()
        rows = checked_rows(rows, counts, columns=columns)
        scores: Scores = standard.weight @ standard(self._by_member(rows, counts))
        return scores

    def update(self, programs: Programs, *, seed: int) -> None:
        """Every member learns a little more; scales and weights stay the same.

        This takes as long as for all members together.
        """
        update_members(self, programs, seed=seed)

    def sub_models(self, programs: Programs) -> list[tuple[CostModel, Programs]]:
        """The sub-models of the members, see `CostModel.sub_models`."""
        columns, _ = self._fitted()
        rows = checked_rows(programs.rows, programs.counts, columns=columns)
        own = self._of_members(self.members, replace(programs, rows=rows))
        pairs = zip(self.members, own, strict=True)
        return [part for member, programs in pairs for part in member.sub_models(programs)]

    def config(self) -> dict[str, Any]:
        """The width of the rows, the options, scales and weights, and what each member needs."""
        return {
            "columns": self.columns or 0,
            **asdict(self.options),
            "standard": self.standard.to_json() if self.standard else {},
            "fitted": [member.config() for member in self.members],
        }

    def save_weights(self, folder: Path) -> None:
        """Writes the weights of each member into a separate subfolder."""
        self._fitted()
        save_members(self.members, folder)

    def load_weights(self, folder: Path, config: Mapping[str, Any]) -> None:
        """Reads the subfolders.

        Raises:
            ModelError: `config` or a file is not what the code expects.
        """
        rest = dict(config)
        columns = check_width("columns", rest.pop("columns", None), arch=self.arch)
        fitted, standard = rest.pop("fitted", None), rest.pop("standard", None)
        options = parse_options(BlendOptions, rest, arch=self.arch)
        members = self._new_members(options)
        checked = ScoreScale.from_json(standard, members=len(members))
        load_members(members, folder, fitted, columns=self._widths(members, columns))
        self.options, self.columns, self.members, self.standard = options, columns, members, checked

    def _new_members(self, options: BlendOptions) -> list[CostModel]:
        members = [member.new(feature_spec=self.feature_spec) for member in options.parsed()]
        parts = part_names(self.feature_spec)
        for member in members:
            missing = [part for part in part_names(member.feature_spec) if part not in parts]
            if missing:
                raise ModelError(
                    f"A member of the blend reads {missing[0]}, which is not a part of {self.feature_spec}; name "
                    "the parts of all members in the feature spec, joined with +."
                )
        return members

    def _widths(self, members: list[CostModel], columns: int) -> list[int]:
        """The width of the rows that each member reads."""
        names = part_names(self.feature_spec)
        widths = dict(zip(names, part_widths(self.feature_spec, columns), strict=True))
        read = [part_names(member.feature_spec) for member in members]
        return [widths[own[0]] if len(own) == 1 else 1 + max(widths[part] for part in own) for own in read]

    def _of_members(self, members: list[CostModel], programs: Programs) -> list[Programs]:
        """The same programs with the rows that each member reads."""
        specs = [member.feature_spec for member in members]
        return read_as(programs, feature_spec=self.feature_spec, specs=specs)

    def _by_member(self, rows: FloatArray, counts: IntArray) -> Scores:
        """(members, n) scores, each on its member's own scale."""
        specs = [member.feature_spec for member in self.members]
        parts = take_parts(rows, counts, feature_spec=self.feature_spec, specs=specs)
        return np.stack([m.predict(*part) for m, part in zip(self.members, parts, strict=True)])

    def _fitted(self) -> tuple[int, ScoreScale]:
        if self.columns is None or self.standard is None:
            raise not_fitted_error()
        return self.columns, self.standard
