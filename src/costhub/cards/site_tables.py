"""Provides the tables of a hub's page: models by device, devices, datasets, and what they cover."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from costhub.cards.site_facts import METRICS, Site, SiteDataset, SiteModel, as_number
from costhub.cards.site_table import Cell, Row, filter_table, number_cell, text_cell
from costhub.cards.tables import counted
from costhub.dataset.stats.coverage import Cell as Covered


def models_table(site: Site) -> str:
    """One row per model, and one for each device that has none: figures, size and how to fetch it."""
    known = {device["device_id"]: device for device in site.devices}
    rows = [_model_row(model, place, known) for place, model in enumerate(site.models)]
    have = {name for model in site.models for name in model.devices}
    rows += [_bare_row(device) for device in site.devices if device["device_id"] not in have]
    titles = ("device", "kind", "model", *METRICS, "size (MB)", "fetch it")
    return filter_table("models by device", titles, rows, numeric=range(3, 7))


def _model_row(model: SiteModel, place: int, known: Mapping[str, Mapping[str, Any]]) -> Row:
    device = known.get(model.device_id, {})
    shown = escape(model.arch)
    named = shown if model.card is None else f'<a href="#card-{place}">{shown}</a>'
    figures = (number_cell(model.figures.get(metric), ".3f") for metric in METRICS)
    cells = (
        text_cell(model.device_id, family(device)),
        text_cell(device.get("kind") or "-"),
        Cell(named),
        *figures,
        number_cell(model.bytes / 1e6, ",.1f"),
        _command(f"costhub pull {shlex.quote(model.name)}"),
    )
    return Row(cells, _terms(device))


def _bare_row(device: Mapping[str, Any]) -> Row:
    nothing = [Cell("-")] * (len(METRICS) + 2)
    first = text_cell(device["device_id"], family(device))
    return Row(
        (first, text_cell(device.get("kind") or "-"), Cell("no model yet"), *nothing),
        _terms(device),
    )


def _command(text: str) -> Cell:
    shown = escape(text)
    return Cell(
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
        rows.append(Row((text_cell(name, family(device)), product, *cells)))
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
        cells = (Cell(named), *map(text_cell, texts), *map(number_cell, counts))
        rows.append(Row(cells, " ".join(dataset.rows)))
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
    for name, device_id in sorted(
        {(name, cell.device_id) for name, cell in cells}, key=lambda key: key[::-1]
    ):
        line = [text_cell(device_id, name)]
        line += [_covered(found.get((name, device_id, operator)), most) for operator in operators]
        rows.append(Row(tuple(line)))
    titles = ("device", *operators)
    label = "measurements by device and operator class"
    return filter_table(label, titles, rows, numeric=range(1, len(titles)))


def _covered(cell: Covered | None, most: int) -> Cell:
    if cell is None:
        return Cell("-")
    note = f'<span class="note under">{counted(cell.workloads, "workload")}</span>'
    return Cell(f"{cell.measured:,}{note}", cell.measured, (cell.measured / most) ** 0.5)


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
        rows.append(Row((text_cell(model.device_id, model.arch), *cells), model.name))
    titles = ("model", *operators)
    return filter_table("top_1 by model and operator class", titles, rows, numeric=range(1, len(titles)))
