"""Provides find_spec: the feature specs by name, and composites of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from costhub.errors import ArgumentError, UnknownNameError
from costhub.registry import Registry

if TYPE_CHECKING:
    from costhub.dataset.features.spec import FeatureSpec

DEFAULT_SPEC = "tiles@1"
"""The default features to read and to train architectures on: those of the best models."""
_LISTING = "`costhub train --help`"

# As strings, so that a wrong name is rejected before numpy is loaded.
SPECS: Registry[FeatureSpec] = Registry(
    "feature spec",
    {
        "per_store@1": "costhub.dataset.features.per_store:SPEC",
        "relation@1": "costhub.dataset.features.relation:SPEC",
        "tiles@1": "costhub.dataset.features.tiles:SPEC",
        "tiles@2": "costhub.dataset.features.bodies:SPEC",
        "loop_context@1": "costhub.dataset.features.loop_context:SPEC",
        "trace_tokens@1": "costhub.dataset.features.trace_tokens:SPEC",
        "trace_decisions@1": "costhub.dataset.features.trace_decisions:SPEC",
        "compiled@1": "costhub.dataset.features.compiled:SPEC",
    },
    group="costhub.features",
    listing=_LISTING,
)
"""The simple specs by name and version; a package adds its own with an entry point of that name."""


def spec_names() -> tuple[str, ...]:
    """Lists the simple feature specs, which `find_spec` combines.

    Example:
        >>> spec_names()
        ('per_store@1', 'relation@1', 'tiles@1', 'tiles@2', 'loop_context@1', 'trace_tokens@1', 'trace_decisions@1',
         'compiled@1')
    """
    return tuple(SPECS)


def find_spec(name: str) -> FeatureSpec:
    """Finds a feature spec, or composes one from names joined with `+`, each once, in the order given.

    Raises:
        UnknownNameError: A name does not exist, or a part is named twice.
        ArgumentError: The code of a spec gives it another name than its entry point.

    Example:
        >>> find_spec("trace_tokens@1").needs_tvm
        False
        >>> [part.width for part in find_spec("per_store@1+relation@1").parts]
        [172, 123]
    """
    check_spec(name)
    parts = tuple(map(_loaded, name.split("+")))
    if len(parts) == 1:
        return parts[0]
    from costhub.dataset.features.spec import composite

    return composite(parts)


def _loaded(name: str) -> FeatureSpec:
    """One spec; its rows are kept under the name in its own code, which must be that of the entry point."""
    spec = SPECS[name]
    if spec.name != name:
        raise ArgumentError(
            f"The feature spec {name!r} is called {spec.name!r} in its own code: give both the same name."
        )
    return spec


def is_own(name: str) -> bool:
    """Whether costhub itself has the spec, or every part of a composite one.

    Example:
        >>> is_own("per_store@1+relation@1"), is_own("mine@1")
        (True, False)
    """
    return all(SPECS.is_own(part) for part in name.split("+"))


def check_spec(name: str) -> None:
    """Rejects what `find_spec` rejects, without importing anything.

    Raises:
        UnknownNameError: A name does not exist, or a part is named twice.
    """
    names = name.split("+")
    for part in names:
        SPECS.check(part)
    if len(set(names)) < len(names):
        raise UnknownNameError(SPECS.kind, name, ["+".join(dict.fromkeys(names))], _LISTING)
