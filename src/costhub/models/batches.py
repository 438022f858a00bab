"""Provides the batches of training, drawn so that each holds many pairs of programs of one workload."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from costhub.dataset.programs import IntArray, Programs
from costhub.models.scaler import Scaler


@dataclass(frozen=True)
class Batch:
    """Programs as a network takes them."""

    rows: Tensor
    """(r, d) scaled feature rows."""
    counts: Tensor
    """(n,) rows per program."""
    throughput: Tensor
    """(n,) throughput, normalised within the workload."""
    group: Tensor
    """(n,) workload."""

    @classmethod
    def of(cls, programs: Programs, scaler: Scaler) -> Batch:
        """All of `programs` in one batch."""
        return cls(
            torch.from_numpy(scaler(programs.rows)),
            torch.from_numpy(programs.counts),
            torch.from_numpy(programs.throughput().astype(np.float32)),
            torch.from_numpy(programs.workload),
        )

    def take(self, positions: npt.NDArray[np.integer]) -> Batch:
        """The programs at `positions`, in that order."""
        index = torch.from_numpy(np.ascontiguousarray(positions, np.int64))
        counts = self.counts[index]
        starts = (torch.cumsum(self.counts, 0) - self.counts)[index]
        within = torch.arange(int(counts.sum())) - torch.repeat_interleave(
            torch.cumsum(counts, 0) - counts, counts
        )
        rows = self.rows[torch.repeat_interleave(starts, counts) + within]
        return Batch(rows, counts, self.throughput[index], self.group[index])


def epoch(workload: IntArray, *, size: int, chunk: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Draws the batches of one pass over all programs.

    Programs are shuffled within their workload and cut into chunks, and the chunks are shuffled: a batch of
    `size` then holds about `size / chunk` workloads with about `chunk` programs each, so it has many pairs to
    compare.

    Args:
        workload: (n,) workload of each program.
        size: Programs per batch; the last batch may have fewer.
        chunk: Programs of one workload that stay together.
        rng: The only source of chance.

    Yields:
        Positions of programs; every program is in exactly one batch.

    Example:
        >>> drawn = list(epoch(np.array([0, 0, 0, 1]), size=3, chunk=2, rng=np.random.default_rng(0)))
        >>> [len(b) for b in drawn], sorted(np.concatenate(drawn).tolist())
        ([3, 1], [0, 1, 2, 3])
    """
    shuffled = rng.permutation(len(workload))
    by_workload = shuffled[np.argsort(workload[shuffled], kind="stable")]
    edges = np.flatnonzero(np.diff(workload[by_workload])) + 1
    chunks = [
        part[start : start + chunk]
        for part in np.split(by_workload, edges)
        for start in range(0, len(part), chunk)
    ]
    order = np.concatenate([chunks[i] for i in rng.permutation(len(chunks))] or [shuffled])
    for start in range(0, len(order), size):
        yield order[start : start + size]
