"""Provides `costhub split`: workloads to train and to test on, as files that others can use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.cli.shared.choices import DATA, WholeNumber
from costhub.cli.shared.options import seed_option

if TYPE_CHECKING:
    from costhub.api.data_tools import SplitKind
    from costhub.dataset.folder import DataFolder
    from costhub.dataset.splits.split import Split
    from costhub.hub.data import DataAddress

EXAMPLE = """
\b
Example:
  costhub split amd-epyc-zen5
  costhub split amd-epyc-zen5 --by network --out splits/
  costhub split measurements/ --by network
  costhub split measurements/ --by operator --hold-out softmax --hold-out norm
  costhub split measurements/ --by workload --count 14 --seed 0
  costhub split measurements/ --by fold --count 5
"""

COLUMNS = (
    TableColumn("name", "split"),
    TableColumn("kind", "by"),
    number("train", "train", "d"),
    number("test", "test", "d"),
    number("train_programs", "programs to train", "d"),
    number("test_programs", "programs to test", "d"),
)


@click.command("split", epilog=EXAMPLE)
@click.argument("place", type=DATA, metavar="DATA")
@click.option(
    "--by",
    "kind",
    type=click.Choice(["workload", "fold", "network", "operator", "device"]),
    help="What to hold out in new splits; by default, the existing splits are listed.",
)
@click.option(
    "--hold-out",
    multiple=True,
    help="Network, operator family or device to test on; may be repeated. By default, one split for each.",
    metavar="NAME",
)
@click.option("--tenset", is_flag=True, help="With --by network: hold out TenSet's five test networks.")
@click.option(
    "--count",
    type=WholeNumber(min=1),
    help="With --by workload: how many to test on, by default a fifth, and at least one of each operator family that "
    "has several. With --by fold: the number of folds, 5 by default. With --by device: also hold out this many "
    "workloads and test only on them.",
)
@seed_option
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the new splits; by default DATA/splits. Required for a dataset of a hub, which is not changed.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def command(
    place: DataAddress,
    kind: SplitKind | None,
    hold_out: tuple[str, ...],
    tenset: bool,
    count: int | None,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Make splits of DATA, or list the existing ones.

    DATA is a data folder, or the name of a dataset or device in the hubs on this machine. A split is a file
    DATA/splits/NAME.json with the workloads to train on and to test on. The same workloads and options always give
    the same split. `costhub train` and `costhub evaluate` take its NAME, or the file.
    """
    from costhub.api.data_tools import check_split_options, make_splits
    from costhub.dataset.folder import DataFolder
    from costhub.dataset.splits.split import list_splits, load_split

    if kind is None and out is not None:
        raise click.UsageError("--out goes with --by: without it, splits are listed.")
    check_split_options(kind or "", hold_out, tenset, count)
    data, folder = place.folder, DataFolder.open(place.folder)
    if kind is None:
        splits = [load_split(data, name) for name in list_splits(data)]
    else:
        if out is None and place.dataset is not None:
            raise click.UsageError(f"{place.dataset} belongs to a hub and is not changed; name a folder with --out.")
        splits = make_splits(data, kind, hold_out=hold_out, tenset=tenset, count=count, seed=seed, out=out)
    found = _described(folder, splits)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        click.echo(plain_table(found, COLUMNS) if found else f"{data} has no splits; make some with --by.")
        for row in found:
            for sentence in row["misfits"]:
                click.echo(f"{row['name']}: {sentence}")


def _described(folder: DataFolder, splits: Sequence[Split]) -> list[dict[str, Any]]:
    """Each split, with the programs that ran on either side and where it does not fit the folder."""
    from costhub.dataset.splits.split import compare_split

    counts = _programs(folder)
    ids, devices = folder.workloads()["workload_id"].to_pylist(), folder.device_ids()

    def programs(workload_ids: Sequence[str], device_ids: Sequence[str]) -> int:
        return sum(counts.get((i, d), 0) for i in workload_ids for d in device_ids or devices)

    return [
        {
            "name": split.name,
            "kind": split.kind,
            "hold_out": list(split.hold_out),
            "seed": split.seed,
            "train": len(split.train),
            "test": len(split.test),
            "train_programs": programs(split.train, split.train_devices),
            "test_programs": programs(split.test, split.test_devices),
            "misfits": compare_split(split, ids, devices).sentences(),
        }
        for split in splits
    ]


def _programs(folder: DataFolder) -> dict[tuple[str, str], int]:
    """(workload_id, device_id) -> measurements that ran."""
    table = folder.measurements(columns=["workload_id", "device_id"], status="ok")
    counts = table.group_by(["workload_id", "device_id"]).aggregate([([], "count_all")]).to_pylist()
    return {(row["workload_id"], row["device_id"]): row["count_all"] for row in counts}
