"""Provides ARCHITECTURES: every kind of cost model by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costhub.models.options import changed_options
from costhub.models.protocol import CostModel
from costhub.registry import Registry

ARCHITECTURES: Registry[type[Any]] = Registry(
    "architecture",
    # Imported when they are needed, so that trees do not load torch, nor networks xgboost.
    {
        "mlp": "costhub.models.networks.mlp:Mlp",
        "gbt": "costhub.models.trees.gbt:Gbt",
        "treegru": "costhub.models.networks.tree_gru:TreeGru",
        "conditioned": "costhub.models.compound.conditioned:Conditioned",
        "blend": "costhub.models.compound.blend:Blend",
        "residual": "costhub.models.compound.residual:Residual",
    },
    group="costhub.architectures",
    listing="`costhub train --help`",
)
"""Every architecture by name: a class that is called with the feature spec it reads and, if it has options,
with these. Packages add theirs with entry points, see `Registry`."""


def new_model(arch: str, *, feature_spec: str, options: Mapping[str, object] | None = None) -> CostModel:
    """A model that is not yet fitted.

    Args:
        arch: A key of `ARCHITECTURES`.
        feature_spec: Name and version of the feature layout it will read.
        options: Options of the architecture that differ from their defaults, by name; a text stands for the
            value that it spells.

    Raises:
        UnknownNameError: There is no such architecture, or it has no such option.
        ModelError: The value of an option is of another type or out of range.

    Example:
        >>> new_model("gbt", feature_spec="per_store@1").arch
        'gbt'
        >>> new_model("mlp", feature_spec="per_store@1", options={"hidden": "512"}).config()["hidden"]
        512
    """
    architecture = ARCHITECTURES.find(arch)
    model = architecture(feature_spec=feature_spec)
    if options:
        changed = changed_options(model.options, options, arch=arch)
        model = architecture(feature_spec=feature_spec, options=changed)
    return model  # type: ignore[no-any-return]
