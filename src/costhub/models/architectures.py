"""Provides ARCHITECTURES: every kind of cost model by name."""

from __future__ import annotations

from collections.abc import Callable

from costhub.errors import UnknownNameError
from costhub.models.protocol import CostModel
from costhub.names import close_names


def _mlp(feature_spec: str) -> CostModel:
    from costhub.models.mlp import Mlp

    return Mlp(feature_spec=feature_spec)


def _gbt(feature_spec: str) -> CostModel:
    from costhub.models.gbt import Gbt

    return Gbt(feature_spec=feature_spec)


# Functions, so that a model of trees does not bring in torch, nor a network xgboost.
ARCHITECTURES: dict[str, Callable[[str], CostModel]] = {"mlp": _mlp, "gbt": _gbt}
"""Name -> a function from a feature spec to a model with default options, not yet fitted."""


def new_model(arch: str, *, feature_spec: str) -> CostModel:
    """A model that is not yet fitted.

    Args:
        arch: A key of `ARCHITECTURES`.
        feature_spec: Name and version of the feature layout it will read.

    Raises:
        UnknownNameError: There is no such architecture.

    Example:
        >>> new_model("gbt", feature_spec="per_store@1").arch
        'gbt'
    """
    if arch not in ARCHITECTURES:
        known = tuple(ARCHITECTURES)
        raise UnknownNameError(
            "architecture", arch, close_names(arch, known) or known, "`costhub train --help`"
        )
    return ARCHITECTURES[arch](feature_spec)
