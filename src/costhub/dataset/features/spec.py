"""Provides FeatureSpec, a named layout of feature rows with its computation, and find_spec."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from costhub.dataset.programs import FloatArray
from costhub.errors import UnknownNameError
from costhub.names import close_names

Features = list[FloatArray | None]
"""For each program its (rows, width) array, or None where the program has no features."""


@dataclass(frozen=True)
class FeatureSpec:
    """A layout of feature rows.

    A change of the columns or of their meaning is a new version, and so a new name.

    Example:
        >>> spec = find_spec("per_store@1")
        >>> spec.width, spec.columns[0]
        (172, 'float_mad')
    """

    name: str
    """Name and version, such as `per_store@1`."""
    columns: tuple[str, ...]
    """One name per column."""
    extract: Callable[[Any, Sequence[str], str], Features]
    """Features of programs of one workload: its ``tvm.IRModule``, their traces and the target as JSON.

    Raises `WorkloadError` where the target is not one of TVM. A malformed trace can crash TVM: data from
    strangers go through `costhub.dataset.features.featurise`.
    """
    extract_candidates: Callable[[Any, Sequence[Any]], Features]
    """Features of what a search holds: a ``TuneContext`` and its ``MeasureCandidate``s."""
    needs_tvm: bool = True
    """Without TVM the module is not looked at, and features are computed in this process."""
    leads: bool = False
    """Whether the first row of a program is the one that matters most, so that trees see it by itself."""
    composed_of: tuple[FeatureSpec, ...] = ()
    """The parts of a composite spec, whose rows `combined.combine` has stacked; none of a simple one."""

    @property
    def parts(self) -> tuple[FeatureSpec, ...]:
        """The simple specs it is made of; of a simple one, itself."""
        return self.composed_of or (self,)

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.columns)

    @property
    def columns_hash(self) -> str:
        """16 hex digits that change with the name or the order of any column."""
        return hashlib.sha256("\n".join(self.columns).encode()).hexdigest()[:16]


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
    from costhub.dataset.features.combined import composite

    known, names = _specs(), name.split("+")
    for part in names:
        if part not in known:
            raise UnknownNameError("feature spec", part, close_names(part, list(known)), "docs/features.md")
    if len(set(names)) < len(names):
        raise UnknownNameError("feature spec", name, ["+".join(dict.fromkeys(names))], "docs/features.md")
    return known[name] if len(names) == 1 else composite(tuple(known[part] for part in names))


def _specs() -> dict[str, FeatureSpec]:
    # Imported here, since each of these files needs FeatureSpec.
    from costhub.dataset.features import (
        loop_context,
        per_store,
        relation,
        tiles,
        trace_decisions,
        trace_tokens,
    )

    modules = (per_store, relation, tiles, loop_context, trace_tokens, trace_decisions)
    specs: list[FeatureSpec] = [module.SPEC for module in modules]
    return {spec.name: spec for spec in specs}


def slog(x: float) -> float:
    """log2(|x| + 1) with the sign of x, the scale of every count and size; 0 for what is not finite.

    Example:
        >>> slog(7), slog(-1), slog(float("nan"))
        (3.0, -1.0, 0.0)
    """
    if not abs(x) < math.inf:  # NaN is not below it either; isfinite refuses integers that are too large
        return 0.0
    return math.log2(abs(x) + 1) * (1 if x >= 0 else -1)


def checked(rows: FloatArray) -> FloatArray | None:
    """The rows, or None where a value is not finite."""
    return rows if np.isfinite(rows).all() else None
