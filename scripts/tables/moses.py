"""The table of Moses as published: searches, what each form gains over fine-tuning, and its CMAT."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from costhub.cards.tables import TableColumn, markdown_table, number
from costhub.papers.moses import CoefficientOfVariation
from costhub.search.scheduler import TrialBatch

BASE = "fine-tune"
CONTROLLED = ", controller"
SHARES = (0.5, 0.75)
"""Of the trials: what a search without a controller would give at as many."""
Row = dict[str, Any]
COLUMNS = (
    TableColumn("method", "method"),
    number("searches", "searches", "d"),
    number("trials", "trials measured", ".0%"),
    number("latency_gain", "latency gain", ".3f"),
    number("latency_gain_se", "se", ".3f"),
    number("learning_s", "learning (s)", ".1f"),
    number("time_gain", "search-time gain", ".3f"),
    number("cmat", "CMAT (%)", "+.1f"),
    number("cmat_se", "se", ".1f"),
    number("of_best", "best found / best of the pool", ".3f"),
)


def summaries(rows: Sequence[Row], trial_s: float) -> dict[str, Any]:
    """For each pair of devices, a row for each method and for each with the controller.

    Args:
        rows: The searches.
        trial_s: Seconds to build and run a program.
    """
    pairs: list[Row] = []
    for source, target in dict.fromkeys((row["source"], row["target"]) for row in rows):
        own = [row for row in rows if (row["source"], row["target"]) == (source, target)]
        names = list(dict.fromkeys(row["method"] for row in own))
        ends = {name: _ends(own, name, trial_s) for name in names}
        ends |= {name + CONTROLLED: _ends(own, name, trial_s, _controlled) for name in names if name != "frozen"}
        ends |= {f"{BASE}, {share:.0%} of the trials": _ends(own, BASE, trial_s, _fixed(share)) for share in SHARES}
        pairs.append({"source": source, "target": target, "rows": [_line(name, ends) for name in ends]})
    return {"pairs": pairs}


End = Callable[[Sequence[TrialBatch]], int]
"""How many of the batches of a search are measured."""


def _controlled(batches: Sequence[TrialBatch]) -> int:
    rule = CoefficientOfVariation(sum(batch.n for batch in batches))
    return next((n for n in range(1, len(batches)) if not rule.should_continue(batches[:n])), len(batches))


def _fixed(share: float) -> End:
    return lambda batches: math.ceil(share * len(batches))


def _ends(rows: Sequence[Row], method: str, trial_s: float, end: End = len) -> dict[tuple[int, str], Row]:
    """Seed and workload -> where the search ended."""
    return {(row["seed"], row["workload"]): _end(row, trial_s, end) for row in rows if row["method"] == method}


def _end(row: Row, trial_s: float, end: End) -> Row:
    batches = [
        TrialBatch(np.array(latency_s), np.array(scores), waiting=0.0)
        for latency_s, scores in zip(row["latency_s"], row["scores"], strict=True)
    ]
    trials, count = sum(batch.n for batch in batches), end(batches)
    spent = sum(batch.n for batch in batches[:count])
    learning_s = sum(row["learning_s"][:count])
    return {
        "best_s": min(float(batch.latency_s.min()) for batch in batches[:count]),
        "pool_best_s": row["pool_best_s"],
        "share": spent / trials,
        "learning_s": learning_s,
        "seconds": spent * trial_s + learning_s,
    }


def _line(name: str, ends: Mapping[str, Mapping[tuple[int, str], Row]]) -> Row:
    """Gains over fine-tuning without a controller, as geometric means over the searches that both made."""
    base, own = ends[BASE], ends[name]
    both = sorted(base.keys() & own.keys())
    latency = [math.log(base[key]["best_s"] / own[key]["best_s"]) for key in both]
    seconds = [math.log(base[key]["seconds"] / own[key]["seconds"]) for key in both]
    together = [a + b for a, b in zip(latency, seconds, strict=True)]
    mean = math.exp(statistics.fmean(together))
    return {
        "method": name,
        "searches": len(both),
        "trials": statistics.fmean(own[key]["share"] for key in both),
        "latency_gain": math.exp(statistics.fmean(latency)),
        "latency_gain_se": _error(latency),
        "learning_s": statistics.fmean(own[key]["learning_s"] for key in both),
        "time_gain": math.exp(statistics.fmean(seconds)),
        "cmat": 100 * (mean - 1),
        "cmat_se": 100 * mean * _error(together),
        "of_best": math.exp(statistics.fmean(math.log(own[k]["pool_best_s"] / own[k]["best_s"]) for k in both)),
    }


def _error(values: Sequence[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def moses_table(result: Mapping[str, Any]) -> str:
    """A table for each pair of devices."""
    return "\n\n".join(
        f"**{pair['source']} to {pair['target']}**\n\n{markdown_table(pair['rows'], COLUMNS)}"
        for pair in result["pairs"]
    )
