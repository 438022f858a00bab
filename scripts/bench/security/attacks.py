"""Attacks costhub in every way of the list, and says what came of each."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.progress import bar
from scripts.bench.common import machine, options
from scripts.bench.common.rows import RowFile
from scripts.bench.security.attempt import Attempt, judge
from scripts.bench.security.families import FAMILIES, all_attempts
from scripts.bench.security.place import Answer, Command, place

_MOST_SHOWN = 240
_COLUMNS = (
    TableColumn("kind", "#"),
    TableColumn("what", "attempt"),
    TableColumn("outcome", "outcome"),
    number("seconds", "s", ".1f"),
    number("peak_mb", "MB", ",.0f"),
    TableColumn("answer", "answer"),
)


def attack(attempt: Attempt, source: Path) -> tuple[Command, Answer, str]:
    """Makes an attempt: its command, its answer, and the harm that was done."""
    with place(source) as where:
        command = attempt.make(where)
        answer = where.run(command, attempt.limit_s)
        return command, answer, attempt.harm(where, answer)


def tried(attempt: Attempt, source: Path) -> dict[str, Any]:
    """The row of one attempt."""
    command, answer, harm = attack(attempt, source)
    verdict = judge(attempt, answer, harm)
    return {
        "kind": attempt.kind,
        "family": attempt.family,
        "what": attempt.what,
        "command": command.shown,
        "expected": attempt.expected,
        "outcome": verdict.outcome,
        "good": verdict.good,
        "why": verdict.why,
        "code": answer.code,
        "seconds": round(answer.seconds, 2),
        "peak_mb": round(answer.peak_mb),
        "answer": readable(answer.last_line),
    }


def readable(line: str) -> str:
    """A line of an answer, short, and without the names of this run's own folders."""
    words = [Path(word).name if "costhub-attack-" in word else word for word in line.split()]
    text = "".join(c if c.isprintable() else "?" for c in " ".join(words))
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]} ..."


def chosen(families: tuple[str, ...], kinds: tuple[str, ...], quick: bool) -> list[Attempt]:
    """The attempts that were asked for; all by default."""
    return [
        attempt
        for attempt in all_attempts()
        if (not families or attempt.family in families)
        and (not kinds or attempt.kind in kinds)
        and (not quick or attempt.quick)
    ]


@click.command()
@click.option("--family", "families", multiple=True, type=click.Choice(list(FAMILIES)), help="All by default.")
@click.option("--kind", "kinds", multiple=True, help="Numbers of the list, such as 17a; all by default.")
@click.option("--source", type=options.PATH, default=machine.ROOT / "src", help="The src folder of another costhub.")
@click.option("--beside", type=options.PATH, help="A result with the outcomes of an earlier costhub.")
@click.option("--patience", default=1.0, show_default=True, help="Times the time limits, on a busy machine.")
@options.quick("A few attempts of each family.")
@options.rows_file()
@options.json_file()
def main(
    families: tuple[str, ...],
    kinds: tuple[str, ...],
    source: Path,
    beside: Path | None,
    patience: float,
    quick: bool,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Prints the outcome of every attempt; fails if one of them is not a right one."""
    asked = [replace(each, limit_s=patience * each.limit_s) for each in chosen(families, kinds, quick)]
    tried_code = "this" if source.resolve() == (machine.ROOT / "src").resolve() else str(source.resolve())
    done = RowFile(rows_path, ("kind",), of_code=tried_code, patience=patience)
    with bar(len(asked), desc="attacks", unit="attempt") as shown:
        for attempt in asked:
            if (attempt.kind,) not in done:
                done.add(tried(attempt, source.resolve()))
            shown.update(1)
    earlier = {row["kind"]: row["outcome"] for row in json.loads(beside.read_text())["rows"]} if beside else {}
    found = {row["kind"]: {name: value for name, value in row.items() if name not in done.settings} for row in done}
    rows = [found[attempt.kind] | {"before": earlier.get(attempt.kind)} for attempt in asked]
    click.echo(plain_table(rows, _COLUMNS))
    counts = Counter(row["outcome"] for row in rows)
    click.echo(", ".join(f"{count} {outcome}" for outcome, count in counts.most_common()))
    machine.write_result(path, {"attempts": len(rows), "outcomes": dict(counts.most_common()), "rows": rows})
    bad = [row["kind"] for row in rows if not row["good"]]
    if bad:
        raise click.ClickException(f"{len(bad)} of {len(rows)} attempts did not end as they must: {', '.join(bad)}.")
