"""Tabulates what parts of a transfer method are worth: pair by pair and seed by seed against a base."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from costhub.cards.gains import mean_with_error
from costhub.cards.tables import Column, markdown_table

METRIC = "pairwise"


def differences(rows: Iterable[Mapping[str, Any]], methods: Sequence[str], base: str) -> list[dict[str, Any]]:
    """How much more pairs each method puts in the right order than the base, for each number of trials.

    Args:
        rows: With `source`, `target`, `seed`, `method`, `part` (empty for whole models), `trials`, METRIC.
        methods: In the order wanted.
        base: The method that the others are compared with, on the same pair, seed and trials.

    Returns:
        `method`, `trials`, `mean`, its standard error `se` (None for a single one) and `count`.

    Example:
        >>> about = {"source": "a", "target": "b", "part": "", "trials": 32}
        >>> rows = [{**about, "seed": s, "method": m, "pairwise": p}
        ...         for s, m, p in ((0, "x", 0.5), (0, "y", 0.75), (1, "x", 0.5), (1, "y", 0.75))]
        >>> differences(rows, ["y"], "x")
        [{'method': 'y', 'trials': 32, 'mean': 0.25, 'se': 0.0, 'count': 2}]
    """
    found = {
        (row["method"], row["trials"], row["source"], row["target"], row["seed"]): float(row[METRIC])
        for row in rows
        if not row["part"]
    }
    gains: dict[tuple[str, int], list[float]] = {}
    for (method, trials, *place), value in found.items():
        reference = found.get((base, trials, *place))
        if method in methods and reference is not None:
            gains.setdefault((method, trials), []).append(value - reference)
    return [
        {
            "method": method,
            "trials": trials,
            **dict(zip(("mean", "se"), mean_with_error(own), strict=True)),
            "count": len(own),
        }
        for (method, trials), own in sorted(gains.items(), key=lambda e: (methods.index(e[0][0]), e[0][1]))
    ]


def ablations_table(result: Mapping[str, Any]) -> str:
    """One line per method, one column per number of trials; thousandths, with the standard error."""
    trials = sorted({line["trials"] for line in result["ablations"]})
    rows: dict[str, dict[str, Any]] = {}
    for line in result["ablations"]:
        row = rows.setdefault(line["method"], {"method": line["method"], "count": str(line["count"])})
        spread = "" if line["se"] is None else f" ± {1e3 * line['se']:.0f}"
        row[str(line["trials"])] = f"{1e3 * line['mean']:+.0f}{spread}"
    columns = [Column("method", "method"), Column("count", "pairs and seeds", align="right")]
    columns += [Column(str(count), f"{count:,} trials", align="right") for count in trials]
    said = f"Thousandths of {METRIC} more than by {result['base']}."
    return f"{markdown_table(list(rows.values()), columns)}\n\n{said}"
