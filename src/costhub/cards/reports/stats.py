"""Renders the contents of a data folder, for a terminal and as one HTML file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from costhub.cards.reports.blocks import Block, Details, Figure, Heading, Paragraph, Table, html_report
from costhub.cards.reports.stats_plots import (
    MOST_FAILURES,
    MOST_OPERATORS,
    MOST_WORKLOADS,
    coverage_svg,
    failures_svg,
    noise_svg,
    roofline_svg,
    spread_svg,
)
from costhub.cards.tables import TableColumn, number, one_line, plain_table
from costhub.dataset.stats.folder_stats import FolderStats
from costhub.terminal_text import counted
from costhub.versions import __version__

_FAILURES_SHOWN = 10
_ERROR_CHARACTERS = 60
_NAME_CHARACTERS = 22

_WORKLOADS = (
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
_NOISE = (
    TableColumn("device_id", "device"),
    TableColumn("kind", "noise of"),
    number("count", "count", ",d"),
    number("median", "median", ".2%"),
    number("p95", "95 %", ".2%"),
)
_VERSIONS = (
    TableColumn("device_id", "device"),
    TableColumn("tvm", "TVM"),
    TableColumn("compiler", "compiler"),
    TableColumn("driver", "driver"),
    TableColumn("costhub", "costhub"),
    number("count", "count", ",d"),
)
_LICENCES = (
    TableColumn("licence", "licence"),
    TableColumn("contributor", "contributor"),
    number("count", "count", ",d"),
)
_STATUSES = (TableColumn("name", "status"), number("count", "count", ",d"), number("share", "share", ".1%"))
_PROPOSERS = (TableColumn("name", "proposed by"), number("share", "share", ".1%"))
_NETWORKS = (TableColumn("name", "network"), number("workloads", "workloads", ",d"))
_COVERAGE = (
    TableColumn("device_id", "device"),
    TableColumn("operator", "operator"),
    number("workloads", "workloads", ",d"),
    number("programs", "programs that ran", ",d"),
    number("measured", "measured", ",d"),
)
_FAILURES = (TableColumn("status", "failure"), TableColumn("error", "first line"), number("count", "count", ",d"))


def stats_text(stats: FolderStats) -> str:
    """Renders the counts as tables for a terminal of 80 to 100 columns.

    Example:
        >>> from costhub.dataset.folder import DataFolder
        >>> from costhub.dataset.stats.folder_stats import folder_stats
        >>> import tempfile
        >>> stats_text(folder_stats(DataFolder.create(tempfile.mkdtemp()).path))
        '0 measurements of 0 programs'
    """
    return "\n\n".join(_text_sections(stats))


def _text_sections(stats: FolderStats) -> Iterator[str]:
    yield f"{counted(stats.measurements, 'measurement')} of {counted(stats.programs, 'program')}"
    if not stats.measurements:
        return
    yield plain_table(_coverage_rows(stats), _COVERAGE)
    if stats.networks:
        yield plain_table(_network_rows(stats), _NETWORKS)
    yield plain_table(_status_rows(stats), _STATUSES)
    if stats.failures:
        rows = [asdict(f) | {"error": _cut(f.error, _ERROR_CHARACTERS)} for f in stats.failures[:_FAILURES_SHOWN]]
        yield plain_table(rows, _FAILURES)
    yield plain_table(_proposer_rows(stats), _PROPOSERS)
    if noise := _noise_rows(stats):  # imported rows may have only one repeat each, so there is nothing to compare
        yield plain_table(noise, _NOISE)
    yield plain_table([asdict(row) for row in stats.versions], _VERSIONS)
    yield plain_table([asdict(row) for row in stats.licences], _LICENCES)
    yield _quantiles(stats)
    for device_id in stats.devices:
        workloads = [w for w in stats.workloads if w.device_id == device_id]
        rows = [asdict(w) | {"name": _cut(w.name, _NAME_CHARACTERS)} for w in workloads]
        yield f"{one_line(device_id)} (spread: worst / best)\n{plain_table(rows, _WORKLOADS)}"


def _coverage_rows(stats: FolderStats) -> list[dict[str, Any]]:
    """A row per device and operator, naming each device only once."""
    rows = []
    for device_id, count in stats.devices.items():
        cells = [c for c in stats.coverage if c.device_id == device_id]
        rows.append({"device_id": device_id, "operator": "all", "measured": count} | _sums(cells))
        rows += [asdict(c) | {"device_id": ""} for c in cells]
    return rows


def _sums(cells: Sequence[Any]) -> dict[str, int]:
    return {key: sum(getattr(c, key) for c in cells) for key in ("workloads", "programs")}


def _network_rows(stats: FolderStats) -> list[dict[str, Any]]:
    """The networks that the workloads come from."""
    return [{"name": name, "workloads": count} for name, count in stats.networks.items()]


def _status_rows(stats: FolderStats) -> list[dict[str, Any]]:
    """The attempts by status."""
    return [
        {"name": name, "count": count, "share": count / stats.measurements} for name, count in stats.statuses.items()
    ]


def _proposer_rows(stats: FolderStats) -> list[dict[str, Any]]:
    """The proposers of the programs."""
    return [{"name": name, "share": share} for name, share in stats.proposed_by.items()]


def _noise_rows(stats: FolderStats) -> list[dict[str, Any]]:
    """How repeatable each device's measurements are, without kinds that have nothing to compare."""
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
    """Renders the counts as a page for a browser, with pictures; equal data give equal text.

    Args:
        stats: Statistics of the folder.
        title: Title of the page, for example the path of the folder.
    """
    return html_report(title, _blocks(stats))


