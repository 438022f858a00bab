"""Measures what a model for all CPUs must have seen to rank kernels in blocked layouts: the layout, or the chip."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import click

from costhub.dataset.splits.split import load_split
from scripts.bench.common import machine, options
from scripts.bench.common.data import BLOCKED, DATASETS
from scripts.bench.models.chip_kernels import Taught, ranked, tests_of, trained_without
from scripts.release.train import ANY_CPU, EMERALD, MANY, ModelRelease, dataset, trained


def without_the_chip(release: ModelRelease) -> ModelRelease:
    """The same, from the other chips alone."""
    others = "+".join(name for name in release.dataset.split("+") if name != EMERALD)
    return replace(release, dataset=others, devices=tuple(d for d in release.devices if not d.startswith(EMERALD)))


def blocked_workloads() -> tuple[str, ...]:
    """Ids of the chip's kernels in blocked layouts that may be learned: no other dataset's split has them."""
    known = load_split(DATASETS / ANY_CPU.dataset.split("+")[0], MANY)
    own = load_split(DATASETS / EMERALD, MANY)
    return tuple(sorted({*own.train} - {*known.train, *known.test}))


def models(folder: Path, others: Path | None, seed: int) -> Iterator[Taught]:
    """What each model has learned, from how many blocked workloads of the chip, and its folder."""
    blocked = blocked_workloads()
    yield "and this chip's kernels in blocked layouts: the shipped model", len(blocked), Path(ANY_CPU.device)
    rest = without_the_chip(ANY_CPU)
    yield "four other chips", 0, others or trained(rest, dataset(rest.dataset, str(folder)), folder, seed)
    yield "and this chip's kernels in plain layouts", 0, trained_without(blocked, folder, seed)


@click.command()
@click.option("--others", type=options.PATH, help="The model of the other chips alone, if it is trained already.")
@click.option("--seed", default=0, show_default=True)
@options.quick("The shipped model alone.")
@options.json_file()
def main(others: Path | None, seed: int, quick: bool, path: Any) -> None:
    """Trains any-cpu's recipe with more and more of the chip's data, and ranks its held-out kernels."""
    with tempfile.TemporaryDirectory() as folder:
        # The shipped one comes first, since it needs no training.
        compared = islice(models(Path(folder), others, seed), 1 if quick else None)
        rows = ranked(compared, list(tests_of(EMERALD, (BLOCKED, MANY))), "blocked_workloads")
    rows.sort(key=lambda row: (row.get("blocked_workloads", -1), row["learned"].startswith("and")))
    machine.write_result(path, {"seed": seed, "rows": rows})
