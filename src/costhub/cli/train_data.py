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
"""Share of the programs of a stream that decides when to stop."""


@contextlib.contextmanager
def joined(arch: str, *, stream: bool) -> Iterator[tuple[int, int]]:
    """Rank of this process and number of processes: (0, 1) unless `torchrun` has started several.

    Raises:
        ModelError: Several processes were started, but this model trains in one.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield 0, 1
        return
    if not stream or arch == "gbt":
        raise ModelError(
            "torchrun has started several processes, but only a network with --stream trains in several. "
            "To train trees on several machines, use Dask: see docs/training.md."
        )
    from costhub.models.training.processes import joined_processes

    with joined_processes() as place:
        yield place


def read_programs(
    data: Path, devices: Sequence[str], spec: str, *, stream: bool, place: tuple[int, int]
) -> Programs | ProgramBlocks:
    """The programs of a data folder, as blocks if they are streamed.

    Process 0 goes first and computes the features; the others find them in the cache.
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
    """This process's share of the training programs, and for a stream those that decide when to stop."""
    from costhub.dataset.programs import Programs

    if isinstance(train, Programs):
        return train, None
    rest, valid = train.split_off(VALID_SHARE, seed=seed)
    return rest.share(*place), valid


def evaluated(model: CostModel, test: Programs | ProgramBlocks) -> Evaluation | None:
    """The evaluation on held-out programs; None, with a warning, if there are too few to rank."""
    from costhub.dataset.programs import Programs
    from costhub.models.evaluation.evaluate import evaluate
    from costhub.models.training.fit_blocks import evaluate_blocks

    if not test.n:
        return None
    try:
        return evaluate(model, test) if isinstance(test, Programs) else evaluate_blocks(model, test)
    except DataError as error:  # The trained model is worth keeping all the same.
        click.echo(f"The model was not evaluated. {error}", err=True)
        return None
