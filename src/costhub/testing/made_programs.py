"""Provides made_programs and made_replay, synthetic data, and variants of programs for testing properties."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from costhub.dataset.features.combined import combine, split_parts
from costhub.dataset.features.loop_context import LOOP_CONTEXT
from costhub.dataset.features.specs import find_spec, spec_names
from costhub.dataset.features.trace_tokens import KINDS, TRACE_TOKENS, WORDS
from costhub.dataset.programs import FloatArray, IntArray, Programs
from costhub.models.parts import part_names, part_widths

if TYPE_CHECKING:
    from costhub.search.replay.workloads import ReplayWorkload

COLUMNS = 6
"""Row width for a spec that is not costhub's, unless another is given."""

STRUCTURE = {
    LOOP_CONTEXT: ("parent", "depth"),
    TRACE_TOKENS: ("kind", "text0", "text1", "choice"),
}
"""Feature spec -> the columns in which not every number is meaningful."""


def made_programs(
    feature_spec: str, *, columns: int | None = None, workloads: int = 4, each: int = 24, seed: int = 0
) -> Programs:
    """Programs of 0 to 4 rows whose log latency is a sum over their rows, shifted per workload.

    Rows of costhub's own specs are valid ones: parents come before their children, kinds are from the
    vocabulary, and rows of a composite spec say which part they belong to.

    Args:
        feature_spec: Name of the feature spec; any name for a simple one that is not costhub's.
        columns: Width of a row if costhub does not know the spec; `COLUMNS` by default.
        workloads: Number of workloads.
        each: Programs per workload.
        seed: The only source of randomness.

    Raises:
        UnknownNameError: A part of a composite spec is not known.

    Example:
        >>> made_programs("relation@1", workloads=2, each=8).rows.shape[1]
        123
    """
    rng = np.random.default_rng(seed)
    parts = []
    for name in part_names(feature_spec):
        counts = rng.integers(0, 5, size=workloads * each)
        parts.append((_rows(name, _width(name, columns), counts, rng), counts))
    cost = np.sum([_cost(rows, counts) for rows, counts in parts], axis=0)
    workload = np.repeat(np.arange(workloads), each)
    shift = 2.0 * rng.normal(size=workloads)
    rows, counts = combine(parts) if len(parts) > 1 else parts[0]
    return Programs(
        rows,
        counts,
        workload,
        tuple(f"made-{seed}-{number}" for number in range(workloads)),
        1e-3 * np.exp(0.5 * cost + shift[workload]),
        feature_spec,
    )


def made_replay(*, side: int = 8, seed: int = 0) -> ReplayWorkload:
    """A workload for replaying searches: programs with two tile sizes, fastest at the second largest of each.

    Args:
        side: Sizes of each tile; there are as many programs as pairs of them.
        seed: Seed of the noise in the latencies, a few per cent.

    Example:
        >>> made_replay(side=4).task.n
        16
    """
    from costhub.search.knobs import Knobs
    from costhub.search.replay.workloads import ReplayWorkload

    rng = np.random.default_rng(seed)
    pairs = [(a, b) for a in range(side) for b in range(side)]
    knobs = [Knobs("made", ((1, (2**a,)), (4, (2**b,)))) for a, b in pairs]
    far = np.array([abs(side - 2 - a) + abs(side - 2 - b) for a, b in pairs])
    latency_s = 1e-3 * (1 + far) * np.exp(0.02 * rng.normal(size=len(pairs)))
    rows = [np.array([[*pair, *np.zeros(COLUMNS - 2)]]) for pair in pairs]
    programs = Programs.from_list(rows, np.zeros(len(pairs), np.int64), (f"made-{seed}",), latency_s)
    return ReplayWorkload.of(replace(programs, spec="made@1", device_ids=("made",)), knobs)


def free_columns(feature_spec: str, width: int) -> IntArray:
    """The indices of the columns of a simple spec in which every number is meaningful."""
    if feature_spec not in STRUCTURE:
        return np.arange(width)
    names = find_spec(feature_spec).columns
    return np.flatnonzero([name not in STRUCTURE[feature_spec] for name in names])


