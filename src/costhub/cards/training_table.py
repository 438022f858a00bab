"""Provides training_table: what training on more programs than memory holds takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costhub.cards.tables import Column, markdown_table, number

TRAINING_COLUMNS = (
    Column("stage", "stage"),
    number("programs", "programs", ",d"),
    number("passes", "trees or epochs", "d"),
    number("seconds", "seconds", ",.1f"),
    number("per_s", "programs x passes / s", ",.0f"),
    number("peak_gib", "peak (GiB)", ".2f"),
    number("top_1", "top-1"),
    number("pairwise", "pairwise"),
    Column("ended", "ended by"),
)
"""Of the rows that scripts/bench_training.py writes."""


def training_table(result: Mapping[str, Any]) -> str:
    """One line per stage."""
    shown = [c for c in TRAINING_COLUMNS if c.key != "ended" or any("ended" in row for row in result["rows"])]
    return markdown_table(result["rows"], shown)
