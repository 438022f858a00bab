"""Provides FeatureSpec, a named layout of feature rows with its computation, and makers of specs."""

from __future__ import annotations

import functools
import hashlib
import itertools
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from costhub.dataset.features.combined import combine
from costhub.dataset.intrinsics import load_intrinsics
from costhub.dataset.programs import FloatArray
from costhub.dataset.trace import replay
from costhub.dataset.workload import parse_target
from costhub.errors import WorkloadError, class_and_line
from costhub.terminal_text import shown

log = logging.getLogger("costhub")

Features = list[FloatArray | None]
"""A (rows, width) array for each program, or None for a program without features."""


@dataclass(frozen=True)
class FeatureSpec:
    """A layout of feature rows.

    A change of the columns or their meaning requires a new version, and thus a new name.

    Example:
        >>> from costhub.dataset.features.specs import find_spec
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

    Raises `WorkloadError` if TVM does not accept the target. A malformed trace can crash TVM: untrusted data
    go through `costhub.dataset.features.compute`.
    """
    extract_candidates: Callable[[Any, Sequence[Any]], Features]
    """Features of the candidates of a search: a ``TuneContext`` and its ``MeasureCandidate``s."""
    needs_tvm: bool = True
    """If False, the spec ignores the module, and its features are computed in this process."""
    leads: bool = False
    """Whether the first row of a program matters most, so that tree models see it separately."""
    of_module: bool = False
    """Whether nothing but the scheduled module and the task decides about the rows, so that a search computes those of
    equal modules once."""
    composed_of: tuple[FeatureSpec, ...] = ()
    """The parts of a composite spec, whose rows `combined.combine` stacks; empty for a simple one."""

    @property
    def parts(self) -> tuple[FeatureSpec, ...]:
        """The simple specs that it consists of; a simple one consists of itself."""
        return self.composed_of or (self,)

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.columns)

    @property
    def columns_hash(self) -> str:
        """16 hex digits that change with any column name or the order of columns."""
        return hashlib.sha256("\n".join(self.columns).encode()).hexdigest()[:16]


def slog(x: float) -> float:
    """log2(|x| + 1) with the sign of x, the scale of every count and size; 0 for values that are not finite.

    Example:
        >>> slog(7), slog(-1), slog(float("nan"))
        (3.0, -1.0, 0.0)
    """
    if not abs(x) < math.inf:  # also true for NaN; isfinite rejects integers that are too large
        return 0.0
    return math.log2(abs(x) + 1) * (1 if x >= 0 else -1)


def finite_or_none(rows: npt.ArrayLike) -> FloatArray | None:
    """Returns the rows as float32, or None if a value is not finite or too large for that."""
    with np.errstate(over="ignore"):
        found = np.asarray(rows, dtype=np.float32)
    return found if np.isfinite(found).all() else None


def spec_of_modules(
    name: str, columns: tuple[str, ...], compute: Callable[[Any], FloatArray], *, leads: bool = False
) -> FeatureSpec:
    """Makes a feature spec computed from each scheduled module separately, before it is lowered.

    A program on which `compute` raises has no features; the first exception of a function that is not costhub's own is
    logged.

    Args:
        name: Name and version.
        columns: One name per column.
        compute: From a ``tvm.IRModule`` to its rows.
        leads: As in `FeatureSpec`.
    """
    if not str(getattr(compute, "__module__", "")).startswith("costhub."):
        compute = _telling(compute, name)

    def extract(mod: Any, traces: Sequence[str], target: str) -> Features:
        return features_of_modules(compute, replay_schedules(mod, traces, target))

    def extract_candidates(context: Any, candidates: Sequence[Any]) -> Features:
        del context
        return features_of_modules(compute, [candidate.sch for candidate in candidates])

    return FeatureSpec(name, columns, extract, extract_candidates, leads=leads, of_module=True)


_failures: dict[str, str] = {}
"""Spec -> what its function raised first in this process."""


def failures_of(spec: str) -> dict[str, str]:
    """What the functions of users' specs raised first in this process.

    Args:
        spec: Name of a spec, or of several joined with `+`; those whose function has not failed are left out.
    """
    return {name: _failures[name] for name in spec.split("+") if name in _failures}