def _width(name: str, columns: int | None) -> int:
    return find_spec(name).width if name in spec_names() else columns or COLUMNS


def _rows(name: str, width: int, counts: IntArray, rng: np.random.Generator) -> FloatArray:
    rows = rng.normal(size=(int(counts.sum()), width)).astype(np.float32)
    if name == LOOP_CONTEXT:
        rows[:, :2] = _trees(counts, rng)
    elif name == TRACE_TOKENS:
        names = find_spec(name).columns
        for column, highest in (
            ("kind", len(KINDS)),
            ("text0", len(WORDS)),
            ("text1", len(WORDS)),
            ("choice", 8),
        ):
            rows[:, names.index(column)] = rng.integers(0, highest + 1, size=len(rows))
    return rows


def _trees(counts: IntArray, rng: np.random.Generator) -> FloatArray:
    """(r, 2) parent and depth of each row: a random tree per program, its root first."""
    rows: list[tuple[int, int]] = []
    for count in counts.tolist():
        depths: list[int] = []
        for number in range(count):
            parent = int(rng.integers(number)) if number else -1
            depths.append(depths[parent] + 1 if number else 0)
            rows.append((parent, depths[-1]))
    return np.array(rows, np.float32).reshape(-1, 2)


def _cost(rows: FloatArray, counts: IntArray) -> npt.NDArray[np.float64]:
    """(n,) the cost of each program from its last columns, which are free in all specs."""
    x, y = rows[:, -1], rows[:, max(-2, -rows.shape[1])]
    own = np.tanh(x) + 0.5 * np.maximum(y, 0.0)
    program = np.repeat(np.arange(len(counts)), counts)
    return np.bincount(program, weights=own, minlength=len(counts)).astype(np.float64)


def none_of(programs: Programs) -> Programs:
    """No programs."""
    return programs.select(np.zeros(0, np.int64))


def first_rows(programs: Programs) -> Programs:
    """Every program that has rows, cut to its first."""
    some = np.flatnonzero(programs.counts)
    starts = (np.cumsum(programs.counts) - programs.counts)[some]
    return _replaced(programs.select(some), programs.rows[starts], np.ones(len(some), np.int64))


def without_rows(programs: Programs, *, every: int) -> Programs:
    """The programs, with the rows of every `every`-th removed."""
    kept = np.arange(programs.n) % every != 0
    counts = np.where(kept, programs.counts, 0)
    return _replaced(programs, programs.rows[np.repeat(kept, programs.counts)], counts)


def filled(programs: Programs, value: float, *, feature_spec: str) -> Programs:
    """The programs with one value in all columns in which every number is meaningful."""
    names = part_names(feature_spec)
    widths = part_widths(feature_spec, programs.rows.shape[1])
    if len(names) == 1:
        return _replaced(programs, _filled(programs.rows, value, names[0]), programs.counts)
    parts = split_parts(programs.rows, programs.counts, widths)
    stacked = [(_filled(rows, value, name), counts) for name, (rows, counts) in zip(names, parts, strict=True)]
    return _replaced(programs, *combine(stacked))


def reversed_order(programs: Programs) -> Programs:
    """The same programs measured on a device where the slow ones are the fast ones."""
    return replace(programs, latency_s=1e-6 / programs.latency_s)


def rescaled(programs: Programs) -> Programs:
    """The same programs with the latencies of each workload multiplied by its own constant.

    The constants are powers of two, so ratios of latencies stay exactly the same.
    """
    factors = 2.0 ** (np.arange(len(programs.workload_ids)) % 5 - 2)
    return replace(programs, latency_s=programs.latency_s * factors[programs.workload])


def partly_failed(programs: Programs, *, every: int) -> Programs:
    """The programs, with every `every`-th one failed."""
    failed = np.arange(programs.n) % every == 0
    return replace(programs, latency_s=np.where(failed, np.inf, programs.latency_s))


def _filled(rows: FloatArray, value: float, name: str) -> FloatArray:
    rows = rows.copy()
    rows[:, free_columns(name, rows.shape[1])] = value
    return rows


def _replaced(programs: Programs, rows: FloatArray, counts: IntArray) -> Programs:
    return replace(programs, rows=rows, counts=counts)
