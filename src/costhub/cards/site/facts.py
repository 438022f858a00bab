"""Provides Site: what the page of a hub shows, as it was read and before it is escaped."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from costhub.dataset.stats.folder_stats import CoverageCell

METRICS = ("top_1", "top_5", "pairwise")
"""What is shown of an evaluation; all are shares, 1 is perfect."""


@dataclass(frozen=True, kw_only=True)
class SiteModel:
    """A model of the hub."""

    name: str
    """ORG/NAME."""
    device_id: str
    arch: str
    more_devices: tuple[str, ...] = ()
    """Further devices that it is for, if it is conditioned on the device."""
    bytes: int
    """Of all its files."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """One of METRICS -> mean over the held-out workloads."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """One of METRICS -> standard error of that mean."""
    operators: Mapping[str, float] = field(default_factory=dict)
    """Operator class -> top_1 on it."""
    card: str | None = None
    """Its text in Markdown; None without a card."""
    pictures: Mapping[str, str] = field(default_factory=dict)
    """File in its folder -> address in the site."""

    @property
    def devices(self) -> tuple[str, ...]:
        """All devices that it is for."""
        return self.device_id, *self.more_devices


@dataclass(frozen=True, kw_only=True)
class SiteDataset:
    """A dataset of the hub."""

    name: str
    """ORG/NAME."""
    rows: Mapping[str, int]
    """Device -> measurements, failures included."""
    ok: int
    """Measurements that have a latency."""
    workloads: int
    licences: tuple[str, ...]
    tvm_versions: tuple[str, ...]
    coverage: tuple[CoverageCell, ...]
    card: str | None = None
    """Its text in Markdown; None without a card."""


MODEL, BASELINE, CEILING = "model", "baseline", "ceiling"
KINDS = (MODEL, BASELINE, CEILING)
"""A ceiling is what a model could reach at best."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A model or a baseline in a track."""

    name: str
    features: str
    """Its feature spec, or what it ranks by."""
    kind: str
    """One of KINDS."""
    seeds: int
    figures: Mapping[str, float]
    """Metric -> mean over workloads and seeds."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """Metric -> standard error of that mean over workloads."""


@dataclass(frozen=True, kw_only=True)
class Track:
    """What is asked of models on one device."""

    title: str
    device_id: str
    split: str
    asks: str
    """In a few words."""
    workloads: int
    """Those that the models are judged on."""
    entries: tuple[Entry, ...]


@dataclass(frozen=True, kw_only=True)
class Leaderboard:
    """The tracks of a hub, with the run that they come from."""

    tracks: tuple[Track, ...]
    origin: Mapping[str, str]
    """What is known of the run, such as `results` (a file), `command`, `machine` and `date`."""


@dataclass(frozen=True)
class Site:
    """What a hub holds."""

    devices: tuple[Mapping[str, Any], ...]
    """Rows of the device index; a stranger's rows may hold anything, but `device_id` is a text."""
    models: tuple[SiteModel, ...]
    datasets: tuple[SiteDataset, ...]
    leaderboard: Leaderboard | None = None


def as_number(value: object) -> float | None:
    """The value, where it is a finite number; files of strangers hold other things in its place.

    Example:
        >>> as_number(3), as_number("3"), as_number(float("inf"))
        (3.0, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
