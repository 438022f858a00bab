"""Provides the batches of training, drawn so that each holds many pairs of programs of one group."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from costhub.dataset.features.combined import split_parts
from costhub.dataset.programs import FloatArray, IntArray, Programs, row_numbers
from costhub.models.networks.scaler import Scaler


@dataclass(frozen=True)
class Batch:
    """Programs as a network takes them."""

    inputs: tuple[Tensor, ...]
    """Of each part of the feature spec the (r, w) scaled rows and the (n,) rows per program, in turn."""
    throughput: Tensor
    """(n,) throughput, normalised within the group."""
    group: Tensor
    """(n,) group."""


class Source(Protocol):
    """What a network learns from."""

    def steps(self, size: int) -> int:
        """Batches of `size` programs in one epoch."""

    def batches(
        self, *, size: int, chunk: int, rng: np.random.Generator, device: torch.device | str = "cpu"
    ) -> Iterator[Batch]:
        """One pass over the programs.

        Args:
            size: Programs per batch; the last may have fewer.
            chunk: Programs of one group that stay together.
            rng: The only source of chance.
            device: Where the batches are made.
        """


class Examples:
    """All programs that a network learns from, as they are: they are scaled when a batch is drawn.

    Scaled rows are three times as wide; these are those of the programs, not copied, and may be mapped from a
    file.

    Args:
        programs: The programs.
        scalers: The scaler of each part of their feature spec.
    """

    def __init__(self, programs: Programs, scalers: Sequence[Scaler]) -> None:
        self.group = programs.group
        """(n,) group of each program."""
        self._throughput = programs.throughput().astype(np.float32)
        self._scalers = tuple(scalers)
        self._parts = [
            (rows, counts, np.cumsum(counts) - counts)
            for rows, counts in parts_of(programs.rows, programs.counts, [s.columns for s in scalers])
        ]

    @property
    def n(self) -> int:
        """Number of programs."""
        return len(self.group)

    def steps(self, size: int) -> int:
        """See `Source`."""
        return math.ceil(self.n / size)

    def batches(
        self, *, size: int, chunk: int, rng: np.random.Generator, device: torch.device | str = "cpu"
    ) -> Iterator[Batch]:
        """See `Source`, and `epoch` for the order."""
        for positions in epoch(self.group, size=size, chunk=chunk, rng=rng):
            yield self.take(positions, device=device)

    def take(self, positions: npt.NDArray[np.integer], *, device: torch.device | str = "cpu") -> Batch:
        """The programs at `positions`, in that order, scaled, on a device of torch."""
        inputs: list[Tensor] = []
        for (rows, counts, starts), scaler in zip(self._parts, self._scalers, strict=True):
            own = counts[positions]
            taken = torch.from_numpy(rows[row_numbers(starts[positions], own)])
            inputs += [scaler.encode(taken.to(device)), torch.from_numpy(own).to(device)]
        throughput, group = (
            torch.from_numpy(a[positions]).to(device) for a in (self._throughput, self.group)
        )
        return Batch(tuple(inputs), throughput, group)


def parts_of(rows: FloatArray, counts: IntArray, widths: Sequence[int]) -> list[tuple[FloatArray, IntArray]]:
    """The rows and counts of each part of a feature spec; those of a simple one are as they were.

    Args:
        rows: (r, d) rows.
        counts: (n,) rows per program.
        widths: Columns of each part.
    """
    return [(rows, counts)] if len(widths) == 1 else split_parts(rows, counts, widths)


def epoch(group: IntArray, *, size: int, chunk: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Draws the batches of one pass over all programs.

    Programs are shuffled within their group and cut into chunks, and the chunks are shuffled: a batch of
    `size` then holds about `size / chunk` groups with about `chunk` programs each, so it has many pairs to
    compare.

    Args:
        group: (n,) group of each program.
        size: Programs per batch; the last batch may have fewer.
        chunk: Programs of one group that stay together.
        rng: The only source of chance.

    Yields:
        Positions of programs; every program is in exactly one batch.

    Example:
        >>> drawn = list(epoch(np.array([0, 0, 0, 1]), size=3, chunk=2, rng=np.random.default_rng(0)))
        >>> [len(b) for b in drawn], sorted(np.concatenate(drawn).tolist())
        ([3, 1], [0, 1, 2, 3])
    """
    found = chunks(group, size=chunk, rng=rng)
    order = np.concatenate([np.zeros(0, np.int64), *(found[i] for i in rng.permutation(len(found)))])
    for start in range(0, len(order), size):
        yield order[start : start + size]


def chunks(group: IntArray, *, size: int, rng: np.random.Generator) -> list[IntArray]:
    """Positions of the programs of each group, shuffled and cut into chunks of at most `size`."""
    shuffled = rng.permutation(len(group))
    by_group = shuffled[np.argsort(group[shuffled], kind="stable")]
    edges = np.flatnonzero(np.diff(group[by_group])) + 1
    return [
        part[start : start + size]
        for part in np.split(by_group, edges)
        for start in range(0, len(part), size)
    ]
