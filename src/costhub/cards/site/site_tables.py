"""Provides the tables of a hub's page, whose rows a search finds and whose columns sort."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from costhub.cards.site.facts import METRICS, Site, SiteDataset, SiteModel, as_number
from costhub.cards.tables import counted, one_line
from costhub.dataset.stats.folder_stats import CoverageCell as Covered

MOST_SHADE = 45
"""Per cent of colour in the darkest cell; text on it keeps a contrast of more than 4.5 on either paper."""


@dataclass(frozen=True)
class SiteCell:
    """What stands in one place of a table."""

    html: str
    """In which all texts of others are escaped already."""
    value: float | None = None
    """What a number is sorted by."""
    shade: float | None = None
    """0 to 1: how much colour is behind it."""


@dataclass(frozen=True)
class SiteRow:
    """A line of a table; its first cell says what it is about."""

    cells: tuple[SiteCell, ...]
    terms: str = ""
    """What a search finds it by, besides what it shows."""


def text_cell(text: object, note: str = "") -> SiteCell:
    """A cell of text, with a smaller note under it.

    Example:
        >>> text_cell("a<b", "c").html
        'a&lt;b<span class="note under">c</span>'
    """
    under = f'<span class="note under">{escape(one_line(note))}</span>' if note else ""
    return SiteCell((escape(one_line(str(text))) or "-") + under)


def number_cell(value: float | None, spec: str = ",.0f", *, shade: float | None = None) -> SiteCell:
    """A cell of a number; a dash where there is none.

    Example:
        >>> number_cell(5184).html, number_cell(None).html
        ('5,184', '-')
    """
    return SiteCell("-") if value is None else SiteCell(format(value, spec), value, shade)


def filter_table(label: str, titles: Sequence[str], rows: Sequence[SiteRow], *, numeric: range) -> str:
    """A table that can be searched, sorted and scrolled sideways, with the keyboard too.

    Args:
        label: What it shows, for those who cannot see it.
        titles: Of the columns.
        rows: As many cells as titles each.
        numeric: The columns of numbers.
    """
    head = "".join(
        f'<th scope="col"{_align(column, numeric)}>{escape(one_line(title))}</th>'
        for column, title in enumerate(titles)
    )
    body = "\n".join(_row_html(row, numeric) for row in rows)
    name = escape(label)
    return (
        f'<div class="scroll" role="region" aria-label="{name}" tabindex="0"><table class="sort">\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def _row_html(row: SiteRow, numeric: range) -> str:
    cells = "".join(_cell_html(cell, column, numeric) for column, cell in enumerate(row.cells))
    return f'<tr data-terms="{escape(one_line(row.terms))}">{cells}</tr>'


def _cell_html(cell: SiteCell, column: int, numeric: range) -> str:
    value = "" if cell.value is None else f' data-value="{cell.value!r}"'
    style = ""
    if cell.shade is not None:
        style = f' style="--shade: {MOST_SHADE * min(max(cell.shade, 0.0), 1.0):.0f}%"'
    if column == 0:
        return f'<th scope="row"{value}>{cell.html}</th>'
    return f"<td{_align(column, numeric)}{value}{style}>{cell.html}</td>"


def _align(column: int, numeric: range) -> str:
    return ' class="right"' if column in numeric else ""


def models_table(site: Site) -> str:
    """One row per model, and one for each device that has none: figures, size and how to fetch it."""
    known = {device["device_id"]: device for device in site.devices}
    rows = [_model_row(model, place, known) for place, model in enumerate(site.models)]
    have = {name for model in site.models for name in model.devices}
    rows += [_bare_row(device) for device in site.devices if device["device_id"] not in have]
    titles = ("device", "kind", "model", *METRICS, "size (MB)", "fetch it")
    return filter_table("models by device", titles, rows, numeric=range(3, 7))


def _model_row(model: SiteModel, place: int, known: Mapping[str, Mapping[str, Any]]) -> SiteRow:
    device = known.get(model.device_id, {})
    shown = escape(model.arch)
    named = shown if model.card is None else f'<a href="#card-{place}">{shown}</a>'
    figures = (number_cell(model.figures.get(metric), ".3f") for metric in METRICS)
    cells = (
        text_cell(model.device_id, family(device)),
        text_cell(device.get("kind") or "-"),
        SiteCell(named),
        *figures,
        number_cell(model.bytes / 1e6, ",.1f"),
        _command(f"costhub pull {shlex.quote(model.name)}"),
    )
    return SiteRow(cells, _terms(device))


def _bare_row(device: Mapping[str, Any]) -> SiteRow:
    nothing = [SiteCell("-")] * (len(METRICS) + 2)
    first = text_cell(device["device_id"], family(device))
    return SiteRow(
        (first, text_cell(device.get("kind") or "-"), SiteCell("no model yet"), *nothing),
        _terms(device),
    )


def _command(text: str) -> SiteCell:
    shown = escape(text)
    return SiteCell(
        f'<code>{shown}</code> <button type="button" class="copy" data-copy="{shown}" '
        f'aria-label="Copy {shown}" hidden>copy</button>'
    )


def family(device: Mapping[str, Any]) -> str:
    """What kind of chip a device has, and what else it is called.

    Example:
        >>> family({"vendor": "AMD", "microarchitecture": "zen5", "aliases": ["turin"]})
        'AMD zen5; turin'
    """
    chip = " ".join(str(device[key]) for key in ("vendor", "microarchitecture") if device.get(key))
    return "; ".join(part for part in (chip, ", ".join(map(str, device.get("aliases") or ()))) if part)


def _terms(device: Mapping[str, Any]) -> str:
    return " ".join(filter(None, (family(device), str(device.get("model_name") or ""))))


def devices_table(site: Site) -> str:
    """One row per device: what it is, and what the probe measured of it."""
    models = Counter(name for model in site.models for name in model.devices)
    measured: Counter[str] = Counter()
    for dataset in site.datasets:
        measured.update(dataset.rows)
    titles = (
        *("device", "product", "cores", "SIMD (bits)", "peak (GFLOP/s)", "memory (GB/s)"),
        *("models", "measurements"),
    )
    rows = []
    for device in site.devices:
        name = device["device_id"]
        facts = [as_number(device.get(key)) for key in ("cores", "simd_bits", "peak_gflops", "dram_gbs")]
        counts = [float(counter[name]) for counter in (models, measured)]
        cells = [number_cell(value) for value in (*facts, *counts)]
        product = text_cell(device.get("model_name") or "-")
        rows.append(SiteRow((text_cell(name, family(device)), product, *cells)))
    return filter_table("devices", titles, rows, numeric=range(2, len(titles)))


def datasets_table(datasets: Sequence[SiteDataset], first_card: int) -> str:
    """One row per dataset.

    Args:
        datasets: What there is.
        first_card: Number of the first one's card.
    """
    titles = ("dataset", "licence", "TVM", "devices", "measurements", "with a latency", "workloads")
    rows = []
    for place, dataset in enumerate(datasets, start=first_card):
        name = escape(dataset.name)
        named = name if dataset.card is None else f'<a href="#card-{place}">{name}</a>'
        counts = (len(dataset.rows), sum(dataset.rows.values()), dataset.ok, dataset.workloads)
        texts = (
            ", ".join(licence or "none" for licence in dataset.licences),
            ", ".join(dataset.tvm_versions),
        )
        cells = (SiteCell(named), *map(text_cell, texts), *map(number_cell, counts))
        rows.append(SiteRow(cells, " ".join(dataset.rows)))
    return filter_table("datasets", titles, rows, numeric=range(3, len(titles)))


def coverage_table(datasets: Sequence[SiteDataset]) -> str:
    """Devices by operator classes: workloads and measurements, with more colour where more was measured."""
    cells = [(dataset.name, cell) for dataset in datasets for cell in dataset.coverage]
    sizes: Counter[str] = Counter()
    for _, cell in cells:
        sizes[cell.operator] += cell.measured
    operators = sorted(sizes, key=lambda operator: (-sizes[operator], operator))
    found = {(name, cell.device_id, cell.operator): cell for name, cell in cells}
    most = max((cell.measured for _, cell in cells), default=1)
    rows = []
    for name, device_id in sorted({(name, cell.device_id) for name, cell in cells}, key=lambda key: key[::-1]):
        line = [text_cell(device_id, name)]
        line += [_covered(found.get((name, device_id, operator)), most) for operator in operators]
        rows.append(SiteRow(tuple(line)))
    titles = ("device", *operators)
    label = "measurements by device and operator class"
    return filter_table(label, titles, rows, numeric=range(1, len(titles)))


def _covered(cell: Covered | None, most: int) -> SiteCell:
    if cell is None:
        return SiteCell("-")
    note = f'<span class="note under">{counted(cell.workloads, "workload")}</span>'
    return SiteCell(f"{cell.measured:,}{note}", cell.measured, (cell.measured / most) ** 0.5)


def operators_table(models: Sequence[SiteModel]) -> str:
    """Models by operator classes: top_1, with more colour where it is better."""
    judged = [model for model in models if model.operators]
    operators = sorted({operator for model in judged for operator in model.operators})
    values = [value for model in judged for value in model.operators.values()]
    low, high = min(values, default=0.0), max(values, default=1.0)
    rows = []
    for model in judged:
        cells = []
        for operator in operators:
            value = model.operators.get(operator)
            shade = None if value is None else (value - low) / ((high - low) or 1.0)
            cells.append(number_cell(value, ".3f", shade=shade))
        rows.append(SiteRow((text_cell(model.device_id, model.arch), *cells), model.name))
    titles = ("model", *operators)
    return filter_table("top_1 by model and operator class", titles, rows, numeric=range(1, len(titles)))
