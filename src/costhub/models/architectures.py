"""Provides ARCHITECTURES: every kind of cost model by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from costhub.errors import UnknownNameError
from costhub.models.options import changed_options
from costhub.models.protocol import CostModel
from costhub.names import close_names


def _mlp(feature_spec: str) -> CostModel:
    from costhub.models.networks.mlp import Mlp

    return Mlp(feature_spec=feature_spec)


def _gbt(feature_spec: str) -> CostModel:
    from costhub.models.trees.gbt import Gbt

    return Gbt(feature_spec=feature_spec)


def _treegru(feature_spec: str) -> CostModel:
    from costhub.models.networks.tree_gru import TreeGru

    return TreeGru(feature_spec=feature_spec)


def _tokens(feature_spec: str) -> CostModel:
    from costhub.models.networks.token_attention import TokenAttention

    return TokenAttention(feature_spec=feature_spec)


def _conditioned(feature_spec: str) -> CostModel:
    from costhub.models.compound.conditioned import Conditioned

    return Conditioned(feature_spec=feature_spec)


def _ensemble(feature_spec: str) -> CostModel:
    from costhub.models.compound.ensemble import Ensemble

    return Ensemble(feature_spec=feature_spec)


def _blend(feature_spec: str) -> CostModel:
    from costhub.models.compound.blend import Blend

    return Blend(feature_spec=feature_spec)


# Functions, so that a model of trees does not bring in torch, nor a network xgboost.
ARCHITECTURES: dict[str, Callable[[str], CostModel]] = {
    "mlp": _mlp,
    "gbt": _gbt,
    "treegru": _treegru,
    "tokens": _tokens,
    "conditioned": _conditioned,
    "ensemble": _ensemble,
    "blend": _blend,
}
"""Name -> a function from a feature spec to a model with default options, not yet fitted."""


def new_model(arch: str, *, feature_spec: str, options: Mapping[str, object] | None = None) -> CostModel:
    """A model that is not yet fitted.

    Args:
        arch: A key of `ARCHITECTURES`.
        feature_spec: Name and version of the feature layout it will read.
        options: Those of the architecture's options that are not to have their defaults, by name; a text
            stands for the value that it spells.

    Raises:
        UnknownNameError: There is no such architecture, or it has no such option.
        ModelError: The value of an option is of another type or out of range.

    Example:
        >>> new_model("gbt", feature_spec="per_store@1").arch
        'gbt'
        >>> new_model("mlp", feature_spec="per_store@1", options={"hidden": "512"}).config()["hidden"]
        512
    """
    if arch not in ARCHITECTURES:
        known = tuple(ARCHITECTURES)
        raise UnknownNameError(
            "architecture", arch, close_names(arch, known) or known, "`costhub train --help`"
        )
    made: Any = ARCHITECTURES[arch](feature_spec)
    if options:
        made = type(made)(
            feature_spec=feature_spec, options=changed_options(made.options, options, arch=arch)
        )
    model: CostModel = made
    return model
