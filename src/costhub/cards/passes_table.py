"""Tabulates how far two passes of measuring the same programs are apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costhub.cards.tables import Column, markdown_table, number


def passes_table(result: Mapping[str, Any]) -> str:
    """One line per pair of passes.

    Args:
        result: `rows` with the two `passes`, the `programs` in both, the `shift` of all of them, and how far
            single ones are from it: `median`, `p90` (of nine in ten at most) and `worst`, as shares.
    """
    columns = [
        Column("passes", "passes"),
        number("programs", "programs in both", "d"),
        number("shift", "all together", "+.1%"),
        number("median", "single ones, median", ".1%"),
        number("p90", "nine in ten within", ".1%"),
        number("worst", "worst", ".1%"),
    ]
    return markdown_table(result["rows"], columns)
