"""Provides rank_sources: uses a few programs to find which model for other devices knows this one best."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from costhub.dataset.programs import Programs
from costhub.models.compound.blend import ScoreScale
from costhub.models.evaluate import evaluate_scores
from costhub.models.inputs import nothing_to_learn_error
from costhub.models.parts import joined_spec, read_as
from costhub.models.protocol import CostModel, Scores
from costhub.transfer.trial_order import most_disagreed, round_robin

PROBED_PROGRAMS = 32
"""Programs that sources are ranked on: four workloads, eight programs each; docs/transfer.md shows the cost of
fewer."""


@dataclass(frozen=True)
class RankedSource:
    """A model, and how well it ranks what was measured here."""

    name: str
    shares: Mapping[str, float]
    """Workload id -> share of ordered pairs that it ranks correctly; the same workloads for all sources."""
    mean: float
    """Mean of its scores; together with `spread` their scale, as in `ScoreScale`."""
    spread: float
    programs: int = 0
    """How many programs it was ranked on; 0 if that was not counted."""

    @property
    def pairwise(self) -> float:
        """Mean over workloads of the share of ordered pairs that it ranks correctly."""
        return statistics.fmean(self.shares.values())


def rank_sources(
    sources: Mapping[str, CostModel],
    programs: Callable[[str], Programs],
    *,
    seed: int = 0,
    probed: int = PROBED_PROGRAMS,
    tell_apart: bool = False,
) -> list[RankedSource]:
    """Ranks models by a few programs of the target, the best first; ties stay in the order of `sources`.

    Args:
        sources: Name -> a fitted model.
        programs: Called with a feature spec, returns the target's programs with its features; the spec has the
            parts of all models, so that all are ranked on the same programs.
        seed: Chooses the programs.
        probed: How many to rank on.
        tell_apart: Choose programs about which the sources disagree (`most_disagreed`), rather than at random
            (`round_robin`).

    Raises:
        DataError: None of the programs ran, or all of them are equally fast.
        ModelError: A model cannot read them.
    """
    specs = [model.feature_spec for model in sources.values()]
    whole = joined_spec(specs)

    def score(some: Programs) -> Scores:
        read = read_as(some, feature_spec=whole, specs=specs)
        return np.stack([m.predict_programs(own) for m, own in zip(sources.values(), read, strict=True)])

    measured = programs(whole).measured()
    if not measured.n:
        raise nothing_to_learn_error(0)
    if tell_apart:
        few = measured.select(most_disagreed(measured, score, probed, seed=seed))
    else:
        few = measured.select(round_robin(measured, probed, seed=seed))
    scores = score(few)
    scale = ScoreScale.of(scores, few.group)
    ranked = []
    for place, name in enumerate(sources):
        shares = {row.workload_id: row.pairwise for row in evaluate_scores(scores[place], few).workloads}
        ranked.append(RankedSource(name, shares, float(scale.mean[place]), float(scale.spread[place]), few.n))
    return sorted(ranked, key=lambda source: -source.pairwise)
