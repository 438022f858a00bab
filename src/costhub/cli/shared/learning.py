"""Provides what `costhub train` and `costhub adapt` share: programs to learn from, the split.

The model's documents.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from costhub.errors import DataError, ModelError

if TYPE_CHECKING:
    from costhub.dataset.blocks import ProgramBlocks
    from costhub.dataset.programs import Programs
    from costhub.dataset.splits.split import Split
    from costhub.models.evaluate import Evaluation
    from costhub.models.info import ModelInfo
    from costhub.models.protocol import CostModel

VALID_SHARE = 0.05
"""Share of the programs of a stream that decides when to stop."""


@contextlib.contextmanager
def joined_processes(arch: str, *, stream: bool) -> Iterator[tuple[int, int]]:
    """Rank of this process and number of processes: (0, 1) unless `torchrun` has started several.

    Raises:
        ModelError: Several processes were started, but this model trains in one.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield 0, 1
        return
    if not stream or arch == "gbt":
        raise ModelError(
            "torchrun has started several processes, but only networks with --stream train in several. "
            "To train trees on several machines, use Dask: see docs/training.md."
        )
    from costhub.models.networks.processes import joined_processes

    with joined_processes() as place:
        yield place


def read_programs(
    data: Path,
    devices: Sequence[str],
    spec: str,
    *,
    stream: bool,
    place: tuple[int, int],
    per_workload: int | None = None,
    seed: int = 0,
) -> Programs | ProgramBlocks:
    """The programs of a data folder, as blocks if they are streamed, else at most `per_workload` of each workload.

    Process 0 goes first and computes the features; the others find them in the cache.
    """
    if not stream:
        from costhub.dataset.load import load_programs

        return load_programs(data, device=devices, spec=spec, per_workload=per_workload, seed=seed)
    from costhub.dataset.blocks import ProgramBlocks

    if place == (0, 1):
        return ProgramBlocks.open(data, device=devices, spec=spec)
    from costhub.models.networks.processes import barrier

    if place[0]:
        barrier()
    blocks = ProgramBlocks.open(data, device=devices, spec=spec)
    if not place[0]:
        barrier()
    return blocks


def training_share(
    train: Programs | ProgramBlocks, place: tuple[int, int], *, stop_share: float, seed: int
) -> tuple[Programs | ProgramBlocks, Programs | None]:
    """This process's share of the training programs, and those that decide when to stop, of other workloads.

    A stream holds out `VALID_SHARE` of its programs instead of `stop_share` of its workloads.
    """
    from costhub.dataset.programs import Programs

    if isinstance(train, Programs):
        return train.split_off(stop_share, seed=seed)
    rest, valid = train.split_off(VALID_SHARE, seed=seed)
    return rest.share(*place), valid


def evaluated(model: CostModel, test: Programs | ProgramBlocks) -> Evaluation | None:
    """The evaluation on held-out programs; None, with a warning, if there are too few to rank."""
    from costhub.dataset.programs import Programs
    from costhub.models.evaluate import evaluate, evaluate_blocks

    if not test.n:
        return None
    try:
        return evaluate(model, test) if isinstance(test, Programs) else evaluate_blocks(test, model.predict_programs)
    except DataError as error:  # The trained model is still worth keeping.
        click.echo(f"The model was not evaluated. {error}", err=True)
        return None


def split_of(data: Path, workload_ids: Sequence[str], chosen: str | None, seed: int) -> Split:
    """The chosen split, or one drawn from the workloads that have programs."""
    from costhub.dataset.folder import DataFolder
    from costhub.dataset.splits.split import find_split
    from costhub.models.train import hold_out

    if chosen is not None:
        return find_split(data, chosen)
    rows = DataFolder.open(data).workloads().select(["workload_id", "operator"]).to_pylist()
    known = set(workload_ids)
    return hold_out([row for row in rows if row["workload_id"] in known], seed=seed)


def model_documents(
    model: CostModel,
    info: ModelInfo,
    figures: dict[str, Any] | None,
    name: str,
    *,
    transfer: Mapping[str, Any] | None = None,
) -> dict[str, bytes]:
    """The files of a model folder that people read, name -> content; without figures there is no card.

    Args:
        model: The model.
        info: Its origin.
        figures: Its figures on held-out workloads; None if nothing was held out.
        name: Of the model folder.
        transfer: How the model was adapted, the content of `adaptation.json`; adds its pictures.
    """
    from costhub.cards.adaptation import ADAPTATION, ADAPTATION_VERSION, transfer_facts
    from costhub.cards.model_plots import draw_adaptation
    from costhub.hub.install import card_documents
    from costhub.models.folder import config_of

    found: dict[str, bytes] = {}
    facts = None
    if transfer is not None:
        told = {"version": ADAPTATION_VERSION, **transfer}
        found = {ADAPTATION: (json.dumps(told, indent=2) + "\n").encode(), **draw_adaptation(transfer)}
        facts = transfer_facts(transfer, found)
    if figures is None:
        return found
    return {**found, **card_documents(config_of(model, info), figures, name=name, transfer=facts)}
