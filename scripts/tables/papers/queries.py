"""Tables of how many scores a strategy asks a model for before it has found its best."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from costhub.cards.tables import TableColumn, markdown_table, number
from scripts.tables.gains import mean_of_rows

SHARES = {"own_5": 0.05, "own_1": 0.01}
"""Name -> how near to its own best predicted throughput a search counts as converged."""
NEAR = 0.05
"""How near to the best predicted throughput that any search of the workload has found."""
BASE = "annealing"
"""The strategy that ReLeASE compares its agent with."""

Row = Mapping[str, Any]


def queries_summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One line for each strategy.

    Args:
        rows: One for each search, with `workload`, `strategy`, `seed`, `asked` (programs scored) and `course`: pairs of
            programs scored and best score so far, in log throughput.

    Returns:
        `own_5` and `own_1`, the mean queries until within 5 and 1 % of the search's own best, and `behind`, by how much
        the predicted throughput of its best is below that of the best search of the workload, all with standard errors
        over workloads; `near`, the share of searches within 5 % of the latter, and `near_queries`, the mean
        queries until there; `fewer`, the geometric mean over paired searches of the queries of BASE until within 1 %
        of its own best, over those of the strategy.
    """
    best = {w: max(row["course"][-1][1] for row in rows if row["workload"] == w) for w in {r["workload"] for r in rows}}
    bases = {(row["workload"], row["seed"]): row for row in rows if row["strategy"] == BASE}
    table = []
    for strategy in dict.fromkeys(row["strategy"] for row in rows):
        own = [row for row in rows if row["strategy"] == strategy]
        line: dict[str, Any] = {"strategy": strategy, "searches": len(own)}
        line["asked"] = statistics.fmean(row["asked"] for row in own)
        for name, share in SHARES.items():
            line |= mean_of_rows(name, own, [_until(row, row["course"][-1][1], share) or 0 for row in own])
        behind = [1 - math.exp(row["course"][-1][1] - best[row["workload"]]) for row in own]
        line |= mean_of_rows("behind", own, behind)
        reached = [n for row in own if (n := _until(row, best[row["workload"]], NEAR)) is not None]
        line |= {"near": len(reached) / len(own), "near_queries": statistics.fmean(reached) if reached else None}
        pairs = [(row, base) for row in own if (base := bases.get((row["workload"], row["seed"])))]
        ratios = [
            math.log((_until(base, base["course"][-1][1], 0.01) or 1) / (_until(row, row["course"][-1][1], 0.01) or 1))
            for row, base in pairs
        ]
        line |= mean_of_rows("fewer_log", [row for row, _ in pairs], ratios)
        line["fewer"] = math.exp(line["fewer_log"]) if ratios else None
        table.append(line)
    return table


def _until(row: Row, level: float, share: float) -> int | None:
    """Queries until a score is within a share of a level; None if it never is."""
    return next((int(asked) for asked, score in row["course"] if score >= level + math.log(1 - share)), None)


def queries_table(result: Mapping[str, Any]) -> str:
    """One line for each strategy, from the `summary` of the benchmark `queries`."""
    columns = [
        TableColumn("strategy", "strategy"),
        number("searches", "searches", "d"),
        number("asked", "queries", ",.0f"),
        number("own_5", "queries to 5% of its best", ",.0f"),
        number("own_5_se", "se", ",.0f"),
        number("own_1", "to 1%", ",.0f"),
        number("own_1_se", "se", ",.0f"),
        number("fewer", "times fewer than annealing", ".2f"),
        number("fewer_log_se", "se of the logarithm", ".2f"),
        number("behind", "behind the best search", ".1%"),
        number("behind_se", "se", ".1%"),
        number("near", "within 5% of it", ".0%"),
        number("near_queries", "queries to there", ",.0f"),
    ]
    return markdown_table(result["summary"], columns)
