"""Tables of the attacks on costhub: how many of each family ended how, and each of them."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from costhub.cards.tables import TableColumn, markdown_table, number

Result = Mapping[str, Any]

_RIGHT = ("refused", "accepted")
_MOST_ANSWER = 110
_MARKUP = {ord(c): f"&#{ord(c)};" for c in "[]`*_~$"}


def attacks_table(result: Result) -> str:
    """One line per attempt: what was expected, what 0.1.0 did, and what happens now."""
    rows = [{**row, "what": _plain(row["what"]), "answer": _answer(row)} for row in result["rows"]]
    columns = [
        TableColumn("kind", "#"),
        TableColumn("what", "attempt"),
        TableColumn("expected", "expected"),
        TableColumn("before", "in 0.1.0"),
        TableColumn("outcome", "now"),
        number("seconds", "s", ".1f"),
        number("peak_mb", "MB", ",.0f"),
        TableColumn("answer", "what it says last"),
    ]
    return markdown_table(rows, columns)


def attacks_summary(result: Result) -> str:
    """One line per family: attempts, how many 0.1.0 met too, how many ended as they must, and wrong outcomes."""
    families = list(dict.fromkeys(row["family"] for row in result["rows"]))
    rows = [_family(name, [row for row in result["rows"] if row["family"] == name]) for name in families]
    rows.append(_family("all", result["rows"]))
    columns = [
        TableColumn("family", "family"),
        number("attempts", "attempts", "d"),
        number("tried_before", "of them in 0.1.0", "d"),
        number("right_before", "right in 0.1.0", "d"),
        number("right", "right now", "d"),
        TableColumn("wrong_before", "wrong in 0.1.0"),
        TableColumn("wrong", "wrong now"),
    ]
    return markdown_table(rows, columns)


def _family(name: str, rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    tried_before = [row for row in rows if row["before"] is not None]
    before = Counter(row["before"] for row in tried_before if not _is_right(row["before"], row["expected"]))
    now = Counter(row["outcome"] for row in rows if not row["good"])
    return {
        "family": name,
        "attempts": len(rows),
        "tried_before": len(tried_before),
        "right_before": len(tried_before) - sum(before.values()) if tried_before else None,
        "right": len(rows) - sum(now.values()),
        "wrong_before": _counted(before),
        "wrong": _counted(now),
    }


def _is_right(outcome: str, expected: str) -> bool:
    return outcome in _RIGHT and expected in (outcome, "either")


def _counted(outcomes: Counter[str]) -> str:
    return ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()) or "-"


def _answer(row: Mapping[str, Any]) -> str:
    text = row["why"] if row["why"] and not row["good"] else row["answer"].removeprefix("costhub: ")
    return _plain(text if len(text) <= _MOST_ANSWER else f"{text[:_MOST_ANSWER]} ...")


def _plain(text: str) -> str:
    """The text as text: the page of the attacks must not become one."""
    return html.escape(text, quote=False).translate(_MARKUP)


SECURITY_TABLES: dict[str, Callable[[Result], str]] = {
    "attacks": attacks_table,
    "attacks_summary": attacks_summary,
}
"""Name of a result file without its suffix, or of a view of one -> its renderer."""

SECURITY_VIEWS = {"attacks_summary": "attacks"}
"""Name of a view -> the file whose figures it shows."""
