"""Provides find_spec: the feature specs by name, and composites of them."""

from __future__ import annotations

from costhub.dataset.features import loop_context, per_store, relation, tiles, trace_decisions, trace_tokens
from costhub.dataset.features.spec import FeatureSpec, composite
from costhub.errors import UnknownNameError
from costhub.registry import Registry

_LISTING = "docs/features.md"

_CORE = (per_store.SPEC, relation.SPEC, tiles.SPEC, loop_context.SPEC, trace_tokens.SPEC, trace_decisions.SPEC)

SPECS: Registry[FeatureSpec] = Registry(
    "feature spec", {spec.name: spec for spec in _CORE}, group="costhub.features", listing=_LISTING
)
"""The simple specs by name and version; a package adds its own with an entry point of that name."""


def spec_names() -> tuple[str, ...]:
    """Lists the simple feature specs, which `find_spec` combines.

    Example:
        >>> spec_names()
        ('per_store@1', 'relation@1', 'tiles@1', 'loop_context@1', 'trace_tokens@1', 'trace_decisions@1')
    """
    return tuple(SPECS)


def find_spec(name: str) -> FeatureSpec:
    """Finds a feature spec, or composes one from names joined with `+`, each once, in the order given.

    Raises:
        UnknownNameError: A name does not exist, or a part is named twice.

    Example:
        >>> find_spec("trace_tokens@1").needs_tvm
        False
        >>> [part.width for part in find_spec("per_store@1+relation@1").parts]
        [172, 123]
    """
    names = name.split("+")
    parts = tuple(SPECS.find(part) for part in names)
    if len(set(names)) < len(names):
        raise UnknownNameError(SPECS.kind, name, ["+".join(dict.fromkeys(names))], _LISTING)
    return parts[0] if len(parts) == 1 else composite(parts)
