"""Provides stats_text and the tables in it: what a data folder holds, for a terminal of 80 to 100 columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from costhub.cards.tables import Column, number, one_line, plain_table
from costhub.dataset.stats.folder_stats import FolderStats

FAILURES_SHOWN = 10
ERROR_CHARACTERS = 60
NAME_CHARACTERS = 22

WORKLOADS = (
    Column("operator", "operator"),
    Column("name", "workload"),
    number("measured", "tried", ",d"),
    number("ok", "ok", ",d"),
    number("best_us", "best (us)", ",.1f"),
    number("median_us", "median", ",.0f"),
    number("worst_us", "worst", ",.0f"),
    number("spread", "spread", ",.0f"),
    number("best_gflops", "GFLOP/s", ",.1f"),
)
NOISE = (
    Column("device_id", "device"),
    Column("kind", "noise of"),
    number("count", "count", ",d"),
    number("median", "median", ".2%"),
    number("p95", "95 %", ".2%"),
)
VERSIONS = (
    Column("device_id", "device"),
    Column("tvm", "TVM"),
    Column("compiler", "compiler"),
    Column("driver", "driver"),
    Column("costhub", "costhub"),
    number("count", "count", ",d"),
)
LICENCES = (
    Column("licence", "licence"),
    Column("contributor", "contributor"),
    number("count", "count", ",d"),
)
STATUSES = (Column("name", "status"), number("count", "count", ",d"), number("share", "share", ".1%"))
PROPOSERS = (Column("name", "proposed by"), number("share", "share", ".1%"))
_COVERAGE = (
    Column("device_id", "device"),
    Column("operator", "operator"),
    number("workloads", "workloads", ",d"),
    number("programs", "programs that ran", ",d"),
    number("measured", "measured", ",d"),
)
_FAILURES = (Column("status", "failure"), Column("error", "first line"), number("count", "count", ",d"))


def stats_text(stats: FolderStats) -> str:
    """Renders the counts as tables, two line breaks apart.

    Example:
        >>> from costhub.dataset.folder import DataFolder
        >>> from costhub.dataset.stats.folder_stats import folder_stats
        >>> import tempfile
        >>> stats_text(folder_stats(DataFolder.create(tempfile.mkdtemp()).path))
        '0 measurements of 0 programs'
    """
    return "\n\n".join(_sections(stats))


def _sections(stats: FolderStats) -> Iterator[str]:
    yield f"{stats.measurements:,} measurements of {stats.programs:,} programs"
    if not stats.measurements:
        return
    yield plain_table(_coverage_rows(stats), _COVERAGE)
    yield plain_table(status_rows(stats), STATUSES)
    if stats.failures:
        rows = [
            asdict(f) | {"error": _cut(f.error, ERROR_CHARACTERS)} for f in stats.failures[:FAILURES_SHOWN]
        ]
        yield plain_table(rows, _FAILURES)
    yield plain_table(proposer_rows(stats), PROPOSERS)
    if stats.noise:
        yield plain_table(noise_rows(stats), NOISE)
    yield plain_table([asdict(row) for row in stats.versions], VERSIONS)
    yield plain_table([asdict(row) for row in stats.licences], LICENCES)
    yield _quantiles(stats)
    for device_id in stats.devices:
        workloads = [w for w in stats.workloads if w.device_id == device_id]
        rows = [asdict(w) | {"name": _cut(w.name, NAME_CHARACTERS)} for w in workloads]
        yield f"{one_line(device_id)} (spread: worst / best)\n{plain_table(rows, WORKLOADS)}"


def _coverage_rows(stats: FolderStats) -> list[dict[str, Any]]:
    """A row per device and operator, with its device named once."""
    rows = []
    for device_id, count in stats.devices.items():
        cells = [c for c in stats.coverage if c.device_id == device_id]
        rows.append({"device_id": device_id, "operator": "all", "measured": count} | _sums(cells))
        rows += [asdict(c) | {"device_id": ""} for c in cells]
    return rows


def _sums(cells: Sequence[Any]) -> dict[str, int]:
    return {key: sum(getattr(c, key) for c in cells) for key in ("workloads", "programs")}


def status_rows(stats: FolderStats) -> list[dict[str, Any]]:
    """What became of the attempts."""
    return [
        {"name": name, "count": count, "share": count / stats.measurements}
        for name, count in stats.statuses.items()
    ]


def proposer_rows(stats: FolderStats) -> list[dict[str, Any]]:
    """Who proposed the programs."""
    return [{"name": name, "share": share} for name, share in stats.proposed_by.items()]


def noise_rows(stats: FolderStats) -> list[dict[str, Any]]:
    """How well each device repeats itself; kinds without anything to compare are left out."""
    return [
        {"device_id": device.device_id, "kind": kind, **asdict(spread)}
        for device in stats.noise
        for kind, spread in (("repeats", device.repeats), ("measured again", device.again))
        if spread.count
    ]


def _quantiles(stats: FolderStats) -> str:
    rows: list[Mapping[str, Any]] = [
        {"device": device, **{str(q): v for q, v in at.items()}} for device, at in stats.latency_us.items()
    ]
    percentiles = next(iter(stats.latency_us.values()), {})
    columns = [
        number(str(q), {0: "best", 100: "worst"}.get(q, f"{q} %"), ",.1f" if q < 50 else ",.0f")
        for q in percentiles
    ]
    return plain_table(rows, [Column("device", "latency (us)"), *columns])


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
