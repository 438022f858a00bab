"""Provides find_spec: the feature specs by name, and composites of them."""

from __future__ import annotations

from costhub.dataset.features.spec import FeatureSpec
from costhub.errors import UnknownNameError
from costhub.names import close_names


def spec_names() -> tuple[str, ...]:
    """The names of the simple feature specs, of which `find_spec` makes composite ones.

    Example:
        >>> spec_names()
        ('per_store@1', 'relation@1', 'tiles@1', 'loop_context@1', 'trace_tokens@1', 'trace_decisions@1')
    """
    return tuple(_specs())


def find_spec(name: str) -> FeatureSpec:
    """Finds a feature spec, or makes a composite one: names joined with `+`, each once, in the order given.

    Raises:
        UnknownNameError: There is none of that name, or a part is named twice.

    Example:
        >>> find_spec("trace_tokens@1").needs_tvm
        False
        >>> [part.width for part in find_spec("per_store@1+relation@1").parts]
        [172, 123]
    """
    from costhub.dataset.features.spec import composite

    known, names = _specs(), name.split("+")
    for part in names:
        if part not in known:
            raise UnknownNameError("feature spec", part, close_names(part, list(known)), "docs/features.md")
    if len(set(names)) < len(names):
        raise UnknownNameError("feature spec", name, ["+".join(dict.fromkeys(names))], "docs/features.md")
    return known[name] if len(names) == 1 else composite(tuple(known[part] for part in names))


def _specs() -> dict[str, FeatureSpec]:
    # Imported here, since each of these files needs FeatureSpec.
    from costhub.dataset.features import loop_context, per_store, relation, tiles, trace_decisions, trace_tokens

    modules = (per_store, relation, tiles, loop_context, trace_tokens, trace_decisions)
    specs: list[FeatureSpec] = [module.SPEC for module in modules]
    return {spec.name: spec for spec in specs}
