"""Renders what a data folder holds, for a terminal and as one HTML file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from html import escape
from typing import Any

from costhub.cards.html import html_figure, html_page, html_table
from costhub.cards.reports.stats_plots import (
    MOST_FAILURES,
    MOST_WORKLOADS,
    coverage_svg,
    failures_svg,
    noise_svg,
    roofline_svg,
    spread_svg,
)
from costhub.cards.tables import TableColumn, number, one_line, plain_table
from costhub.dataset.stats.folder_stats import FolderStats
from costhub.versions import __version__

FAILURES_SHOWN = 10
ERROR_CHARACTERS = 60
NAME_CHARACTERS = 22

WORKLOADS = (
    TableColumn("operator", "operator"),
    TableColumn("name", "workload"),
    number("measured", "tried", ",d"),
    number("ok", "ok", ",d"),
    number("best_us", "best (us)", ",.1f"),
    number("median_us", "median", ",.0f"),
    number("worst_us", "worst", ",.0f"),
    number("spread", "spread", ",.0f"),
    number("best_gflops", "GFLOP/s", ",.1f"),
)
NOISE = (
    TableColumn("device_id", "device"),
    TableColumn("kind", "noise of"),
    number("count", "count", ",d"),
    number("median", "median", ".2%"),
    number("p95", "95 %", ".2%"),
)
VERSIONS = (
    TableColumn("device_id", "device"),
    TableColumn("tvm", "TVM"),
    TableColumn("compiler", "compiler"),
    TableColumn("driver", "driver"),
    TableColumn("costhub", "costhub"),
    number("count", "count", ",d"),
)
LICENCES = (
    TableColumn("licence", "licence"),
    TableColumn("contributor", "contributor"),
    number("count", "count", ",d"),
)
STATUSES = (TableColumn("name", "status"), number("count", "count", ",d"), number("share", "share", ".1%"))
PROPOSERS = (TableColumn("name", "proposed by"), number("share", "share", ".1%"))
_COVERAGE = (
    TableColumn("device_id", "device"),
    TableColumn("operator", "operator"),
    number("workloads", "workloads", ",d"),
    number("programs", "programs that ran", ",d"),
    number("measured", "measured", ",d"),
)
_FAILURES = (TableColumn("status", "failure"), TableColumn("error", "first line"), number("count", "count", ",d"))


def stats_text(stats: FolderStats) -> str:
    """Renders the counts as tables, two line breaks apart.

    Example:
        >>> from costhub.dataset.folder import DataFolder
        >>> from costhub.dataset.stats.folder_stats import folder_stats
        >>> import tempfile
        >>> stats_text(folder_stats(DataFolder.create(tempfile.mkdtemp()).path))
        '0 measurements of 0 programs'
    """
    return "\n\n".join(_text_sections(stats))


def _text_sections(stats: FolderStats) -> Iterator[str]:
    yield f"{stats.measurements:,} measurements of {stats.programs:,} programs"
    if not stats.measurements:
        return
    yield plain_table(_coverage_rows(stats), _COVERAGE)
    yield plain_table(status_rows(stats), STATUSES)
    if stats.failures:
        rows = [asdict(f) | {"error": _cut(f.error, ERROR_CHARACTERS)} for f in stats.failures[:FAILURES_SHOWN]]
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
        {"name": name, "count": count, "share": count / stats.measurements} for name, count in stats.statuses.items()
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
        number(str(q), {0: "best", 100: "worst"}.get(q, f"{q} %"), ",.1f" if q < 50 else ",.0f") for q in percentiles
    ]
    return plain_table(rows, [TableColumn("device", "latency (us)"), *columns])


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def stats_page(stats: FolderStats, *, title: str) -> str:
    """Renders a page for a browser; equal data give equal text.

    Args:
        stats: What the folder holds.
        title: Of the page, for example the path of the folder.
    """
    return html_page(title, _page_sections(stats))


def _page_sections(stats: FolderStats) -> Iterator[str]:
    workloads = len({w.workload_id for w in stats.workloads})
    yield (
        f"<p>{stats.measurements:,} measurements of {stats.programs:,} programs; workloads: {workloads:,}; "
        f"devices: {len(stats.devices):,}. "
        f'<span class="note">By costhub {escape(__version__)}.</span></p>'
    )
    if not stats.measurements:
        return
    yield "<h2>Coverage</h2>"
    yield html_figure(coverage_svg(stats.coverage), "Programs that ran and their workloads, by operator and device.")
    yield "<h2>Latencies</h2>"
    for place, device_id in enumerate(stats.devices):
        yield from _page_latencies(stats, device_id, place)
    yield from _page_noise(stats)
    yield "<h2>Outcomes</h2>"
    yield html_table(status_rows(stats), STATUSES)
    if stats.failures:
        more = len(stats.failures) - MOST_FAILURES
        rest = f" {more} other kinds are not shown." if more > 0 else ""
        yield html_figure(failures_svg(stats.failures), f"The most frequent failures.{rest}")
    yield "<h2>Origin</h2>"
    yield html_table(proposer_rows(stats), PROPOSERS)
    yield html_table([asdict(row) for row in stats.versions], VERSIONS)
    yield html_table([asdict(row) for row in stats.licences], LICENCES)


def _page_latencies(stats: FolderStats, device_id: str, number: int) -> Iterator[str]:
    workloads = [w for w in stats.workloads if w.device_id == device_id]
    ran = [w for w in workloads if w.best_us]
    yield f"<h3>{escape(device_id)}</h3>"
    if not ran:
        yield "<p>No program ran.</p>"
        return
    hidden = len(ran) - MOST_WORKLOADS
    rest = f" {hidden} more workloads are in the table only." if hidden > 0 else ""
    yield html_figure(
        spread_svg(workloads, name=f"spread-{number}"),
        f"Latency of each workload's programs: best to worst, the middle half, and the median.{rest}",
    )
    roof = stats.roofs.get(device_id, {})
    is_probed = "peak_gflops" in roof and any(key.endswith("_gbs") for key in roof)
    if is_probed and any(w.best_gflops and w.bytes for w in ran):
        yield html_figure(
            roofline_svg(workloads, roof, name=f"roof-{number}"),
            "The best program of each workload, and what the device was probed to reach. Every argument "
            "counts once, so what stays in a cache may lie above the line of DRAM.",
        )
    yield f"<details><summary>All {len(workloads)} workloads; spread is worst / best</summary>"
    yield html_table([asdict(w) for w in workloads], WORKLOADS) + "</details>"


def _page_noise(stats: FolderStats) -> Iterator[str]:
    if any(device.repeats.count or device.again.count for device in stats.noise):
        yield "<h2>Noise</h2>"
        yield html_figure(
            noise_svg(stats.noise), "How far apart equal measurements lie; the left end is 0.01 % or less."
        )
        yield html_table(noise_rows(stats), NOISE)
