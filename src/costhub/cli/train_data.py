"""Provides what `costhub train` learns from: programs in memory, or blocks of them for several processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from costhub.errors import DataError, ModelError

if TYPE_CHECKING:
    from costhub.dataset.program_blocks import ProgramBlocks
    from costhub.dataset.programs import Programs
    from costhub.models.evaluation.evaluate import Evaluation
    from costhub.models.protocol import CostModel

VALID_SHARE = 0.05
"""Of the programs of a stream, to tell when to stop."""


@contextlib.contextmanager
def joined(arch: str, *, stream: bool) -> Iterator[tuple[int, int]]:
    """Number of this process and how many train together: (0, 1) unless `torchrun` has started several.

    Raises:
        ModelError: Several were started for what one process does alone.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield 0, 1
        return
    if not stream or arch == "gbt":
        raise ModelError(
            "torchrun has started several processes, but only a network with --stream can be trained by "
            "several. To train trees on several machines, use Dask: see docs/training.md."
        )
    from costhub.models.training.processes import joined_processes

    with joined_processes() as place:
        yield place


def read_programs(
    data: Path, devices: Sequence[str], spec: str, *, stream: bool, place: tuple[int, int]
) -> Programs | ProgramBlocks:
    """The programs of a data folder, as blocks for a stream.

    Process 0 goes first: what it computes of the features, the others find.
    """
    if not stream:
        from costhub.dataset.load_programs import load_programs

        return load_programs(data, device=devices, spec=spec)
    from costhub.dataset.program_blocks import ProgramBlocks

    if place == (0, 1):
        return ProgramBlocks.open(data, device=devices, spec=spec)
    from costhub.models.training.processes import meet

    if place[0]:
        meet()
    blocks = ProgramBlocks.open(data, device=devices, spec=spec)
    if not place[0]:
        meet()
    return blocks


def to_learn_from(
    train: Programs | ProgramBlocks, place: tuple[int, int], *, seed: int
) -> tuple[Programs | ProgramBlocks, Programs | None]:
    """What this process learns from, and what tells it when to stop: of a stream, other workloads."""
    from costhub.dataset.programs import Programs

    if isinstance(train, Programs):
        return train, None
    rest, valid = train.split_off(VALID_SHARE, seed=seed)
    return rest.share(*place), valid


def evaluated(model: CostModel, test: Programs | ProgramBlocks) -> Evaluation | None:
    """The evaluation on held-out programs; None where there are none, or too few to rank, which is said."""
    from costhub.dataset.programs import Programs
    from costhub.models.evaluation.evaluate import evaluate
    from costhub.models.training.fit_blocks import evaluate_blocks

    if not test.n:
        return None
    try:
        return evaluate(model, test) if isinstance(test, Programs) else evaluate_blocks(model, test)
    except DataError as error:  # What was learned is worth keeping even so.
        click.echo(f"The model was not evaluated. {error}", err=True)
        return None
