"""Provides blend_of: models that are fitted already as one Blend."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from costhub.dataset.features.specs import find_spec
from costhub.errors import ModelError
from costhub.models.compound.blend import Blend, BlendOptions, ScoreScale
from costhub.models.compound.members import COMPOUND, MemberSpec
from costhub.models.parts import joined_spec, part_names
from costhub.models.protocol import CostModel


def blend_of(models: Sequence[CostModel], standard: ScoreScale) -> Blend:
    """Fitted models as one, which can be saved, updated and adapted like any blend; they are not copied.

    Models of different feature specs are joined: the blend reads all their parts.

    Args:
        models: Fitted models, for which `blended_from` gives no more members together than a blend can have.
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
        >>> blend_of(models, Standard.of(scores, here.group)).options.members
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
    """The members that a model is in a blend: itself, those of a blend, none where it cannot be one."""
    if isinstance(model, Blend):
        return list(model.members)
    return [] if model.arch in COMPOUND else [model]


def _of_members(models: Sequence[CostModel], standard: ScoreScale) -> ScoreScale:
    """The scales of the members, so that those of a blend among the models count as it did.

    With the inner scores sum_i w_i (x_i - mu_i) / s_i, where sum_i w_i = 1, the outer score
    W / S (inner - M) is sum_i W w_i (x_i - mu_i - s_i M) / (s_i S).
    """
    means, spreads, weights = [], [], []
    for model, mean, spread, weight in zip(models, standard.mean, standard.spread, standard.weight, strict=True):
        inner = model.standard if isinstance(model, Blend) and model.standard else _AS_IT_IS
        means.append(inner.mean + inner.spread * mean)
        spreads.append(inner.spread * spread)
        weights.append(inner.weight * weight)
    return ScoreScale(np.concatenate(means), np.concatenate(spreads), np.concatenate(weights))


def _columns(members: Sequence[CostModel], spec: str) -> int:
    """The width of the rows that members of one or several specs read together."""
    widths = {member.config()["columns"] for member in members}
    if len(part_names(spec)) == 1:
        if len(widths) > 1:
            raise ModelError(
                f"Models that all read {spec}, but rows of {' and '.join(map(str, sorted(widths)))} columns, "
                "cannot be joined; they were made by different versions of costhub."
            )
        return int(widths.pop())
    return find_spec(spec).width


_AS_IT_IS = ScoreScale(np.zeros(1), np.ones(1), np.ones(1))
