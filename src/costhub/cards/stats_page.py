"""Provides stats_page: what a data folder holds, as one HTML file with pictures and nothing to fetch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from html import escape

from costhub.cards.page import html_figure, html_page, html_table
from costhub.cards.stats_plots import (
    MOST_FAILURES,
    MOST_WORKLOADS,
    coverage_svg,
    failures_svg,
    noise_svg,
    roofline_svg,
    spread_svg,
)
from costhub.cards.stats_tables import (
    LICENCES,
    NOISE,
    PROPOSERS,
    STATUSES,
    VERSIONS,
    WORKLOADS,
    noise_rows,
    proposer_rows,
    status_rows,
)
from costhub.dataset.stats.folder_stats import FolderStats
from costhub.versions import __version__


def stats_page(stats: FolderStats, *, title: str) -> str:
    """Renders a page for a browser; equal data give equal text.

    Args:
        stats: What the folder holds.
        title: Of the page, for example the path of the folder.
    """
    return html_page(title, _sections(stats))


def _sections(stats: FolderStats) -> Iterator[str]:
    workloads = len({w.workload_id for w in stats.workloads})
    yield (
        f"<p>{stats.measurements:,} measurements of {stats.programs:,} programs; workloads: {workloads:,}; "
        f"devices: {len(stats.devices):,}. "
        f'<span class="note">By costhub {escape(__version__)}.</span></p>'
    )
    if not stats.measurements:
        return
    yield "<h2>Coverage</h2>"
    yield html_figure(
        coverage_svg(stats.coverage), "Programs that ran and their workloads, by operator and device."
    )
    yield "<h2>Latencies</h2>"
    for number, device_id in enumerate(stats.devices):
        yield from _latencies(stats, device_id, number)
    yield from _noise(stats)
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


def _latencies(stats: FolderStats, device_id: str, number: int) -> Iterator[str]:
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


def _noise(stats: FolderStats) -> Iterator[str]:
    if any(device.repeats.count or device.again.count for device in stats.noise):
        yield "<h2>Noise</h2>"
        yield html_figure(
            noise_svg(stats.noise), "How far apart equal measurements lie; the left end is 0.01 % or less."
        )
        yield html_table(noise_rows(stats), NOISE)
