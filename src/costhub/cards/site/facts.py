"""Provides Site: the contents of a hub's page, as read and before escaping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from costhub.dataset.stats.folder_stats import CoverageCell

METRICS = ("top_1", "top_5", "pairwise")
"""The metrics shown for an evaluation; all are shares, 1 is perfect."""


@dataclass(frozen=True, kw_only=True)
class SiteModel:
    """A model of the hub."""

    name: str
    """ORG/NAME."""
    device_id: str
    arch: str
    more_devices: tuple[str, ...] = ()
    """Further devices it is for, if it is conditioned on the device."""
    bytes: int
    """Total size of its files."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """One of METRICS -> mean over the held-out workloads."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """One of METRICS -> standard error of that mean."""
    operators: Mapping[str, float] = field(default_factory=dict)
    """Operator class -> its top_1."""
    card: str | None = None
    """Its text in Markdown; None if there is no card."""
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
    """Device -> number of measurements, including failures."""
    ok: int
    """Number of measurements with a latency."""
    workloads: int
    licences: tuple[str, ...]
    tvm_versions: tuple[str, ...]
    coverage: tuple[CoverageCell, ...]
    card: str | None = None
    """Its text in Markdown; None if there is no card."""


MODEL, BASELINE, CEILING = "model", "baseline", "ceiling"
KINDS = (MODEL, BASELINE, CEILING)
"""A ceiling is the best that a model could reach."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A model or a baseline in a track."""

    name: str
    features: str
    """Its feature spec, or its ranking criterion."""
    kind: str
    """One of KINDS."""
    seeds: int
    figures: Mapping[str, float]
    """Metric -> mean over workloads and seeds."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """Metric -> standard error of that mean over workloads."""


@dataclass(frozen=True, kw_only=True)
class Track:
    """A task for models on one device."""

    title: str
    device_id: str
    split: str
    asks: str
    """A short description of the task."""
    workloads: int
    """Number of workloads that the models are evaluated on."""
    entries: tuple[Entry, ...]


@dataclass(frozen=True, kw_only=True)
class ReplayEntry:
    """A strategy in replayed searches, and the model that led it."""

    strategy: str
    model: str
    """As it was named, such as `auto`; empty if there was none."""
    model_name: str
    """ORG/NAME of the model that this stood for."""
    method: str
    """How the model learned during the searches."""
    kind: str
    """MODEL or BASELINE."""
    seeds: int
    """Number of searches of each workload."""
    score: float
    """Mean over workloads: 1 if the optimum was found at once, 0 for random search, below 0 if worse."""
    error: float | None
    """Standard error of that mean."""
    near: float
    """Median over workloads of the trials to within 5 % of the optimum."""
    source: str = ""
    """Name of the file that the line was added from; empty for those of the hub."""


@dataclass(frozen=True, kw_only=True)
class ReplayTrack:
    """Searches replayed among the measured programs of one device."""

    device_id: str
    workloads: int
    programs: int
    """Median over the workloads of the number of their programs."""
    trials: int
    """Median over the workloads of the trials of a search."""
    workload_ids: frozenset[str] = frozenset()
    """First digits of the ids of the workloads; empty if the hub does not say."""
    entries: tuple[ReplayEntry, ...]


@dataclass(frozen=True, kw_only=True)
class ReplayBoard:
    """The replayed searches of a hub, with the run that they come from."""

    tracks: tuple[ReplayTrack, ...]
    origin: Mapping[str, str]
    """As in `Leaderboard`."""


@dataclass(frozen=True, kw_only=True)
class Leaderboard:
    """The tracks of a hub, with the run that they come from."""

    tracks: tuple[Track, ...]
    origin: Mapping[str, str]
    """Known facts about the run, such as `results` (a file), `command`, `machine` and `date`."""
    replay: ReplayBoard | None = None
    """Searches replayed without a device; None if the hub has none."""


@dataclass(frozen=True)
class Site:
    """The contents of a hub."""

    devices: tuple[Mapping[str, Any], ...]
    """Rows of the device index; untrusted rows may contain anything, but `device_id` is a string."""
    models: tuple[SiteModel, ...]
    datasets: tuple[SiteDataset, ...]
    leaderboard: Leaderboard | None = None
