"""Provides ARCHITECTURES: every kind of cost model by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from costhub.models.options import changed_options
from costhub.models.protocol import CostModel
from costhub.names import find_named


@dataclass(frozen=True)
class Architecture:
    """A kind of cost model; called with a feature spec, it gives one with default options, not yet fitted."""

    module: str
    """Imported when it is needed, so that trees do not bring in torch, nor networks
    xgboost."""
    name: str
    """Of the class."""
    reads: str = "tiles@1"
    """The feature spec that it learns from where no other is named."""

    def __call__(self, feature_spec: str) -> CostModel:
        """A model that will read the feature spec."""
        made: CostModel = getattr(import_module(self.module), self.name)(feature_spec=feature_spec)
        return made


ARCHITECTURES: dict[str, Architecture] = {
    "mlp": Architecture("costhub.models.networks.mlp", "Mlp"),
    "gbt": Architecture("costhub.models.trees.gbt", "Gbt"),
    "treegru": Architecture("costhub.models.networks.tree_gru", "TreeGru", "loop_context@1"),
    "tokens": Architecture("costhub.papers.tlp", "TokenAttention", "trace_tokens@1"),
    "conditioned": Architecture("costhub.models.compound.conditioned", "Conditioned"),
    "ensemble": Architecture("costhub.papers.autotvm_models", "Ensemble"),
    "blend": Architecture("costhub.models.compound.blend", "Blend"),
    "residual": Architecture("costhub.models.compound.residual", "Residual"),
}
"""Every architecture by name."""


def find_architecture(name: str) -> Architecture:
    """The architecture of a name.

    Raises:
        UnknownNameError: There is none.

    Example:
        >>> find_architecture("treegru").reads
        'loop_context@1'
    """
    return find_named("architecture", name, ARCHITECTURES, "`costhub train --help`")


def new_model(arch: str, *, feature_spec: str, options: Mapping[str, object] | None = None) -> CostModel:
    """A model that is not yet fitted.

    Args:
        arch: A key of `ARCHITECTURES`.
        feature_spec: Name and version of the feature layout it will read.
        options: Options of the architecture that are to differ from their defaults, by name; a text stands
            for the value that it spells.

    Raises:
        UnknownNameError: There is no such architecture, or it has no such option.
        ModelError: The value of an option is of another type or out of range.

    Example:
        >>> new_model("gbt", feature_spec="per_store@1").arch
        'gbt'
        >>> new_model("mlp", feature_spec="per_store@1", options={"hidden": "512"}).config()["hidden"]
        512
    """
    made: Any = find_architecture(arch)(feature_spec)
    if options:
        made = type(made)(feature_spec=feature_spec, options=changed_options(made.options, options, arch=arch))
    model: CostModel = made
    return model
