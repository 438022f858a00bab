"""Writes the sections of a dataset card, each from the data of the card and the schema alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from costhub.cards.card_sections import DEVICE_FACTS, device_value
from costhub.cards.tables import Column, markdown_table, number, one_line
from costhub.dataset.readme import QUERY
from costhub.dataset.schema import TABLES, document

if TYPE_CHECKING:
    from costhub.cards.dataset_card import DatasetCard

LATENCIES = "latencies.png"
PICTURES = {
    LATENCIES: "Latencies of the measured programs, by operator",
}
"""File beside the card -> what it shows."""

_CONTENT = (
    Column("device_id", "device"),
    number("rows", "measurements", ",d"),
    number("ok", "with a latency", ",d"),
    number("workloads", "workloads", ",d"),
)
_CHANGES = (
    Column("date", "date"),
    Column("version", "version"),
    number("added", "rows added", "+,d"),
    number("rows", "rows", ",d"),
    Column("revision", "data revision"),
)
_CONFIGS = {
    "measurements": "every measurement of every device; the one that is loaded where none is named",
    "workloads": "what was measured: operator, shapes and the TVM module",
    "devices": "what it was measured on",
}


def body(card: DatasetCard) -> str:
    """The Markdown of a card below its metadata."""
    parts = [
        f"# {_inline(card.name)}",
        _purpose(card),
        "## How to use it",
        _use(card),
        "## Devices",
        _devices(card),
        "## What is in it",
        _content(card),
        "## Configurations",
        _configurations(card),
        "## Columns",
        *(f"### {table}\n\n{document(table)}" for table in TABLES),
        "## Limits",
        _limits(card),
        *(["## Changes", markdown_table(card.changes[::-1], _CHANGES)] if card.changes else []),
        "## Licence",
        ", ".join(_inline(licence) for licence in card.licences) + ".",
        "## Citation",
        _citation(card),
    ]
    return "\n\n".join(parts) + "\n"


def _purpose(card: DatasetCard) -> str:
    return (
        f"{card.rows:,} measurements of programs of Apache TVM MetaSchedule on "
        f"{', '.join(_inline(str(row['device_id'])) for row in card.devices) or 'no device'}, to learn cost "
        "models from and to compare them on. A row is one program with the time it took, or with what went "
        "wrong; failed attempts are rows too. The latency of a program is the median of `run_s` in seconds. "
        f"The data have revision `{_inline(card.revision)}`, in schema version {card.schema_version}."
    )


def _use(card: DatasetCard) -> str:
    address = json.dumps(card.address, ensure_ascii=False)
    return (
        "```python\n"
        "import costhub\n"
        f'table = costhub.load_measurements({address}, status="ok", columns=["workload_id", "run_s"])\n'
        f'frame = costhub.load_measurements({address}, format="pandas")  # or "datasets"\n'
        "```\n\n"
        "No code of costhub is needed: `datasets.load_dataset` takes the configurations below, and DuckDB "
        f"the files. The best program of each workload:\n\n```sql\n{QUERY}\n```"
    )


def _devices(card: DatasetCard) -> str:
    parts = []
    for row in card.devices:
        facts = [
            {"fact": title, "value": device_value(key, row[key])}
            for key, title in DEVICE_FACTS.items()
            if row.get(key) is not None
        ]
        parts.append(markdown_table(facts, (Column("fact", ""), Column("value", ""))))
    return "\n\n".join(parts) or "None."


def _content(card: DatasetCard) -> str:
    operators = [{"operator": name, "workloads": count} for name, count in card.operators.items()]
    said = f"{card.rows:,} measurements of {card.workloads:,} workloads, {card.ok:,} of them with a latency"
    if card.tvm_versions:
        said += f", by TVM {', '.join(map(_inline, card.tvm_versions))}"
    if card.contributors:
        said += f". Measured by {', '.join(map(_inline, card.contributors))}"
    parts = [f"{said}.", markdown_table(card.devices, _CONTENT)]
    if operators:
        parts.append(
            markdown_table(
                operators, (Column("operator", "operator"), number("workloads", "workloads", ",d"))
            )
        )
    return "\n\n".join([*parts, *(f"![{PICTURES[name]}]({name})" for name in card.pictures)])


def _configurations(card: DatasetCard) -> str:
    rows = [{"name": f"`{name}`", "holds": holds} for name, holds in _CONFIGS.items()]
    if card.sample_rows:
        holds = f"{card.sample_rows:,} measurements drawn by their ids, some of every device, to look at"
        rows.append({"name": "`sample`", "holds": holds})
    named = {config["config_name"] for config in card.configs()}
    for row in card.devices:
        if row["device_id"] in named:
            rows.append({"name": f"`{row['device_id']}`", "holds": "the measurements of that device"})
    text = (
        "Each has one split, `train`, which is all of it. What to hold out is a question of what is asked: "
    )
    splits = ", ".join(f"`{_inline(name)}`" for name in card.splits)
    text += (
        f"the folder `splits` has {splits}, as ids of workloads." if splits else "`costhub split` divides it."
    )
    return markdown_table(rows, (Column("name", "name"), Column("holds", "holds"))) + f"\n\n{text}"


def _limits(card: DatasetCard) -> str:
    limits = [
        "Latencies of different devices, or of different workloads, do not compare.",
        "Programs were proposed by searches and by chance (`proposed_by`); they are no even sample of all.",
        "Who learns from it holds out whole workloads: programs of one workload resemble one another.",
    ]
    failed = card.rows - card.ok
    if failed:
        limits.append(f"{failed:,} rows have no latency ({failed / card.rows:.1%}); `status` says why.")
    few = [_inline(str(row["device_id"])) for row in card.devices if row["ok"] < 1000]
    if few:
        limits.append(f"Fewer than 1,000 latencies: {', '.join(few)}.")
    return "\n".join(f"- {limit}" for limit in limits)


def _citation(card: DatasetCard) -> str:
    year = str(card.changes[-1]["date"])[:4] if card.changes else ""
    key = "".join(letter if letter.isalnum() else "_" for letter in card.name)
    lines = [
        f"@misc{{costhub_{key},",
        f"  title = {{{_inline(card.name)}: measured tensor programs}},",
        f"  author = {{{' and '.join(map(_inline, card.contributors)) or '{the costhub contributors}'}}},",
        *([f"  year = {{{year}}},"] if year.isdigit() else []),
        f"  note = {{data revision {_inline(card.revision)}}},",
        "}",
    ]
    return "```bibtex\n" + "\n".join(lines) + "\n```"


def _inline(text: str) -> str:
    """A text from elsewhere that must not begin a line, a heading or a fence of its own."""
    return one_line(text).replace("`", "'")
