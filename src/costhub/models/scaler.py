"""Provides the Scaler: fixed standardisation of feature rows, fitted once and saved with the weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from costhub.dataset.programs import FloatArray

CLIP = 8.0
"""Largest size of a scaled feature: what hardly varied in training must not explode on another device."""


@dataclass(frozen=True)
class Scaler:
    """Standardises each column with the mean and spread of the training rows.

    The numbers are fixed at `fit`, so the score of a program never depends on its neighbours in a batch.

    Example:
        >>> scaler = Scaler.fit(np.array([[1.0, 5.0], [3.0, 5.0]], np.float32))
        >>> scaler(np.array([[1.0, 7.0], [90.0, 5.0]], np.float32)).tolist()
        [[-1.0, 0.0], [8.0, 0.0]]
    """

    mean: FloatArray
    """(d,) mean of every column over the training rows."""
    inverse_std: FloatArray
    """(d,) 1 / standard deviation; 0 where the column was constant, which masks it."""

    @classmethod
    def fit(cls, rows: FloatArray) -> Scaler:
        """The scaler of the (r, d) training rows; r = 0 masks every column."""
        if not len(rows):
            zeros = np.zeros(rows.shape[1], np.float32)
            return cls(zeros, zeros.copy())
        mean = rows.mean(axis=0, dtype=np.float64)
        std = rows.std(axis=0, dtype=np.float64)
        constant = std <= 1e-6 * np.maximum(1.0, np.abs(mean))
        inverse = np.where(constant, 0.0, 1.0 / np.where(constant, 1.0, std))
        return cls(mean.astype(np.float32), inverse.astype(np.float32))

    @property
    def columns(self) -> int:
        """Number of feature columns d."""
        return len(self.mean)

    def __call__(self, rows: npt.NDArray[np.floating]) -> FloatArray:
        """(r, d) scaled rows, within [-CLIP, CLIP]."""
        scaled = (rows.astype(np.float32, copy=False) - self.mean) * self.inverse_std
        return np.clip(scaled, -CLIP, CLIP, out=scaled)
