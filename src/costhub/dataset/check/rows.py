"""Provides Rows: a batch of measurements with what several rules need of them, computed once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.check.context import Context, Floats
from costhub.dataset.check.rule import Mask
from costhub.dataset.latency import repeats_by_length

Ints = npt.NDArray[np.int64]


class Rows:
    """A batch of `n` measurements whose columns have the types of the schema."""

    def __init__(self, batch: pa.RecordBatch, context: Context, device_id: str) -> None:
        """Wraps a batch.

        Args:
            batch: Measurements; no required column holds a null.
            context: The devices and workloads of the folder.
            device_id: The device of the folder that the file lies in.
        """
        self.batch, self.context, self.device_id = batch, context, device_id
        self.n: int = batch.num_rows

    def column(self, name: str) -> pa.Array:
        """A column as it is in the file."""
        return self.batch.column(name)

    def texts(self, name: str) -> list[str | None]:
        """A column of text as Python strings."""
        found: list[str | None] = self.column(name).to_pylist()
        return found

    def floats(self, name: str) -> Floats:
        """(n,) a numeric column; NaN for null."""
        values: Floats = self.column(name).cast(pa.float64()).to_numpy(zero_copy_only=False)
        return values

    def where(self, mask: pa.Array) -> Mask:
        """(n,) an Arrow mask, null counting as False."""
        values: Mask = mask.fill_null(False).to_numpy(zero_copy_only=False)
        return values

    def is_null(self, name: str) -> Mask:
        """(n,) where a column is null."""
        return self.where(pc.is_null(self.column(name)))

    def among(self, name: str, values: pa.Array) -> Mask:
        """(n,) where a column of text holds one of `values`."""
        return self.where(pc.is_in(self.column(name), value_set=values))

    @cached_property
    def is_ok(self) -> Mask:
        """(n,) where the program ran."""
        return self.where(pc.equal(self.column("status"), "ok"))

    @cached_property
    def repeats(self) -> Ints:
        """(n,) length of run_s."""
        lengths: Ints = pc.list_value_length(self.column("run_s")).to_numpy(zero_copy_only=False)
        return lengths.astype(np.int64)

    @cached_property
    def latency_s(self) -> Floats:
        """(n,) median of the repeats; NaN for none."""
        return self.reduce(np.median)

    @cached_property
    def fastest_s(self) -> Floats:
        """(n,) least of the repeats."""
        return self.reduce(np.min)

    @cached_property
    def slowest_s(self) -> Floats:
        """(n,) most of the repeats."""
        return self.reduce(np.max)

    def reduce(self, over: Callable[..., Any]) -> Floats:
        """(n,) a numpy reduction of every row's repeats; NaN for a row without any."""
        found = np.full(self.n, np.nan)
        with np.errstate(invalid="ignore", over="ignore"):
            for rows, values in repeats_by_length(self.column("run_s")):
                found[rows] = over(values, axis=1)
        return found

    @cached_property
    def workload(self) -> Ints:
        """(n,) position among the workloads of the context; -1 where it is unknown."""
        return self._position("workload_id", self.context.workload_ids())

    @cached_property
    def device(self) -> Ints:
        """(n,) position among the devices of the context; -1 where it is unknown."""
        return self._position("device_id", self.context.device_ids())

    def _position(self, name: str, values: pa.Array) -> Ints:
        found = pc.index_in(self.column(name), value_set=values).fill_null(-1)
        positions: Ints = found.to_numpy(zero_copy_only=False).astype(np.int64)
        return positions

    def hashes(self, *names: str) -> npt.NDArray[np.uint64]:
        """(n,) 64 bits of each row's values in columns of text, alike in every process."""
        columns = [self.texts(name) for name in names]
        digests = (
            hashlib.blake2b(repr(row).encode(), digest_size=8).digest() for row in zip(*columns, strict=True)
        )
        return np.frombuffer(b"".join(digests), np.uint64)
