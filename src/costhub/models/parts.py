"""Provides the parts of a composite feature spec as models need them: their widths, and selections of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from costhub.dataset.features.combined import combine, split_parts
from costhub.dataset.features.specs import find_spec, spec_names
from costhub.dataset.programs import FloatArray, IntArray, Programs
from costhub.errors import ModelError

Rows = tuple[FloatArray, IntArray]
"""(r, d) rows of programs, and (n,) number of rows of each."""


def part_names(feature_spec: str) -> tuple[str, ...]:
    """The names of the parts; a simple spec is its only part.

    Example:
        >>> part_names("per_store@1+relation@1")
        ('per_store@1', 'relation@1')
    """
    return tuple(feature_spec.split("+"))


def joined_spec(feature_specs: Iterable[str]) -> str:
    """The spec that has all parts of several specs, each once.

    Example:
        >>> joined_spec(["tiles@1", "per_store@1+tiles@1"])
        'tiles@1+per_store@1'
    """
    return "+".join(dict.fromkeys(part for spec in feature_specs for part in part_names(spec)))


def part_widths(feature_spec: str, columns: int) -> tuple[int, ...]:
    """The number of columns of each part.

    Args:
        feature_spec: Its name; a simple one need not be one of costhub's.
        columns: Width of the rows.

    Raises:
        UnknownNameError: A part of a composite spec is not known.
        ModelError: The rows of a composite spec have a different width from `columns`.

    Example:
        >>> part_widths("demo@1", 6), part_widths("per_store@1+relation@1", 173)
        ((6,), (172, 123))
    """
    if len(part_names(feature_spec)) == 1:
        return (columns,)
    spec = find_spec(feature_spec)
    if columns != spec.width:
        raise ModelError(
            f"Rows of {feature_spec} have {spec.width} columns, got {columns}; compute the features again."
        )
    return tuple(part.width for part in spec.parts)


def part_leads(feature_spec: str) -> tuple[bool, ...]:
    """For each part, whether the first row of a program is the one that matters most.

    Example:
        >>> part_leads("per_store@1+tiles@1"), part_leads("demo@1")
        ((False, True), (False,))
    """
    ours = set(spec_names())
    return tuple(name in ours and find_spec(name).leads for name in part_names(feature_spec))


def take_parts(rows: FloatArray, counts: IntArray, *, feature_spec: str, specs: Sequence[str]) -> list[Rows]:
    """The rows that each of several models reads, from a composite spec that is split once.

    Args:
        rows: (r, d) rows of `feature_spec`.
        counts: (n,) number of rows of each program.
        feature_spec: Simple or composite.
        specs: For each model, the name of a spec that consists of parts of `feature_spec`, in any order.

    Returns:
        For each model, its rows and counts.
    """
    names = part_names(feature_spec)
    if all(name == feature_spec for name in specs):
        return [(rows, counts)] * len(specs)
    parts = dict(zip(names, split_parts(rows, counts, part_widths(feature_spec, rows.shape[1])), strict=True))
    by_spec: dict[str, Rows] = {feature_spec: (rows, counts), **parts}
    for name in specs:
        if name not in by_spec:
            by_spec[name] = combine([parts[part] for part in part_names(name)])
    return [by_spec[name] for name in specs]


def read_as(programs: Programs, *, feature_spec: str, specs: Sequence[str]) -> list[Programs]:
    """The same programs with the rows that each of several models reads.

    Args:
        programs: Programs with rows of `feature_spec`.
        feature_spec: Simple or composite.
        specs: As in `take_parts`.
    """
    parts = take_parts(programs.rows, programs.counts, feature_spec=feature_spec, specs=specs)
    return [
        replace(programs, rows=rows, counts=counts, spec=name if programs.spec else "")
        for name, (rows, counts) in zip(specs, parts, strict=True)
    ]
