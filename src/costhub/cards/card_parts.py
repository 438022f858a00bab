"""Provides parts shared by model cards and dataset cards: licences, facts of a device, citations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from costhub.cards.tables import TableColumn, markdown_table, one_line
from costhub.dataset.schema import HUB_LICENCES

DEVICE_FACTS = {
    "device_id": "device",
    "model_name": "product",
    "vendor": "vendor",
    "microarchitecture": "microarchitecture",
    "kind": "kind",
    "cores": "cores",
    "simd_bits": "SIMD width (bits)",
    "l1d_bytes": "L1 data cache per core (KiB)",
    "l2_bytes": "L2 cache (KiB)",
    "l3_bytes": "L3 cache (KiB)",
    "memory_bytes": "memory (GiB)",
    "driver": "driver",
    "isa_features": "instruction sets",
    "peak_gflops": "measured peak (GFLOP/s)",
    "dram_gbs": "measured memory bandwidth (GB/s)",
    "launch_overhead_us": "measured launch overhead (µs)",
}
"""Column of the `devices` table -> its title on a card, with the unit."""
SOURCE = "probe_method"
"""Column with the origin of figures; shown on a card only if they were not measured."""
_NOT_MEASURED = {
    "peak_gflops": "theoretical peak (GFLOP/s)",
    "dram_gbs": "theoretical memory bandwidth (GB/s)",
    "launch_overhead_us": "launch overhead (µs)",
    SOURCE: "where these figures are from",
}
"""Titles of figures that no probe measured."""
_COLUMNS = (TableColumn("fact", ""), TableColumn("value", ""))


def licence_entry(licences: Sequence[str]) -> dict[str, Any]:
    """The licence in the block of a card, in the form that the Hugging Face hub reads.

    Example:
        >>> licence_entry(["Apache-2.0"]), licence_entry(["WTFPL", "MIT"])
        ({'license': 'apache-2.0'}, {'license': 'other', 'license_name': 'mit-and-wtfpl'})
    """
    names = sorted({licence.strip().lower() for licence in licences})
    if all(name in HUB_LICENCES for name in names):
        return {"license": names[0] if len(names) == 1 else names}
    return {"license": "other", "license_name": "-and-".join(names)}


def facts_table(facts: Mapping[str, str]) -> str:
    """A table of facts by title; empty if there are none."""
    return markdown_table([{"fact": k, "value": v} for k, v in facts.items()], _COLUMNS) if facts else ""


def kept_facts(row: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a `devices` row kept on a card; the origin of the figures only if they were not measured.

    Example:
        >>> kept_facts({"peak_gflops": 19500.0, "probe_method": "A data sheet.", "probed_at": None, "aliases": ["a"]})
        {'peak_gflops': 19500.0, 'probe_method': 'A data sheet.'}
        >>> kept_facts({"peak_gflops": 256.2, "probe_method": "Kernels.", "probed_at": "2026-11-20T15:28:50+00:00"})
        {'peak_gflops': 256.2}
        >>> kept_facts({"peak_gflops": 19500.0})
        {'peak_gflops': 19500.0, 'probe_method': 'not recorded'}
    """
    is_theoretical = not row.get("probed_at") and any(
        row.get(key) is not None for key in _NOT_MEASURED if key != SOURCE
    )
    if is_theoretical:
        row = {**row, SOURCE: row.get(SOURCE) or "not recorded"}
    kept = {*DEVICE_FACTS, *([SOURCE] if is_theoretical else [])}
    return {key: value for key, value in row.items() if key in kept and value not in (None, [], "")}


def device_facts(row: Mapping[str, Any], *, grouped: bool = True) -> dict[str, str]:
    """The known facts of a device, by title.

    Args:
        row: The result of `kept_facts` for a row of the `devices` table.
        grouped: Write figures from 1,000 on in full; cards before version 4 show 1.95e+04.

    Example:
        >>> device_facts({"cores": 4, "l2_bytes": 2097152, "peak_gflops": None})
        {'cores': '4', 'L2 cache (KiB)': '2,048'}
        >>> device_facts({"peak_gflops": 19500.0, "probe_method": "A data sheet."})
        {'theoretical peak (GFLOP/s)': '19,500', 'where these figures are from': 'A data sheet.'}
    """
    titles = {**DEVICE_FACTS, **(_NOT_MEASURED if row.get(SOURCE) else {})}
    return {title: _value(key, row[key], grouped) for key, title in titles.items() if row.get(key) is not None}


def _value(key: str, value: Any, grouped: bool) -> str:
    """A fact in the unit that `DEVICE_FACTS` gives it."""
    if key in ("l1d_bytes", "l2_bytes", "l3_bytes"):
        return f"{value / 2**10:,.0f}"
    if key == "memory_bytes":
        return f"{value / 2**30:.1f}"
    if isinstance(value, float):
        return f"{value:,.0f}" if grouped and abs(value) >= 1_000 else f"{value:.4g}"
    return ", ".join(value) if isinstance(value, list | tuple) else str(value)


def bibtex_entry(key: str, *, title: str, author: str = "", year: str, note: str = "") -> str:
    """A BibTeX entry for citing the subject of a card.

    Args:
        key: Key of the entry, after `costhub_`.
        title: Title of the cited work.
        author: Names joined by `and`; omitted if empty.
        year: Year; omitted unless it is a number.
        note: Note; omitted if empty.
    """
    lines = [
        f"@misc{{costhub_{key},",
        f"  title = {{{title}}},",
        *([f"  author = {{{author}}},"] if author else []),
        *([f"  year = {{{year}}},"] if year.isdigit() else []),
        *([f"  note = {{{note}}},"] if note else []),
        "}",
    ]
    return "\n".join(lines)


def fenced(entry: str) -> str:
    """An entry of BibTeX as a block of Markdown."""
    return f"```bibtex\n{entry}\n```"


def inline(text: str) -> str:
    """Makes an external text safe: it cannot begin a new line, heading or fence."""
    line = one_line(text).replace("`", "'")
    return f"\\{line}" if line.startswith("#") else line
