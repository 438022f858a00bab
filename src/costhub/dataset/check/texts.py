"""Provides the rules on columns of text: their size, and characters that a terminal would obey."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.check.rows import Rows
from costhub.dataset.check.rule import Mask, RowRule, TableRule
from costhub.dataset.schema import columns_of

MOST_BYTES = {"trace": 1 << 20, "target": 16 << 10, "error": 16 << 10}
"""The longest trace at hand has 4 kB, the longest error text that the collector keeps 1 kB."""
MOST_NAME_BYTES = 256
MOST_REPEATS = 10_000
MOST_ENTRY_BYTES = {"module_json": 32 << 20, "shapes": 64 << 10, "target": 16 << 10, "probe_method": 16 << 10}
MOST_ITEMS = 10_000
TEXT_COLUMNS = tuple(c.name for c in columns_of("measurements") if c.type == pa.string())
# Tab and newline are fine in an error text; the escape character is what terminals obey.
_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
_ANY_CONTROL = r"[\x00-\x1f\x7f]"


def oversized_texts(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds values far beyond what the column is for."""
    for name in TEXT_COLUMNS:
        most = MOST_BYTES.get(name, MOST_NAME_BYTES)
        size = pc.binary_length(rows.column(name))
        yield f"{name} is longer than {most:,} bytes.", rows.where(pc.greater(size, most))
    yield f"run_s has more than {MOST_REPEATS:,} repeats.", rows.repeats > MOST_REPEATS


def control_characters(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds characters that no name has and that a terminal may obey."""
    for name in TEXT_COLUMNS:
        pattern = _CONTROL if name == "error" else _ANY_CONTROL
        found = rows.where(pc.match_substring_regex(rows.column(name), pattern))
        yield f"{name} holds control characters.", found


def empty_names(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds ids without a letter."""
    empty = np.zeros(rows.n, bool)
    for name in ("record_id", "program_id", "proposed_by"):
        empty |= rows.where(pc.equal(pc.binary_length(rows.column(name)), 0))
    yield "record_id, program_id or proposed_by is empty.", empty


def oversized_entries(row: dict[str, Any]) -> Iterator[str]:
    """Finds values of devices and workloads that are far longer than what the column is for."""
    for name, value in row.items():
        most = MOST_ENTRY_BYTES.get(name, MOST_NAME_BYTES)
        for text in value if isinstance(value, list) else [value]:
            plain = text.get("name") if isinstance(text, dict) else text
            if isinstance(plain, str) and len(plain) > most:
                yield f"{name} is longer than {most:,} characters."
        if isinstance(value, list) and len(value) > MOST_ITEMS:
            yield f"{name} has more than {MOST_ITEMS:,} entries."


RULES = (
    RowRule(
        id="CH045",
        title="no text is far longer than its column is for",
        severity="error",
        fix="Cut error texts to their end; shorten names; drop rows whose trace is that long.",
        find=oversized_texts,
    ),
    RowRule(
        id="CH046",
        title="texts hold no control characters",
        severity="warning",
        fix="Remove colours and other escape sequences from the text.",
        find=control_characters,
    ),
    RowRule(
        id="CH047",
        title="names are not empty",
        severity="error",
        fix="Give every row its ids, and say who proposed it ('unknown' where that is so).",
        find=empty_names,
    ),
    TableRule(
        id="CH052",
        title="no text of a device or workload is far longer than its column is for",
        severity="error",
        fix="Shorten it.",
        tables=("devices", "workloads"),
        find=oversized_entries,
    ),
)
