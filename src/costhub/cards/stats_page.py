"""Provides stats_page: what a data folder holds, as one HTML file with pictures and nothing to fetch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from html import escape
from typing import Any

from costhub import __version__
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
from costhub.cards.svg import STYLE
from costhub.cards.tables import Column, cell
from costhub.dataset.stats.folder_stats import FolderStats

_PAGE_STYLE = """\
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; } h3 { font-size: 1rem; }
svg { max-width: 100%; height: auto; } figure { margin: 0.5rem 0; overflow-x: auto; }
figcaption, .note { color: color-mix(in srgb, var(--ink) 75%, var(--paper)); font-size: 0.87rem; }
table { margin: 0.8rem 0; border-collapse: collapse; font-size: 0.87rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.15rem 0.9rem 0.15rem 0; text-align: left; border-bottom: 1px solid var(--faint); }
.right { text-align: right; } .scroll { overflow-x: auto; } summary { cursor: pointer; }
"""


def stats_page(stats: FolderStats, *, title: str) -> str:
    """Renders a page for a browser; equal data give equal text.

    Args:
        stats: What the folder holds.
        title: Of the page, for example the path of the folder.
    """
    name = escape(title)
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    head = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>\n{STYLE}{_PAGE_STYLE}</style></head>\n<body>\n<h1>{name}</h1>\n"
    )
    return head + "\n".join(_sections(stats)) + "\n</body></html>\n"


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
    yield _figure(
        coverage_svg(stats.coverage), "Programs that ran and their workloads, by operator and device."
    )
    yield "<h2>Latencies</h2>"
    for number, device_id in enumerate(stats.devices):
        yield from _latencies(stats, device_id, number)
    yield from _noise(stats)
    yield "<h2>Outcomes</h2>"
    yield _table(status_rows(stats), STATUSES)
    if stats.failures:
        more = len(stats.failures) - MOST_FAILURES
        rest = f" {more} other kinds are not shown." if more > 0 else ""
        yield _figure(failures_svg(stats.failures), f"The most frequent failures.{rest}")
    yield "<h2>Origin</h2>"
    yield _table(proposer_rows(stats), PROPOSERS)
    yield _table([asdict(row) for row in stats.versions], VERSIONS)
    yield _table([asdict(row) for row in stats.licences], LICENCES)


def _latencies(stats: FolderStats, device_id: str, number: int) -> Iterator[str]:
    workloads = [w for w in stats.workloads if w.device_id == device_id]
    ran = [w for w in workloads if w.best_us]
    yield f"<h3>{escape(device_id)}</h3>"
    if not ran:
        yield "<p>No program ran.</p>"
        return
    hidden = len(ran) - MOST_WORKLOADS
    rest = f" {hidden} more workloads are in the table only." if hidden > 0 else ""
    yield _figure(
        spread_svg(workloads, name=f"spread-{number}"),
        f"Latency of each workload's programs: best to worst, the middle half, and the median.{rest}",
    )
    roof = stats.roofs.get(device_id, {})
    if "peak_gflops" in roof and any(w.best_gflops and w.bytes for w in ran):
        yield _figure(
            roofline_svg(workloads, roof, name=f"roof-{number}"),
            "The best program of each workload, and what the device was probed to reach. Every argument "
            "counts once, so what stays in a cache may lie above the line of DRAM.",
        )
    yield f"<details><summary>All {len(workloads)} workloads; spread is worst / best</summary>"
    yield _table([asdict(w) for w in workloads], WORKLOADS) + "</details>"


def _noise(stats: FolderStats) -> Iterator[str]:
    if any(device.repeats.count or device.again.count for device in stats.noise):
        yield "<h2>Noise</h2>"
        yield _figure(
            noise_svg(stats.noise), "How far apart equal measurements lie; the left end is 0.01 % or less."
        )
        yield _table(noise_rows(stats), NOISE)


def _figure(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def _table(rows: Sequence[dict[str, Any]], columns: Sequence[Column]) -> str:
    sides = [' class="right"' if column.align == "right" else "" for column in columns]
    lines = [_line("th", [column.title for column in columns], sides)]
    lines += [_line("td", [cell(row, column) for column in columns], sides) for row in rows]
    return '<div class="scroll"><table>\n' + "\n".join(lines) + "\n</table></div>"


def _line(tag: str, texts: Sequence[str], sides: Sequence[str]) -> str:
    return (
        "<tr>"
        + "".join(f"<{tag}{side}>{escape(text)}</{tag}>" for text, side in zip(texts, sides, strict=True))
        + "</tr>"
    )
