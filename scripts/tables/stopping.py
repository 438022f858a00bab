"""Tables of rules that end measuring early: in adaptations, and in searches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from costhub.cards.tables import TableColumn, markdown_table, number

Result = Mapping[str, Any]
RULES = {
    "fixed share": "a fixed number of trials",
    "default": "`gain`, as it is shipped",
    "gain": "`gain`, chosen",
    "variation": "`variation` (Moses)",
    "hindsight": "hindsight",
}
"""Rule in the results -> its name on the page."""
ADAPTED = (
    TableColumn("rule", "rule"),
    TableColumn("pair", "from -> to"),
    number("trials", "trials", ",.0f"),
    number("saved", "saved", ".0%"),
    number("pairwise_lost", "pairwise lost", "+.4f"),
    number("pairwise_lost_se", "se", ".4f"),
    number("top_1_lost", "top-1 lost", "+.3f"),
    number("worst", "worst, pairwise", "+.3f"),
    number("fixed_lost", "lost by as many trials for all", "+.4f"),
)
SEARCHED = (
    TableColumn("rule", "rule"),
    TableColumn("kind", "searches for"),
    number("trials", "trials a kernel", "d"),
    number("searches", "searches", "d"),
    number("saved_trials", "trials saved", ".0%"),
    number("saved_time", "time saved", ".0%"),
    number("saved_s", "seconds saved, each", ",.0f"),
    number("lost", "latency lost", ".2%"),
    number("lost_se", "se", ".2%"),
    number("worst", "worst search", ".1%"),
)


def stopping_table(result: Result) -> str:
    """Every rule over all pairs of devices, and the shipped one on each pair."""
    rows = [row for row in result["rows"] if row["pair"] == "all" or row["rule"] == "default"]
    named = [{**row, "rule": RULES[row["rule"]], "pair": row["pair"].replace("all", "all of them")} for row in rows]
    return markdown_table(sorted(named, key=lambda row: row["pair"] != "all of them"), ADAPTED)


def search_stopping_table(result: Result) -> str:
    """Every rule on kernels and on networks."""
    return markdown_table([{**row, "rule": RULES[row["rule"]]} for row in result["summary"]], SEARCHED)


STOPPING_TABLES: dict[str, Callable[[Result], str]] = {
    "stopping": stopping_table,
    "search_stopping": search_stopping_table,
}
"""Name of a result file without its suffix -> its renderer."""
