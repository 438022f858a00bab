"""Models of four GPUs, tried on the fifth: does it help them to be told more about a GPU than device@1 holds?"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.folder import DataFolder
from costhub.dataset.programs import Programs
from costhub.hub.catalogue.devices import device_rows
from costhub.models.architectures import new_model
from costhub.models.compound.conditioned import Conditioned
from costhub.models.compound.device_vector import DEVICE_1, LAYOUTS, TARGET_NUMBERS, device_vector
from costhub.models.evaluate import evaluate
from scripts.bench.common import machine, options
from scripts.bench.common.data import DATASETS, folds
from scripts.bench.common.rows import RowFile
from scripts.bench.transfer.tasks import GPU_PROGRAMS, GPUS, PARTS, SPEC, gpu_programs
from scripts.tables.gains import mean_with_error
from scripts.tables.transfer import METRICS

KEY = ("target", "seed", "each", "layout")
EACH = 32
"""Programs of a workload that a model learns from, of each of the four devices; as in the benchmark `gpus`."""
FEWER = 8
"""The same in the quick form."""
ALL = "mean of all"
COLUMNS = (
    *(TableColumn(name, name) for name in ("target", "layout")),
    number("seeds", "seeds", "d"),
    *(part for name in METRICS for part in (number(name, name), number(f"{name}_se", "se"))),
    *(part for name in METRICS for part in (number(f"{name}_gain", "gain"), number(f"{name}_gain_se", "se"))),
)
Row = dict[str, Any]


def told(train: Programs, layout: str, rows: Mapping[str, Mapping[str, Any]], seed: int) -> Conditioned:
    """The model of some devices that is told what each can do."""
    model = new_model("conditioned", feature_spec=SPEC, options={"base": "blend", "device_layout": layout})
    assert isinstance(model, Conditioned)
    model.add_devices(rows)
    model.fit(train, None, seed=seed, progress=False)
    return model


def rows_of(
    programs: Mapping[str, Programs], about: Sequence[Row], target: str, seed: int, each: int, kept: RowFile
) -> Iterator[Row]:
    """The figures of each layout on the held-out workloads of a GPU, but those kept already."""
    held_out = set(folds(about, PARTS, seed)[0].test)
    test = programs[target].of_workloads(held_out)
    rows = {device: device_rows(DATASETS / device, [device])[device] for device in programs}
    others = [
        own.of_workloads(set(own.workload_ids) - held_out).at_most(each, seed=seed)
        for device, own in programs.items()
        if device != target
    ]
    for layout in LAYOUTS:
        if (target, seed, each, layout) not in kept:
            began = time.perf_counter()
            model = told(Programs.join(others), layout, rows, seed).bind(rows[target])
            totals = evaluate(model, test).totals
            key = dict(zip(KEY, (target, seed, each, layout), strict=True))
            figures = {name: totals[name] for name in METRICS}
            yield {**key, **figures, "seconds": time.perf_counter() - began}


def summaries(rows: Sequence[Row]) -> list[Row]:
    """A row for each GPU and layout with its gain over device@1, and for their means over the GPUs.

    Args:
        rows: Of one number of programs to learn from. A seed counts for a GPU if both layouts were tried.

    Returns:
        Errors of a GPU are standard errors over seeds, those of the means over the GPUs; an error of a gain is that
        of the differences between models that learned from the same programs.
    """
    cells = {(row["target"], row["seed"], row["layout"]): row for row in rows}
    seeds = {
        name: [seed for seed in sorted({row["seed"] for row in rows}) if all((name, seed, x) in cells for x in LAYOUTS)]
        for name in GPUS
    }
    whole = [name for name in GPUS if seeds[name]]
    table = [
        _line(cells, name, layout, [[(name, seed)] for seed in seeds[name]]) for name in whole for layout in LAYOUTS
    ]
    means = [[(name, seed) for seed in seeds[name]] for name in whole]
    return table + [_line(cells, ALL, layout, means) for layout in LAYOUTS if whole]


def _line(
    cells: Mapping[tuple[str, int, str], Row], place: str, layout: str, groups: Sequence[Sequence[tuple[str, int]]]
) -> Row:
    """The means and errors of a layout over groups of (GPU, seed)."""
    line: Row = {"target": place, "layout": layout, "seeds": len({seed for group in groups for _, seed in group})}
    for metric in METRICS:
        means, before = (
            [sum(cells[(*key, each)][metric] for key in group) / len(group) for group in groups]
            for each in (layout, DEVICE_1.name)
        )
        gains = [value - old for value, old in zip(means, before, strict=True)]
        line[metric], line[f"{metric}_se"] = mean_with_error(means)
        line[f"{metric}_gain"], line[f"{metric}_gain_se"] = mean_with_error(gains)
    return line


def told_numbers(devices: Sequence[str]) -> list[Row]:
    """What device@2 adds, for each device; None for what its target does not say."""
    layout = LAYOUTS["device@2"]
    table = []
    for device in devices:
        vector = device_vector(device_rows(DATASETS / device, [device])[device], layout)
        entry = dict(zip(layout.names, vector.tolist(), strict=True))
        numbers = {name: None if entry[f"no_{name}"] else round(2 ** entry[f"log2_{name}"]) for name in TARGET_NUMBERS}
        table.append({"device": device, **numbers})
    return table


@click.command()
@click.option("--seed", "chosen", type=int, multiple=True, default=(0, 1, 2), show_default=True, help="Each once.")
@click.option("--target", "targets", type=click.Choice(GPUS), multiple=True, help="All by default.")
@click.option("--each", default=EACH, show_default=True, help="Programs of a workload to learn from, of each GPU.")
@options.quick(f"A model of the K80, tried on the H200, one seed, {FEWER} programs of a workload.")
@options.rows_file()
@options.json_file()
def main(
    chosen: tuple[int, ...],
    targets: tuple[str, ...],
    each: int,
    quick: bool,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Ranks held-out workloads of each GPU by models of the others that are told device@1 or device@2."""
    kept = RowFile(rows_path, KEY)
    seeds = chosen[: 1 if quick else None]
    each = FEWER if quick else each
    names = (GPUS[0], GPUS[-1]) if quick else GPUS
    to_do = [
        (target, seed)
        for seed in seeds
        for target in (names[-1:] if quick else targets or GPUS)
        if not all((target, seed, each, layout) in kept for layout in LAYOUTS)
    ]
    programs = gpu_programs(names) if to_do else {}  # Reading them takes long.
    columns = ["workload_id", "name", "operator"]
    about = {
        row["workload_id"]: row for n in names for row in DataFolder.open(DATASETS / n).workloads(columns).to_pylist()
    }
    for target, seed in to_do:
        for row in rows_of(programs, list(about.values()), target, seed, each, kept):
            kept.add(row)
            click.echo(f"{target}, seed {seed}, {row['layout']}: pairwise {row['pairwise']:.3f}")
    table = summaries([row for row in kept if row["each"] == each])
    click.echo(plain_table(table, COLUMNS))
    result = {"drawn": GPU_PROGRAMS, "each": each, "numbers": told_numbers(names), "summary": table}
    machine.write_result(path, result)
