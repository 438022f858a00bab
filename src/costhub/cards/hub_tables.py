"""Renders what was found about the hub: connections cut, clients killed, and how soon there are scores."""

from __future__ import annotations

from collections.abc import Callable

from costhub.cards.release_tables import Result
from costhub.cards.tables import Column, markdown_table, number


def cuts_table(result: Result) -> str:
    """One line per command: how it was disturbed, and what it was like after it had been run again."""
    rows = result["rows"]
    columns = [
        Column("command", "command"),
        number("cut", "cut once", "d"),
        number("away", "cut, and the server stays away", "d"),
        number("kill", "killed with -9", "d"),
        number("first_done", "done all the same", "d"),
        number("arrived", "failed, but had arrived", "d"),
        number("again_done", "second run done", "d"),
        number("identical", "result identical", "d"),
    ]
    total = {key: sum(row[key] for row in rows) for key in ("half", "lost", "doubled", "no_sentence", "left")}
    said = (
        f"{total['half']} half files under a final name, {total['lost']} versions lost on the server, "
        f"{total['doubled']} pull requests opened twice, {total['no_sentence']} failures without a sentence, "
        f"{total['left']} temporary folders left by killed clients."
    )
    return f"{markdown_table(rows, columns)}\n\n{said}"


def pull_table(result: Result) -> str:
    """One line per way to a model: seconds from the start of a process to scores, and where they went."""
    stages = {"pull": "pull (s)", "load": "load (s)", "score": "score (s)"}
    columns = [
        Column("way", "from"),
        number("seconds", "start to scores (s)", ".2f"),
        number("range", "slowest (s)", ".2f"),
        *(number(key, title, ".2f") for key, title in stages.items()),
    ]
    said = (
        f"Medians of {len(result['rows']) // len(result['summary'])} new processes with empty caches; "
        f"{result['programs']} programs of {result['scored']} are scored. The rest is Python's own start."
    )
    return f"{markdown_table(result['summary'], columns)}\n\n{said}"


HUB_TABLES: dict[str, Callable[[Result], str]] = {"cuts": cuts_table, "pull": pull_table}
"""Name of a result file without its suffix -> its renderer."""
