"""Provides ARCHITECTURES: every kind of cost model by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from costhub.errors import ModelError
from costhub.models.options import changed_options
from costhub.registry import Registry

if TYPE_CHECKING:
    from costhub.models.protocol import CostModel

ARCHITECTURES: Registry[type[Any]] = Registry(
    "architecture",
    # Imported when needed, so that trees do not load torch, nor networks xgboost.
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
"""Every architecture by name: a class that is called with the feature spec it reads and, if it has any, with its
options. Packages add theirs with entry points, see `Registry`."""

_OPTIONS = {
    "mlp": "costhub.models.networks.network_options:MlpOptions",
    "gbt": "costhub.models.trees.gbt:GbtOptions",
    "treegru": "costhub.models.networks.network_options:TreeGruOptions",
    "conditioned": "costhub.models.compound.conditioned:ConditionedOptions",
    "blend": "costhub.models.compound.blend:BlendOptions",
    "residual": "costhub.models.compound.residual:ResidualOptions",
}
"""Built-in architecture -> its options, found without loading the architecture, which may load torch."""


def options_of(arch: str) -> Any:
    """The options of an architecture, as a dataclass with their defaults; None for one without options.

    Raises:
        UnknownNameError: There is no such architecture.

    Example:
        >>> options_of("gbt").rounds
        400
    """
    ARCHITECTURES.check(arch)
    if arch not in _OPTIONS:
        architecture = ARCHITECTURES[arch]
        return getattr(architecture(feature_spec=architecture.default_spec), "options", None)
    module, _, name = _OPTIONS[arch].partition(":")
    return getattr(import_module(module), name)()


def check_options(arch: str, options: Mapping[str, object]) -> None:
    """Refuses wrong options of an architecture before it is loaded.

    Raises:
        UnknownNameError: There is no such architecture, or it has no such option.
        ModelError: The value of an option is of another type or out of range.
    """
    present = options_of(arch)
    if present is not None:
        changed_options(present, options, owner=arch)
    elif options:
        raise ModelError(f"The architecture {arch} has no options; leave {', '.join(options)} out.")


def new_model(arch: str, *, feature_spec: str, options: Mapping[str, object] | None = None) -> CostModel:
    """A model that is not yet fitted.

    Args:
        arch: A key of `ARCHITECTURES`.
        feature_spec: Name and version of the feature layout it will read.
        options: Options of the architecture that differ from their defaults, by name; text stands for the
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
        changed = changed_options(model.options, options, owner=arch)
        model = architecture(feature_spec=feature_spec, options=changed)
    return model  # type: ignore[no-any-return]
