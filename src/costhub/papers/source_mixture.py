"""Provides mix_sources: picks the best source if it stands out, otherwise a blend of the candidates for the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from costhub.dataset.features.specs import find_spec
from costhub.errors import ModelError
from costhub.models.compound.blend import MOST_MEMBERS, Blend, BlendOptions, ScoreScale
from costhub.models.compound.members import COMPOUND, MemberSpec
from costhub.models.parts import joined_spec, part_names
from costhub.models.protocol import CostModel
from costhub.transfer.sources import RankedSource

MAX_SOURCES = 4
"""Most sources in a mixture: each further one makes every score more expensive."""

_UNSCALED = ScoreScale(np.zeros(1), np.ones(1), np.ones(1))


@dataclass(frozen=True)
class Mixture:
    """The model to start from."""

    model: CostModel
    """A blend of the sources, or the single source itself."""
    names: tuple[str, ...]
    """Names of the sources, the best first."""


def mix_sources(ranked: Sequence[RankedSource], models: Mapping[str, CostModel]) -> Mixture:
    """Returns the best source alone, or an ordinary blend of it and the sources that it does not clearly beat.

    Sources may read different feature specs; the mixture then reads the parts of all. A source that cannot be
    a member of a blend (an ensemble, a conditioned model) is left out, but is used alone if it is the best
    one; the same holds for a source that would give the blend more members than it can have.
    See docs/transfer.md for the gains from a mixture.

    Args:
        ranked: The result of `rank_sources`, the best first.
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
        >>> mixture = mix_sources([a, b], models)
        >>> mixture.names, mixture.model.arch
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
    correctly ranked pairs. The best source stands out if its lead over the next one exceeds one standard error of
    that lead. A single workload gives no standard error, so then no source stands out.

    Args:
        ranked: The sources, the best first.
    """
    best, *others = ranked
    if others and _leads_clearly(best, others[0]):
        return [best]
    return [best, *(source for source in others if not _leads_clearly(best, source))]


def mixture_scale(sources: Sequence[RankedSource]) -> ScoreScale:
    """The scale of each source's scores, and its weight in a mixture.

    The weight is proportional to the square of 2 p - 1, which is Kendall's tau of a source that ranks the
    share p of pairs correctly. A source that ranks no better than chance gets no weight; if none does better, all
    get equal weight.
    """
    tau = np.array([max(2.0 * source.pairwise - 1.0, 0.0) for source in sources])
    weight = tau**2 if tau.any() else np.ones(len(sources))
    return ScoreScale(
        np.array([source.mean for source in sources]),
        np.array([source.spread for source in sources]),
        weight / weight.sum(),
    )


def blend_of(models: Sequence[CostModel], standard: ScoreScale) -> Blend:
    """Combines fitted models into one that can be saved, updated and adapted like any blend; they are not copied.

    Models of different feature specs are joined: the blend reads all their parts.

    Args:
        models: Fitted models, for which `blended_from` gives no more members in total than a blend can have.
        standard: Scale and weight of the scores of each.

    Raises:
        ModelError: A model cannot be a member, or there are too many; or models of one feature spec read rows
            of different widths.

    Example:
        >>> from costhub.models.architectures import new_model
        >>> from costhub.testing import made_programs
        >>> here = made_programs("demo@1", workloads=2, each=20)
        >>> models = [new_model("gbt", feature_spec="demo@1", options={"rounds": n}) for n in (5, 10)]
        >>> for model in models:
        ...     model.fit(here, None, seed=0, progress=False)
        >>> scores = np.stack([model.predict(here.rows, here.counts) for model in models])
        >>> blend_of(models, ScoreScale.of(scores, here.group)).options.members
        'gbt(rounds=5) gbt(rounds=10)'
    """
    members = [member for model in models for member in blended_from(model)]
    spec = joined_spec(member.feature_spec for member in members)
    try:
        options = BlendOptions(members=" ".join(str(MemberSpec.of(member, whole=spec)) for member in members))
    except ValueError as error:
        raise ModelError(f"These models cannot be joined to one: {error}") from error
    blend = Blend(feature_spec=spec, options=options)
    blend.columns = _columns(members, spec)
    blend.members, blend.standard = members, _of_members(models, standard)
    return blend


def blended_from(model: CostModel) -> list[CostModel]:
    """The members that a model contributes to a blend: itself, the members of a blend, or none if it cannot be one."""
    if isinstance(model, Blend):
        return list(model.members)
    return [] if model.arch in COMPOUND else [model]


def _of_members(models: Sequence[CostModel], standard: ScoreScale) -> ScoreScale:
    """The scales of the members, so that the members of a nested blend keep their weight in it.

    With the inner scores sum_i w_i (x_i - mu_i) / s_i, where sum_i w_i = 1, the outer score
    W / S (inner - M) is sum_i W w_i (x_i - mu_i - s_i M) / (s_i S).
    """
    means, spreads, weights = [], [], []
    for model, mean, spread, weight in zip(models, standard.mean, standard.spread, standard.weight, strict=True):
        inner = model.standard if isinstance(model, Blend) and model.standard else _UNSCALED
        means.append(inner.mean + inner.spread * mean)
        spreads.append(inner.spread * spread)
        weights.append(inner.weight * weight)
    return ScoreScale(np.concatenate(means), np.concatenate(spreads), np.concatenate(weights))


def _columns(members: Sequence[CostModel], spec: str) -> int:
    """The width of the rows that members with one or several specs read together."""
    widths = {member.config()["columns"] for member in members}
    if len(part_names(spec)) == 1:
        if len(widths) > 1:
            raise ModelError(
                f"Models that all read {spec}, but rows of {' and '.join(map(str, sorted(widths)))} columns, "
                "cannot be joined; they were made by different versions of costhub."
            )
        return int(widths.pop())
    return find_spec(spec).width


def _leads_clearly(best: RankedSource, other: RankedSource) -> bool:
    lead = np.array([share - other.shares[workload] for workload, share in best.shares.items()])
    return len(lead) > 1 and bool(lead.mean() > lead.std(ddof=1) / math.sqrt(len(lead)))
