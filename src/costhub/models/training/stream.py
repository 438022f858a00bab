"""Provides Stream: the batches of training from blocks of programs that memory does not hold all at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from costhub.dataset.programs import FloatArray, IntArray, Programs
from costhub.models.networks.scaler import Scaler
from costhub.models.training.batches import Batch, chunks, parts_of
from costhub.models.training.processes import least

BUFFER_PROGRAMS = 65_536
"""Some 360 MB of rows of `per_store@1`."""


class Stream:
    """Programs that a network learns from, read block by block in every epoch.

    A shuffle buffer mixes them: the programs of a block are shuffled within their group and cut into chunks,
    as `batches.epoch` does; chunks of several blocks wait in the buffer, and each batch is made of chunks
    drawn from it. A batch so holds pairs, and programs of many groups.

    Args:
        blocks: Blocks of whole groups; each process of a distributed training has its own.
        scalers: The scaler of each part of the feature spec.
        programs: How many programs the blocks have.
        buffer_programs: Programs that wait.
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
        self._programs = least(programs)  # Processes take the same number of steps, or one waits for ever.

    def steps(self, size: int) -> int:
        """See `Source`."""
        return math.ceil(self._programs / size)

    def batches(
        self, *, size: int, chunk: int, rng: np.random.Generator, device: torch.device | str = "cpu"
    ) -> Iterator[Batch]:
        """See `Source`; where another process has fewer programs, as many batches as that one has."""
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
    """A few programs, copied out of their block, which can then go."""

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
        """The first programs, and the rest."""
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
    """The chunks in another order: one of those held is drawn whenever another comes."""
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
