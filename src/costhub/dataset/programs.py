"""Provides Programs: featurised, measured programs in the arrays that models learn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Programs:
    """Measured programs of one device, with their features.

    Example:
        >>> features, latency_s = [np.ones((2, 3)), np.zeros((1, 3))], np.array([1e-3, 2e-3])
        >>> p = Programs.from_list(features, np.array([0, 0]), ("w",), latency_s)
        >>> p.n, p.rows.shape, p.throughput().tolist()
        (2, (3, 3), [1.0, 0.5])
    """

    rows: FloatArray
    """(r, d) feature rows of all programs, programs in order; what a row stands for, the spec says."""
    counts: IntArray
    """(n,) number of rows of each program; may be 0."""
    workload: IntArray
    """(n,) index into `workload_ids`."""
    workload_ids: tuple[str, ...]
    latency_s: npt.NDArray[np.float64]
    """(n,) median latency in seconds, finite and positive."""
    spec: str = ""
    """Name of the feature spec of the rows; empty where they are of none of costhub's."""

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or int(self.counts.sum()) != len(self.rows):
            raise ValueError(
                f"rows must be (r, d) with r = counts.sum() = {int(self.counts.sum())}, "
                f"got shape {self.rows.shape}."
            )
        if not len(self.counts) == len(self.workload) == len(self.latency_s):
            raise ValueError("counts, workload and latency_s must have one entry per program.")

    @classmethod
    def from_list(
        cls,
        features: list[npt.NDArray[np.floating]],
        workload: IntArray,
        workload_ids: tuple[str, ...],
        latency_s: npt.NDArray[np.float64],
    ) -> Programs:
        """Builds the set from one (rows, d) array per program."""
        counts = np.array([len(f) for f in features], dtype=np.int64)
        rows = np.concatenate(features).astype(np.float32) if features else np.zeros((0, 0), np.float32)
        return cls(
            rows, counts, np.asarray(workload, np.int64), workload_ids, np.asarray(latency_s, np.float64)
        )

    @property
    def n(self) -> int:
        """Number of programs."""
        return len(self.counts)

    def throughput(self) -> npt.NDArray[np.float64]:
        """(n,) best latency of the program's workload / its own latency: in (0, 1], 1 is the best."""
        best = np.full(len(self.workload_ids), np.inf)
        np.minimum.at(best, self.workload, self.latency_s)
        return best[self.workload] / self.latency_s

    def select(self, index: npt.NDArray[np.integer] | npt.NDArray[np.bool_]) -> Programs:
        """The programs at `index` (positions or a mask), in that order; workload indices are kept."""
        positions = np.flatnonzero(index) if np.asarray(index).dtype == bool else np.asarray(index, np.int64)
        starts = np.concatenate([[0], np.cumsum(self.counts)])
        counts = self.counts[positions]
        # Row numbers of the chosen programs without a loop: each program's start, repeated, plus 0..count-1.
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        take = np.repeat(starts[positions], counts) + within
        return Programs(
            self.rows[take],
            counts,
            self.workload[positions],
            self.workload_ids,
            self.latency_s[positions],
            self.spec,
        )

    def of_workloads(self, ids: set[str]) -> Programs:
        """The programs whose workload is in `ids`."""
        wanted = np.array([w in ids for w in self.workload_ids], dtype=bool)
        return self.select(wanted[self.workload])
