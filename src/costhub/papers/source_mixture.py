"""Provides mix_sources: the best source where it stands out, else a blend of those that may be the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scripts.bench.transfer.blend_of import blend_of, blended_from

from costhub.models.compound.blend import MOST_MEMBERS, ScoreScale
from costhub.models.protocol import CostModel
from costhub.transfer.sources import RankedSource

MAX_SOURCES = 4
"""Most sources in a mixture: each further one makes every score more expensive."""


@dataclass(frozen=True)
class Mixture:
    """What to begin with."""

    model: CostModel
    """A blend of the sources, or the only one itself."""
    names: tuple[str, ...]
    """Of the sources, the best first."""


def mix_sources(ranked: Sequence[RankedSource], models: Mapping[str, CostModel]) -> Mixture:
    """The best source alone, or an ordinary blend of it and the sources that it does not clearly beat.

    Sources may read different feature specs; the mixture then reads the parts of all. A source that cannot be
    a member of a blend (an ensemble, a conditioned model) is left out, but is used alone if it is the best
    one; the same holds for a source that would give the blend more members than it can have.
    docs/transfer.md says what a mixture gains.

    Args:
        ranked: What `rank_sources` gave, the best first.
        models: Name -> the fitted model; those mixed are not copied.

    Example:
        >>> from costhub.models.architectures import new_model
        >>> from costhub.testing import made_programs
        >>> here = made_programs("demo@1", workloads=4, each=20)
        >>> models = {n: new_model("gbt", feature_spec="demo@1", options={"rounds": 20}) for n in "ab"}
        >>> for seed, model in enumerate(models.values()):
        ...     model.fit(here, None, seed=seed, progress=False)
        >>> a = RankedSource("a", {"matmul": 0.9, "softmax": 0.6}, mean=0.0, spread=1.0)
        >>> b = RankedSource("b", {"matmul": 0.6, "softmax": 0.8}, mean=0.0, spread=1.0)
        >>> found = mixture([a, b], models)
        >>> found.names, found.model.arch
        (('a', 'b'), 'blend')
    """
    chosen: list[RankedSource] = []
    members = 0
    for source in indistinguishable(ranked):
        own = len(blended_from(models[source.name]))
        if len(chosen) < MAX_SOURCES and 0 < own <= MOST_MEMBERS - members:
            chosen.append(source)
            members += own
    if len(chosen) < 2 or chosen[0] != ranked[0]:
        return Mixture(models[ranked[0].name], (ranked[0].name,))
    names = tuple(source.name for source in chosen)
    return Mixture(blend_of([models[name] for name in names], mixture_scale(chosen)), names)


def indistinguishable(ranked: Sequence[RankedSource]) -> list[RankedSource]:
    """The best source alone if it stands out, otherwise all sources within one standard error of it.

    The lead of a source over another is the mean over workloads of the difference between their shares of
    pairs ranked right. The best source stands out if its lead over the next one exceeds one standard error of
    that lead. A single workload gives no standard error, so no source stands out then.

    Args:
        ranked: The best first.
    """
    best, *others = ranked
    if others and _leads_clearly(best, others[0]):
        return [best]
    return [best, *(source for source in others if not _leads_clearly(best, source))]


def mixture_scale(sources: Sequence[RankedSource]) -> ScoreScale:
    """The scale of each source's scores, and its weight in a mixture.

    The weight is proportional to the square of 2 p - 1, which is Kendall's tau of a source that ranks the
    share p of pairs right. A source that ranks no better than chance gets no weight; if none does better, all
    get the same.
    """
    tau = np.array([max(2.0 * source.pairwise - 1.0, 0.0) for source in sources])
    weight = tau**2 if tau.any() else np.ones(len(sources))
    return ScoreScale(
        np.array([source.mean for source in sources]),
        np.array([source.spread for source in sources]),
        weight / weight.sum(),
    )


def _leads_clearly(best: RankedSource, other: RankedSource) -> bool:
    lead = np.array([share - other.shares[workload] for workload, share in best.shares.items()])
    return len(lead) > 1 and bool(lead.mean() > lead.std(ddof=1) / math.sqrt(len(lead)))
