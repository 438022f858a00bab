"""Provides the batches of training.

They are drawn from memory or from blocks so that each holds many pairs of programs of one group.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from costhub.dataset.blocks import ProgramBlocks
from costhub.dataset.features.combined import split_parts
from costhub.dataset.programs import FloatArray, IntArray, Programs, row_numbers
from costhub.errors import DataError
from costhub.models.networks.processes import all_min
from costhub.models.networks.scaler import Scaler


@dataclass(frozen=True)
class Batch:
    """Programs in the form that a network takes."""

    inputs: tuple[Tensor, ...]
    """For each part of the feature spec, in turn, the (r, w) scaled rows and the (n,) rows per program."""
    throughput: Tensor
    """(n,) throughput, normalised within the group."""
    group: Tensor
    """(n,) group."""


class BatchSource(Protocol):
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
            rng: The only source of randomness.
            device: The device on which the batches are created.
        """


class Examples:
    """All programs that a network learns from, unscaled: they are scaled when a batch is drawn.

    Scaled rows are three times as wide; the rows here are those of the programs, not copied, and may be mapped
    from a file.

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
        """See `BatchSource`."""
        return math.ceil(self.n / size)

    def batches(
        self, *, size: int, chunk: int, rng: np.random.Generator, device: torch.device | str = "cpu"
    ) -> Iterator[Batch]:
        """See `BatchSource`, and `epoch` for the order."""
        for positions in epoch(self.group, size=size, chunk=chunk, rng=rng):
            yield self.take(positions, device=device)

    def take(self, positions: npt.NDArray[np.integer], *, device: torch.device | str = "cpu") -> Batch:
        """The programs at `positions`, in that order, scaled, on a device of torch."""
        inputs: list[Tensor] = []
        for (rows, counts, starts), scaler in zip(self._parts, self._scalers, strict=True):
            own = counts[positions]
            taken = torch.from_numpy(rows[row_numbers(starts[positions], own)])
            inputs += [scaler.encode(taken.to(device)), torch.from_numpy(own).to(device)]
        throughput, group = (torch.from_numpy(a[positions]).to(device) for a in (self._throughput, self.group))
        return Batch(tuple(inputs), throughput, group)


def parts_of(rows: FloatArray, counts: IntArray, widths: Sequence[int]) -> list[tuple[FloatArray, IntArray]]:
    """The rows and counts of each part of a feature spec; those of a simple spec are unchanged.

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
        rng: The only source of randomness.

    Yields:
        Positions of programs; every program is in exactly one batch.

    Example:
        >>> drawn = list(epoch(np.array([0, 0, 0, 1]), size=3, chunk=2, rng=np.random.default_rng(0)))
        >>> [len(b) for b in drawn], sorted(np.concatenate(drawn).tolist())
        ([3, 1], [0, 1, 2, 3])
    """
    pieces = chunks(group, size=chunk, rng=rng)
    order = np.concatenate([np.zeros(0, np.int64), *(pieces[i] for i in rng.permutation(len(pieces)))])
    for start in range(0, len(order), size):
        yield order[start : start + size]


def chunks(group: IntArray, *, size: int, rng: np.random.Generator) -> list[IntArray]:
    """Positions of the programs of each group, shuffled and cut into chunks of at most `size`."""
    shuffled = rng.permutation(len(group))
    by_group = shuffled[np.argsort(group[shuffled], kind="stable")]
    edges = np.flatnonzero(np.diff(group[by_group])) + 1
    return [part[start : start + size] for part in np.split(by_group, edges) for start in range(0, len(part), size)]


BUFFER_PROGRAMS = 65_536
"""About 360 MB of rows of `per_store@1`."""


class Stream:
    """Programs that a network learns from, read block by block in every epoch.

    A shuffle buffer mixes them: the programs of a block are shuffled within their group and cut into chunks,
    as `epoch` does; chunks of several blocks wait in the buffer, and each batch is made of chunks
    drawn from it. A batch thus holds pairs, and programs of many groups.

    Args:
        blocks: Blocks of whole groups; each process of a distributed training has its own.
        scalers: The scaler of each part of the feature spec.
        programs: How many programs the blocks have.
        buffer_programs: How many programs wait in the buffer.
    """

    def __init__(
        self,
        blocks: Sequence[Programs],
        scalers: Sequence[Scaler],
        *,
        programs: int,
        buffer_programs: int = BUFFER_PROGRAMS,
    ) -> None:
        self._blocks = blocks
        self._scalers = tuple(scalers)
        self._buffer_programs = buffer_programs
        self._programs = all_min(programs)  # Processes must take the same number of steps, or one waits forever.

    def steps(self, size: int) -> int:
        """See `BatchSource`."""
        return math.ceil(self._programs / size)

    def batches(
        self, *, size: int, chunk: int, rng: np.random.Generator, device: torch.device | str = "cpu"
    ) -> Iterator[Batch]:
        """See `BatchSource`; if another process has fewer programs, as many batches as that one has."""
        mixed = _mixed(self._chunks(chunk, rng), max(1, self._buffer_programs // chunk), rng)
        for _, taken in zip(range(self.steps(size)), _batched(mixed, size), strict=False):
            yield self._scaled(taken, device)

    def _chunks(self, chunk: int, rng: np.random.Generator) -> Iterator[_Chunk]:
        for number in rng.permutation(len(self._blocks)).tolist():
            block = self._blocks[number]
            throughput = block.throughput().astype(np.float32)
            # Groups of different blocks are different groups.
            group = block.group + (number << 32)
            for places in chunks(block.group, size=chunk, rng=rng):
                part = block.select(places)
                yield _Chunk(part.rows, part.counts, throughput[places], group[places])

    def _scaled(self, taken: _Chunk, device: torch.device | str) -> Batch:
        inputs: list[Tensor] = []
        parts = parts_of(taken.rows, taken.counts, [scaler.columns for scaler in self._scalers])
        for (rows, counts), scaler in zip(parts, self._scalers, strict=True):
            inputs += [
                scaler.encode(torch.from_numpy(rows).to(device)),
                torch.from_numpy(np.asarray(counts, np.int64)).to(device),
            ]
        throughput, group = (torch.from_numpy(a).to(device) for a in (taken.throughput, taken.group))
        return Batch(tuple(inputs), throughput, group)


@dataclass(frozen=True)
class _Chunk:
    """A few programs, copied out of their block, so that the block can be freed."""

    rows: FloatArray
    counts: IntArray
    throughput: FloatArray
    group: IntArray

    @classmethod
    def join(cls, parts: Sequence[_Chunk]) -> _Chunk:
        return cls(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.counts for part in parts]),
            np.concatenate([part.throughput for part in parts]),
            np.concatenate([part.group for part in parts]),
        )

    def split(self, programs: int) -> tuple[_Chunk, _Chunk]:
        """The first programs, and the others."""
        row = int(self.counts[:programs].sum())
        first, rest = (
            _Chunk(self.rows[rows], self.counts[own], self.throughput[own], self.group[own])
            for own, rows in (
                (slice(0, programs), slice(0, row)),
                (slice(programs, None), slice(row, None)),
            )
        )
        return first, rest


def _mixed(drawn: Iterable[_Chunk], held: int, rng: np.random.Generator) -> Iterator[_Chunk]:
    """The chunks in another order: one of those held is drawn whenever another arrives."""
    buffer: list[_Chunk] = []
    for chunk in drawn:
        if len(buffer) < held:
            buffer.append(chunk)
            continue
        place = int(rng.integers(held))
        yield buffer[place]
        buffer[place] = chunk
    for place in rng.permutation(len(buffer)).tolist():
        yield buffer[place]


def _batched(drawn: Iterable[_Chunk], size: int) -> Iterator[_Chunk]:
    """The programs of the chunks, `size` at a time."""
    waiting: list[_Chunk] = []
    programs = 0
    for chunk in drawn:
        waiting.append(chunk)
        programs += len(chunk.counts)
        while programs >= size:
            batch, rest = _Chunk.join(waiting).split(size)
            yield batch
            waiting, programs = [rest], len(rest.counts)
    if programs:
        yield _Chunk.join(waiting)


def sample_programs(blocks: Sequence[Programs], *, most: int, seed: int) -> Programs:
    """Draws programs from all blocks with equal probability, reading each block once.

    Args:
        blocks: The blocks.
        most: How many to draw; all if there are no more.
        seed: Chooses them.

    Returns:
        The programs, in the order of the blocks.

    Raises:
        DataError: There are no blocks.

    Example:
        >>> block = Programs.from_list([np.ones((1, 2))] * 8, np.zeros(8), ("a",), np.arange(1.0, 9.0))
        >>> sample_programs([block, block], most=10, seed=0).n
        10
    """
    if not len(blocks):
        raise DataError("There are no programs to learn from; measure some, or name other workloads.")
    ends = np.cumsum(block_sizes(blocks))
    chosen = np.random.default_rng(seed).permutation(int(ends[-1]))[:most]
    chosen.sort()
    starts, parts = np.searchsorted(chosen, np.concatenate([[0], ends])), []
    for number in range(len(blocks)):
        first = 0 if number == 0 else int(ends[number - 1])
        parts.append(blocks[number].select(chosen[starts[number] : starts[number + 1]] - first))
    return Programs.join(parts)


def block_sizes(blocks: Sequence[Programs]) -> tuple[int, ...]:
    """Programs of each block; those of a data folder need not be read for this."""
    return blocks.sizes if isinstance(blocks, ProgramBlocks) else tuple(block.n for block in blocks)
