"""Writes the shards of datasets anew in the schema version of today, and proves that no value changes.

    python -m scripts.release rewrite                   the datasets in the package
    python -m scripts.release rewrite DIR ...           other data folders

Every table is read before and after, and compared column by column. Cards name the revision of the shards, so they are
rendered again; splits, and what people wrote, stay.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from costhub.cards import dataset_card
from costhub.cards.markdown import CARD
from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.folder import DataFolder
from costhub.dataset.shards.shard import read_shard, seal_state, write_shard
from costhub.hub.dataset_documents import write_dataset_documents
from scripts.bench.common import machine, options
from scripts.bench.common.data import embedded_datasets

COLUMNS = (
    TableColumn("shard", "shard"),
    number("rows", "rows", ",d"),
    number("before", "bytes a row before", ".1f"),
    number("after", "after", ".1f"),
)


def different_columns(before: pa.Table, after: pa.Table) -> list[str]:
    """Columns of `before` that are missing in `after`, or hold other values there; none of them may be."""
    names = set(after.schema.names)
    return [name for name in before.schema.names if name not in names or not before[name].equals(after[name])]


def rewrite_shard(path: Path) -> dict[str, Any]:
    """Writes a shard anew; compares what is read of it before and afterwards.

    Raises:
        click.ClickException: A value would change; the shard stays as it was.
    """
    before, size = read_shard(path), path.stat().st_size
    with tempfile.TemporaryDirectory() as place:
        trial = Path(place) / path.name
        write_shard(before, trial)
        changed = different_columns(before, read_shard(trial))
        if changed or seal_state(trial) != "sealed":
            raise click.ClickException(f"{path} would change in {', '.join(changed) or 'its seal'}; it was left alone.")
    write_shard(before, path)
    rows = max(before.num_rows, 1)
    return {"rows": before.num_rows, "before": size / rows, "after": path.stat().st_size / rows}


def rewrite_documents(folder: Path) -> None:
    """Writes what stands beside the shards of a published data folder anew; its data get no new version."""
    text = (folder / CARD).read_text(encoding="utf-8")
    card = dataset_card.parse(text)
    last = card.changes[-1]
    write_dataset_documents(
        folder,
        text,
        name=card.address or card.name,  # of the package, all are called by their address
        address=card.address,
        changes=card.changes[:-1],
        date=last["date"],
        version=last["version"],
        warned_rows=card.warned_rows,
    )


def rewrite_folder(folder: Path) -> list[dict[str, Any]]:
    """Writes the shards of a data folder anew, and its card."""
    tables = {path: read_shard(path) for path in sorted(folder.rglob("train-*.parquet"))}
    rows = [
        {"shard": path.relative_to(folder).as_posix(), **rewrite_shard(path)}
        for path in tables
        if "sample" not in path.parts
    ]
    rewrite_documents(folder)
    for path, before in tables.items():
        if different_columns(before, read_shard(path)):
            raise click.ClickException(f"{path} has changed.")
    return rows


@click.command()
@click.argument("folders", nargs=-1, type=click.Path(exists=True, file_okay=False, path_type=Path))
@options.json_file()
def main(folders: tuple[Path, ...], path: Path | None) -> None:
    """Write the shards of FOLDERS anew; by default those of the datasets in the package."""
    chosen = folders or tuple(embedded_datasets())
    rows = []
    for folder in chosen:
        DataFolder.open(folder)
        rows += [{**row, "dataset": folder.name} for row in rewrite_folder(folder)]
    machine.write_result(path, {"rows": rows})
    click.echo(plain_table(rows, COLUMNS))