def _blocks(stats: FolderStats) -> Iterator[Block]:
    workloads = len({w.workload_id for w in stats.workloads})
    yield Paragraph(
        f"{counted(stats.measurements, 'measurement')} of {counted(stats.programs, 'program')}; "
        f"workloads: {workloads:,}; devices: {len(stats.devices):,}."
    )
    yield Paragraph(f"By costhub {__version__}.", is_note=True)
    if not stats.measurements:
        return
    yield Heading("Coverage")
    caption = "Programs that ran and their workloads, by operator and device."
    if (operators := len({cell.operator for cell in stats.coverage})) > MOST_OPERATORS:
        caption += f" The first {MOST_OPERATORS} of {operators:,} operators are drawn."
    yield Figure(partial(coverage_svg, stats.coverage), caption)
    if stats.networks:
        yield Table(_network_rows(stats), _NETWORKS)
    yield Heading("Latencies")
    for place, device_id in enumerate(stats.devices):
        yield from _latencies(stats, device_id, place)
    if any(device.repeats.count or device.again.count for device in stats.noise):
        yield Heading("Noise")
        caption = "How far apart equal measurements lie; the left end is 0.01 % or less."
        yield Figure(partial(noise_svg, stats.noise), caption)
        yield Table(_noise_rows(stats), _NOISE)
    yield Heading("Outcomes")
    yield Table(_status_rows(stats), _STATUSES)
    if stats.failures:
        more = len(stats.failures) - MOST_FAILURES
        rest = f" {more} other kinds are not shown." if more > 0 else ""
        yield Figure(partial(failures_svg, stats.failures), f"The most frequent failures.{rest}")
    yield Heading("Origin")
    yield Table(_proposer_rows(stats), _PROPOSERS)
    yield Table([asdict(row) for row in stats.versions], _VERSIONS)
    yield Table([asdict(row) for row in stats.licences], _LICENCES)


def _latencies(stats: FolderStats, device_id: str, place: int) -> Iterator[Block]:
    workloads = [w for w in stats.workloads if w.device_id == device_id]
    ran = [w for w in workloads if w.best_us]
    yield Heading(device_id, level=3)
    if not ran:
        yield Paragraph("No program ran.")
        return
    hidden = len(ran) - MOST_WORKLOADS
    rest = f" {hidden} more workloads are in the table only." if hidden > 0 else ""
    caption = f"Latency of each workload's programs: best to worst, the middle half, and the median.{rest}"
    yield Figure(partial(spread_svg, workloads, name=f"spread-{place}"), caption)
    roof = stats.roofs.get(device_id, {})
    is_probed = "peak_gflops" in roof and any(key.endswith("_gbs") for key in roof)
    if is_probed and any(w.best_gflops and w.bytes for w in ran):
        yield Figure(
            partial(roofline_svg, workloads, roof, name=f"roof-{place}"),
            "The best program of each workload, and the limits that were probed on the device. Every argument "
            "counts once, so what stays in a cache may lie above the line of DRAM.",
        )
    table = Table([asdict(w) for w in workloads], _WORKLOADS)
    yield Details(f"All {len(workloads)} workloads; spread is worst / best", [table])
