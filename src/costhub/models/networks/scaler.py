"""Provides the Scaler: the fixed encoding of feature rows for networks, saved with the weights."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from costhub.dataset.programs import FloatArray, IntArray

CLIP = 8.0
"""Largest magnitude of a standardised feature: what hardly varied in training must not explode elsewhere."""
_ARRAYS = ("mean", "inverse_std", "bin_column", "bin_low", "bin_inverse_width")


@dataclass(frozen=True)
class Scaler:
    """Standardises every column, and spreads it over bins between its quantiles in the training rows.

    In a bin from `a` to `b` a value x becomes (x - a) / (b - a), clipped to [0, 1]: the piecewise-linear
    encoding of Gorishniy et al., *On Embeddings for Numerical Features in Tabular Deep Learning*, 2022. It
    lets a network bend sharply within a column, say at the size of a cache, as trees do.

    All numbers are fixed at `fit`, so the score of a program never depends on its neighbours in a batch.

    Example:
        >>> scaler = Scaler.fit(np.array([[1.0, 5.0], [3.0, 5.0]], np.float32), bins=0)
        >>> scaler(np.array([[1.0, 7.0], [90.0, 5.0]], np.float32)).tolist()
        [[-1.0, 0.0], [8.0, 0.0]]
    """

    mean: FloatArray
    """(d,) mean of every column over the training rows."""
    inverse_std: FloatArray
    """(d,) 1 / standard deviation; 0 where the column was constant, which masks it."""
    bin_column: IntArray
    """(m,) the column of each bin."""
    bin_low: FloatArray
    """(m,) where the bin begins."""
    bin_inverse_width: FloatArray
    """(m,) 1 / width of the bin."""
    raw: tuple[int, ...] = ()
    """Columns that are not quantities, such as the number of a parent or of a kind: they are masked, and
    follow the encoded columns as they are."""

    @classmethod
    def fit(cls, rows: FloatArray, *, bins: int, raw: Sequence[int] = ()) -> Scaler:
        """The scaler of training rows.

        Args:
            rows: (r, d) rows; r = 0 masks every column.
            bins: Most bins per column. Equal quantiles are merged; a column with two values needs no bins.
            raw: Columns that pass through unchanged.
        """
        mean, std = np.zeros((2, rows.shape[1]))
        if len(rows):
            mean, std = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
        constant = std <= 1e-6 * np.maximum(1.0, np.abs(mean))
        constant[list(raw)] = True
        inverse = np.where(constant, 0.0, 1.0 / np.where(constant, 1.0, std))
        column, low, inverse_width = _bins(rows, np.flatnonzero(~constant), bins)
        return cls(mean.astype(np.float32), inverse.astype(np.float32), column, low, inverse_width, tuple(raw))

    @classmethod
    def blank(cls, columns: int, bins: int, *, raw: Sequence[int] = ()) -> Scaler:
        """A scaler of a given form without values, for the shapes of its arrays."""
        by_column, by_bin = np.zeros(columns, np.float32), np.zeros(bins, np.float32)
        return cls(by_column, by_column, by_bin.astype(np.int64), by_bin, by_bin, tuple(raw))

    @classmethod
    def of_tensors(cls, tensors: Mapping[str, Tensor], *, raw: Sequence[int] = ()) -> Scaler:
        """The scaler whose `tensors` returned these."""
        mean, inverse_std, column, low, inverse_width = (tensors[name].numpy() for name in _ARRAYS)
        return cls(mean, inverse_std, column, low, inverse_width, tuple(raw))

    def tensors(self) -> dict[str, Tensor]:
        """Its arrays by name, to be saved; `raw` belongs to the architecture."""
        return {name: torch.from_numpy(getattr(self, name)) for name in _ARRAYS}

    @property
    def columns(self) -> int:
        """Number of feature columns d."""
        return len(self.mean)

    @property
    def width(self) -> int:
        """Number of encoded columns d + m, not counting those that `raw` adds."""
        return len(self.mean) + len(self.bin_low)

    def __call__(self, rows: npt.NDArray[np.floating]) -> FloatArray:
        """The same as `encode`, for an array."""
        encoded: FloatArray = self.encode(torch.from_numpy(np.require(rows, np.float32, "W"))).numpy()
        return encoded

    def encode(self, rows: Tensor) -> Tensor:
        """Encodes rows, on their device.

        Args:
            rows: (r, d) float32 rows.

        Returns:
            (r, d + m + len(raw)) rows: standardised columns within [-CLIP, CLIP], bins within [0, 1], and the
            raw columns.
        """
        mean, inverse_std, column, low, inverse_width = (tensor.to(rows.device) for tensor in self.tensors().values())
        # Beyond the range of float32, a value is infinite for a moment and then clipped like any other.
        standard = rows.sub(mean).mul_(inverse_std).clamp_(-CLIP, CLIP)
        bins = rows.index_select(1, column).sub_(low).mul_(inverse_width).clamp_(0.0, 1.0)
        return torch.cat([standard, bins, *(rows[:, [column]] for column in self.raw)], dim=1)


def _bins(rows: FloatArray, columns: IntArray, bins: int) -> tuple[IntArray, FloatArray, FloatArray]:
    """Column, low end and inverse width of every bin."""
    rows_of_bins: list[tuple[int, float, float]] = []
    for column in columns if bins else ():
        values = rows[:, column].astype(np.float64)
        # Quantiles that are values of the column: a column with two values then has no edge between them.
        edges = np.unique(np.quantile(values, np.linspace(0.0, 1.0, bins + 1), method="lower"))
        # Nearly equal edges would make a bin that amplifies rounding.
        edges = edges[np.concatenate([[True], np.diff(edges) > 1e-4])]
        if len(edges) > 2:
            rows_of_bins += [
                (int(column), float(low), float(1.0 / (high - low))) for low, high in itertools.pairwise(edges)
            ]
    table = np.array(rows_of_bins, dtype=np.float64).reshape(-1, 3)
    return table[:, 0].astype(np.int64), table[:, 1].astype(np.float32), table[:, 2].astype(np.float32)
