"""Provides what model cards and dataset cards share: licences, facts of a device, tables of facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costhub.cards.tables import TableColumn, markdown_table, one_line

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


FACT_COLUMNS = (TableColumn("fact", ""), TableColumn("value", ""))


def facts_table(facts: Mapping[str, str]) -> str:
    """A table of facts about a model or dataset; empty where there are none."""
    return markdown_table([{"fact": k, "value": v} for k, v in facts.items()], FACT_COLUMNS) if facts else ""


def device_value(key: str, value: Any) -> str:
    """A fact of a device in the unit that `DEVICE_FACTS` gives it."""
    if key in ("l1d_bytes", "l2_bytes", "l3_bytes"):
        return f"{value / 2**10:,.0f}"
    if key == "memory_bytes":
        return f"{value / 2**30:.1f}"
    if isinstance(value, float):
        return f"{value:.4g}"
    return ", ".join(value) if isinstance(value, list | tuple) else str(value)


def inline(text: str) -> str:
    """A text from elsewhere that must not begin a line, a heading or a fence of its own."""
    return one_line(text).replace("`", "'")


# Licences that the Hugging Face hub knows by name; any other one is announced as `other`.
HUB_LICENCES = frozenset({"apache-2.0", "mit", "bsd-3-clause", "cc-by-4.0", "cc-by-sa-4.0", "cc0-1.0", "odc-by"})
