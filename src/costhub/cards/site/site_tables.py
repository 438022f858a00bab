"""Provides the tables of a hub's page, with searchable rows and sortable columns."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from costhub.cards.html import render_part
from costhub.cards.site.facts import (
    BASELINE,
    CEILING,
    METRICS,
    MODEL,
    Entry,
    Leaderboard,
    ReplayBoard,
    ReplayEntry,
    ReplayTrack,
    Site,
    SiteDataset,
    SiteModel,
    Track,
)
from costhub.dataset.stats.folder_stats import CoverageCell
from costhub.files import as_number

if TYPE_CHECKING:
    from markupsafe import Markup

MOST_SHADE = 45
"""Percentage of colour in the darkest cell; text on it keeps a contrast above 4.5 in either theme."""


@dataclass(frozen=True)
class SiteCell:
    """A cell of a table; the template escapes its texts."""

    text: str = "-"
    note: str = ""
    """Smaller text below the main one."""
    link: str = ""
    """Link target of the text."""
    command: str = ""
    """Shown in place of the text, with a button that copies it."""
    value: float | None = None
    """Sort key of a number."""
    shade: float | None = None
    """0 to 1: how much colour is behind it."""
    part: float | None = None
    """0 to 1: how much of the cell a bar behind it fills."""
    is_best: bool = False
    """Whether it is the best of its column, shown in bold."""

    @property
    def percent(self) -> int:
        """The shade in the form used by the style sheet."""
        return round(MOST_SHADE * min(max(self.shade or 0.0, 0.0), 1.0))


@dataclass(frozen=True)
class SiteRow:
    """A line of a table; its first cell names its subject."""

    cells: tuple[SiteCell, ...]
    terms: str = ""
    """Additional search terms, besides the displayed text."""
    is_muted: bool = False
    """Whether it is a baseline for comparison."""


def number_cell(value: float | None, spec: str = ",.0f", *, shade: float | None = None) -> SiteCell:
    """A cell with a number; a dash if there is none.

    Example:
        >>> number_cell(5184).text, number_cell(None).text
        ('5,184', '-')
    """
    return SiteCell() if value is None else SiteCell(format(value, spec), value=value, shade=shade)


def filter_table(label: str, titles: Sequence[str], rows: Sequence[SiteRow], *, numeric: Collection[int]) -> Markup:
    """A table that can be searched, sorted and scrolled sideways, also with the keyboard.

    Args:
        label: Description of the table, for those who cannot see it.
        titles: Titles of the columns.
        rows: Rows with as many cells as titles.
        numeric: The columns of numbers.
    """
    return render_part("filter_table", label, titles, rows, numeric)


def models_table(site: Site) -> Markup:
    """One row per model, and one per device without a model: figures, size and how to fetch it."""
    known = {device["device_id"]: device for device in site.devices}
    rows = [_model_row(model, place, known) for place, model in enumerate(site.models)]
    have = {name for model in site.models for name in model.devices}
    rows += [_bare_row(device) for device in site.devices if device["device_id"] not in have]
    titles = ("device", "kind", "model", *METRICS, "size (MB)", "fetch it")
    return filter_table("models by device", titles, rows, numeric=range(3, 7))


def _model_row(model: SiteModel, place: int, known: Mapping[str, Mapping[str, Any]]) -> SiteRow:
    device = known.get(model.device_id, {})
    figures = (number_cell(model.figures.get(metric), ".3f") for metric in METRICS)
    cells = (
        SiteCell(model.device_id, chip(device)),
        SiteCell(_text(device, "kind")),
        SiteCell(model.arch, link=_card_link(model, place)),
        *figures,
        number_cell(model.bytes / 1e6, ",.1f"),
        SiteCell(command=f"costhub pull {shlex.quote(model.name)}"),
    )
    return SiteRow(cells, _terms(device))


def _bare_row(device: Mapping[str, Any]) -> SiteRow:
    nothing = [SiteCell()] * (len(METRICS) + 2)
    first = SiteCell(device["device_id"], family(device))
    return SiteRow(
        (first, SiteCell(_text(device, "kind")), SiteCell("no model yet"), *nothing),
        _terms(device),
    )


def _card_link(item: SiteModel | SiteDataset, place: int) -> str:
    return "" if item.card is None else f"#card-{place}"


def _text(device: Mapping[str, Any], key: str) -> str:
    """A fact of a device as text; untrusted files may contain anything."""
    return str(device.get(key) or "-")


def family(device: Mapping[str, Any]) -> str:
    """What kind of chip a device has, and its other names.

    Example:
        >>> family({"vendor": "AMD", "microarchitecture": "zen5", "aliases": ["turin"]})
        'AMD zen5; turin'
    """
    return "; ".join(part for part in (chip(device), ", ".join(map(str, device.get("aliases") or ()))) if part)


def chip(device: Mapping[str, Any]) -> str:
    """What kind of chip a device has."""
    return " ".join(str(device[key]) for key in ("vendor", "microarchitecture") if device.get(key))


def _terms(device: Mapping[str, Any]) -> str:
    return " ".join(filter(None, (family(device), str(device.get("model_name") or ""))))


def devices_table(site: Site) -> Markup:
    """One row per device: its description, and the results of the probe."""
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
        product = SiteCell(_text(device, "model_name"))
        rows.append(SiteRow((SiteCell(name, family(device)), product, *cells)))
    return filter_table("devices", titles, rows, numeric=range(2, len(titles)))


def datasets_table(datasets: Sequence[SiteDataset], first_card: int) -> Markup:
    """One row per dataset.

    Args:
        datasets: The datasets.
        first_card: Card number of the first dataset.
    """
    titles = ("dataset", "licence", "TVM", "devices", "measurements", "with a latency", "workloads")
    rows = []
    for place, dataset in enumerate(datasets, start=first_card):
        counts = (len(dataset.rows), sum(dataset.rows.values()), dataset.ok, dataset.workloads)
        texts = (
            ", ".join(licence or "none" for licence in dataset.licences),
            ", ".join(dataset.tvm_versions),
        )
        cells = (
            SiteCell(dataset.name, link=_card_link(dataset, place)),
            *map(SiteCell, texts),
            *map(number_cell, counts),
        )
        rows.append(SiteRow(cells, " ".join(dataset.rows)))
    return filter_table("datasets", titles, rows, numeric=range(3, len(titles)))


def coverage_table(datasets: Sequence[SiteDataset]) -> Markup:
    """Devices by operator classes: workloads and measurements, with more colour for more measurements."""
    cells = [(dataset.name, cell) for dataset in datasets for cell in dataset.coverage]
    sizes: Counter[str] = Counter()
    for _, cell in cells:
        sizes[cell.operator] += cell.measured
    operators = sorted(sizes, key=lambda operator: (-sizes[operator], operator))
    found = {(name, cell.device_id, cell.operator): cell for name, cell in cells}
    most = max((cell.measured for _, cell in cells), default=1)
    rows = []
    for name, device_id in sorted({(name, cell.device_id) for name, cell in cells}, key=lambda key: key[::-1]):
        line = [SiteCell(device_id, name)]
        line += [_covered(found.get((name, device_id, operator)), most) for operator in operators]
        rows.append(SiteRow(tuple(line)))
    titles = ("device", *operators)
    label = "measurements by device and operator class"
    return filter_table(label, titles, rows, numeric=range(1, len(titles)))


def _covered(cell: CoverageCell | None, most: int) -> SiteCell:
    if cell is None:
        return SiteCell()
    shade = (cell.measured / most) ** 0.5
    return SiteCell(f"{cell.measured:,}", f"{cell.workloads:,}", value=cell.measured, shade=shade)


def operators_table(models: Sequence[SiteModel]) -> Markup:
    """Models by operator classes: top_1, with more colour for better values."""
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
        rows.append(SiteRow((SiteCell(model.device_id, model.arch), *cells), model.name))
    titles = ("model", *operators)
    return filter_table("top_1 by model and operator class", titles, rows, numeric=range(1, len(titles)))


def leaderboard_tables(board: Leaderboard) -> list[Markup]:
    """A table for each track, the highest top_1 first; the best of each column, except the ceiling, is bold."""
    return [_leaderboard_table(track) for track in board.tracks]


def _leaderboard_table(track: Track) -> Markup:
    judged = [entry for entry in track.entries if entry.kind != CEILING]
    best = {metric: max((entry.figures.get(metric, 0.0) for entry in judged), default=0.0) for metric in METRICS}
    ordered = sorted(track.entries, key=lambda entry: -entry.figures.get("top_1", -1.0))
    rows = [_entry_row(entry, best, track) for entry in ordered]
    titles = ("model", *METRICS, "features", "seeds")
    return filter_table(f"{track.title} of the leaderboard", titles, rows, numeric=(1, 2, 3, 5))


def _entry_row(entry: Entry, best: Mapping[str, float], track: Track) -> SiteRow:
    cells: Sequence[SiteCell] = (
        SiteCell(f"{entry.name} (baseline)" if entry.kind == BASELINE else entry.name),
        *(_figure_cell(entry, metric, best[metric], is_bar=metric == METRICS[0]) for metric in METRICS),
        SiteCell(entry.features),
        SiteCell(str(entry.seeds), value=entry.seeds),
    )
    return SiteRow(tuple(cells), f"{track.title} {track.device_id} {track.split}", is_muted=entry.kind != MODEL)


def _figure_cell(entry: Entry, metric: str, best: float, *, is_bar: bool) -> SiteCell:
    value = entry.figures.get(metric)
    if value is None:
        return SiteCell()
    error = entry.errors.get(metric)
    return SiteCell(
        f"{value:.3f}" + ("" if error is None else f" ± {error:.3f}"),
        value=value,
        part=value if is_bar else None,
        is_best=entry.kind != CEILING and f"{value:.3f}" == f"{best:.3f}",
    )


def replay_tables(board: ReplayBoard) -> list[Markup]:
    """A table for each device, the highest score first; the best of each column is bold."""
    return [_replay_table(track) for track in board.tracks]


def _replay_table(track: ReplayTrack) -> Markup:
    best = max((entry.score for entry in track.entries), default=0.0)
    fewest = min((entry.near for entry in track.entries), default=0.0)
    ordered = sorted(track.entries, key=lambda entry: -entry.score)
    rows = [_replay_row(entry, track.device_id, best, fewest) for entry in ordered]
    titles = ("strategy", "model", "score", "trials to within 5 %", "seeds")
    return filter_table(f"replayed searches on {track.device_id}", titles, rows, numeric=range(2, 5))


def _replay_row(entry: ReplayEntry, device_id: str, best: float, fewest: float) -> SiteRow:
    is_baseline = entry.kind == BASELINE
    score = f"{entry.score:.2f}" + ("" if entry.error is None else f" ± {entry.error:.2f}")
    cells = (
        SiteCell(f"{entry.strategy} (baseline)" if is_baseline else entry.strategy, entry.source),
        SiteCell(", ".join(filter(None, (entry.model, entry.method))), entry.model_name),
        # A score below 0 has no bar.
        SiteCell(score, value=entry.score, part=max(entry.score, 0.0), is_best=f"{entry.score:.2f}" == f"{best:.2f}"),
        SiteCell(f"{entry.near:g}", value=entry.near, is_best=entry.near == fewest),
        SiteCell(str(entry.seeds), value=entry.seeds),
    )
    return SiteRow(cells, device_id, is_muted=is_baseline)


def origin_text(board: Leaderboard | ReplayBoard) -> str:
    """Where the figures come from, in one line.

    Example:
        >>> origin_text(Leaderboard(tracks=(), origin={"results": "docs/results/a.json", "date": "2026-11-23"}))
        'docs/results/a.json, 2026-11-23'
    """
    return ", ".join(board.origin.values())
