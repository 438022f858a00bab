"""Provides device_noise: how much a device's repeats, and repeated measurements, differ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.latency import repeats_by_length
from costhub.dataset.shards.layout import PROGRAM_KEY

PERCENTILES = tuple(range(0, 101, 2))
"""The percentiles of a distribution that are kept for plotting."""


@dataclass(frozen=True)
class Spread:
    """Distribution of the relative spread, (highest - lowest) / median, over groups of latencies."""

    count: int
    """Groups of two or more latencies; if 0, the other fields are empty."""
    median: float | None
    p95: float | None
    percentiles: tuple[float, ...]
    """The spread at each of `PERCENTILES`."""


@dataclass(frozen=True)
class DeviceNoise:
    """How closely repeated runs on a device agree."""

    device_id: str
    repeats: Spread
    """Within a measurement: its repeats, taken in direct succession."""
    again: Spread
    """Between measurements: the latencies of programs that were measured more than once."""


def relative_spread(values: pa.ChunkedArray | pa.ListArray) -> npt.NDArray[np.float64]:
    """(n,) (highest - lowest) / median of each list of positive numbers; NaN for fewer than two.

    Example:
        >>> relative_spread(pa.array([[1.0, 1.5, 2.0], [3.0], []])).round(3).tolist()
        [0.667, nan, nan]
    """
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    spreads = [_spread_of(chunk) for chunk in chunks]
    return np.concatenate([np.zeros(0), *spreads])


def _spread_of(lists: pa.ListArray) -> npt.NDArray[np.float64]:
    spreads = np.full(len(lists), np.nan)
    for rows, values in repeats_by_length(lists):
        if values.shape[1] > 1:
            with np.errstate(divide="ignore", invalid="ignore"):  # a latency of zero has no relative spread
                spreads[rows] = np.ptp(values, axis=1) / np.median(values, axis=1)
    return spreads


def device_noise(observations: pa.Table) -> tuple[DeviceNoise, ...]:
    """Describes the noise of every device.

    Args:
        observations: The table from `read_observations`.

    Returns:
        One entry per device, by name.
    """
    ok = observations.filter(pc.is_finite(observations["latency_us"]))
    programs = ok.group_by(["device_id", PROGRAM_KEY]).aggregate([("latency_us", "count")])
    repeated = programs.filter(pc.field("latency_us_count") > 1).drop_columns(["latency_us_count"])
    again = ok.join(repeated, ["device_id", PROGRAM_KEY], join_type="inner")
    lists = again.group_by(["device_id", PROGRAM_KEY]).aggregate([("latency_us", "list")])
    return tuple(
        DeviceNoise(
            device_id,
            _distribution(ok.filter(pc.field("device_id") == device_id)["spread"].to_numpy()),
            _distribution(relative_spread(lists.filter(pc.field("device_id") == device_id)["latency_us_list"])),
        )
        for device_id in sorted(pc.unique(ok["device_id"]).to_pylist())
    )


def _distribution(values: npt.NDArray[np.float64]) -> Spread:
    values = values[np.isfinite(values)]
    if not len(values):
        return Spread(0, None, None, ())
    median, p95 = np.percentile(values, [50, 95]).tolist()
    return Spread(len(values), median, p95, tuple(np.percentile(values, PERCENTILES).tolist()))
