"""Provides the variants of programs that properties are tried on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costhub.dataset.features.combined import combine, split_parts
from costhub.dataset.programs import FloatArray, IntArray, Programs
from costhub.models.parts import part_names, part_widths
from costhub.testing.made_programs import free_columns


def none_of(programs: Programs) -> Programs:
    """No programs."""
    return programs.select(np.zeros(0, np.int64))


def first_rows(programs: Programs) -> Programs:
    """Every program that has rows, cut to its first."""
    some = np.flatnonzero(programs.counts)
    starts = (np.cumsum(programs.counts) - programs.counts)[some]
    return _replaced(programs.select(some), programs.rows[starts], np.ones(len(some), np.int64))


def without_rows(programs: Programs, *, every: int) -> Programs:
    """The programs with no rows left of every `every`-th."""
    kept = np.arange(programs.n) % every != 0
    counts = np.where(kept, programs.counts, 0)
    return _replaced(programs, programs.rows[np.repeat(kept, programs.counts)], counts)


def filled(programs: Programs, value: float, *, feature_spec: str) -> Programs:
    """The programs with one value in all columns in which every number means something."""
    names = part_names(feature_spec)
    widths = part_widths(feature_spec, programs.rows.shape[1])
    if len(names) == 1:
        return _replaced(programs, _filled(programs.rows, value, names[0]), programs.counts)
    parts = split_parts(programs.rows, programs.counts, widths)
    stacked = [
        (_filled(rows, value, name), counts) for name, (rows, counts) in zip(names, parts, strict=True)
    ]
    return _replaced(programs, *combine(stacked))


def reversed_order(programs: Programs) -> Programs:
    """The same programs measured on a device where the slow ones are the fast ones."""
    return replace(programs, latency_s=1e-6 / programs.latency_s)


def rescaled(programs: Programs) -> Programs:
    """The same programs with all latencies of a workload times a constant, another one for each workload.

    The constants are powers of two, by which a ratio of latencies does not change in its last digit.
    """
    factors = 2.0 ** (np.arange(len(programs.workload_ids)) % 5 - 2)
    return replace(programs, latency_s=programs.latency_s * factors[programs.workload])


def partly_failed(programs: Programs, *, every: int) -> Programs:
    """The programs, of which every `every`-th has failed."""
    failed = np.arange(programs.n) % every == 0
    return replace(programs, latency_s=np.where(failed, np.inf, programs.latency_s))


def _filled(rows: FloatArray, value: float, name: str) -> FloatArray:
    rows = rows.copy()
    rows[:, free_columns(name, rows.shape[1])] = value
    return rows


def _replaced(programs: Programs, rows: FloatArray, counts: IntArray) -> Programs:
    return replace(programs, rows=rows, counts=counts)