def tell_failure(spec: str, what: str) -> None:
    """Logs the failure of the function of a user's spec: the first one of each spec in this process.

    Args:
        spec: Name of the spec.
        what: The class and message of the exception.
    """
    if spec not in _failures:
        _failures[spec] = what
        log.warning(
            "The function of the feature spec %s failed on a program (%s), which therefore has no features. The cache "
            "keeps that: once the function is corrected, change the version in the name, or remove the spec's folder "
            "in the cache.",
            spec,
            what,
        )


def _telling(compute: Callable[[Any], FloatArray], name: str) -> Callable[[Any], FloatArray]:
    """The function of a user's spec, which tells what it raises; costhub's own fail on malformed programs only."""

    @functools.wraps(compute)
    def told(mod: Any) -> FloatArray:
        try:
            return compute(mod)
        except Exception as error:
            tell_failure(name, shown(class_and_line(error)))
            raise

    return told


def features_of_modules(compute: Callable[[Any], FloatArray], schedules: Sequence[Any | None]) -> Features:
    """Computes the features of each scheduled module separately.

    Args:
        compute: From a ``tvm.IRModule`` to its rows.
        schedules: The result of `replay_schedules`.

    Returns:
        One array per schedule; None if the schedule is None or `compute` cannot read it.
    """
    return [None if schedule is None else _rows_or_none(compute, schedule.mod) for schedule in schedules]


def _rows_or_none(compute: Callable[[Any], FloatArray], mod: Any) -> FloatArray | None:
    try:
        return finite_or_none(compute(mod))
    except Exception:
        # Untrusted TIR may contain unexpected nodes; such a program has no features.
        return None


def replay_schedules(mod: Any, traces: Sequence[str], target: str) -> list[Any | None]:
    """Replays traces on one workload.

    Args:
        mod: The workload (``tvm.IRModule``).
        traces: One schedule trace as JSON per program.
        target: The TVM target as JSON; its tensor intrinsics are loaded first.

    Returns:
        One ``tvm.s_tir.Schedule`` per trace; None if it does not replay.

    Raises:
        WorkloadError: TVM does not accept the target.
    """
    load_intrinsics(str(parse_target(target).kind.name))
    return [_replay_or_none(mod, trace) for trace in traces]


def _replay_or_none(mod: Any, trace: str) -> Any | None:
    try:
        return replay(mod, trace)
    except WorkloadError:
        return None


@functools.lru_cache
def composite(parts: tuple[FeatureSpec, ...]) -> FeatureSpec:
    """Makes the spec whose rows are those of all parts, stacked by `combine`.

    Example:
        >>> from costhub.dataset.features.specs import find_spec
        >>> both = composite((find_spec("per_store@1"), find_spec("relation@1")))
        >>> both.name, both.width, both.columns[:2]
        ('per_store@1+relation@1', 173, ('part', 'float_mad | elements'))
    """

    def extract(mod: Any, traces: Sequence[str], target: str) -> Features:
        return _stack_features([part.extract(mod, traces, target) for part in parts])

    def extract_candidates(context: Any, candidates: Sequence[Any]) -> Features:
        return _stack_features([part.extract_candidates(context, candidates) for part in parts])

    # Column 0 is the part that a row belongs to, counted from 0.
    columns = itertools.zip_longest(*(part.columns for part in parts))
    return FeatureSpec(
        name="+".join(part.name for part in parts),
        columns=("part", *(" | ".join(filter(None, names)) for names in columns)),
        extract=extract,
        extract_candidates=extract_candidates,
        needs_tvm=any(part.needs_tvm for part in parts),
        of_module=all(part.of_module for part in parts),
        composed_of=parts,
    )


def _stack_features(features: Sequence[Features]) -> Features:
    """Stacks the features of all parts of each program; None if a part has none."""
    programs = [[rows for rows in each if rows is not None] for each in zip(*features, strict=True)]
    complete = [each for each in programs if len(each) == len(features)]
    if not complete:
        return [None] * len(programs)
    rows, counts = combine(
        [(np.concatenate(own), np.array([len(f) for f in own], np.int64)) for own in zip(*complete, strict=True)]
    )
    ends = np.cumsum(counts).tolist()
    pieces = (rows[end - count : end] for end, count in zip(ends, counts.tolist(), strict=True))
    return [next(pieces) if len(each) == len(features) else None for each in programs]
