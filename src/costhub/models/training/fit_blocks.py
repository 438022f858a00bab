"""Provides fit_blocks: a model from blocks of programs, for every architecture that can learn from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from costhub.dataset.programs import FloatArray, Programs
from costhub.errors import ModelError
from costhub.models.evaluation.evaluate import NOISE_FLOOR, Evaluation, evaluate_scores
from costhub.models.protocol import CostModel


def fit_blocks(
    model: CostModel, blocks: Sequence[Programs], valid: Programs | None, *, seed: int, progress: bool = True
) -> None:
    """Fits a model as its `fit` does, with a few blocks in memory at a time.

    Args:
        model: Trees or a network.
        blocks: Blocks of whole groups, such as `ProgramBlocks`.
        valid: Programs of other workloads that tell when to stop; they are in memory.
        seed: Equal seeds give equal models on one machine.
        progress: Show a progress bar on a terminal.

    Raises:
        DataError: No workload has two programs of different latency.
        ModelError: The architecture cannot.
    """
    if model.arch == "gbt":
        from costhub.models.training.stream_trees import fit_trees
        from costhub.models.trees.gbt import Gbt

        if isinstance(model, Gbt):
            fit_trees(model, blocks, valid, seed=seed, progress=progress)
            return
    from costhub.models.networks.neural import NeuralModel
    from costhub.models.training.stream_network import fit_network

    if not isinstance(model, NeuralModel):
        raise ModelError(
            f"A model of the architecture {model.arch} learns from programs in memory only; train trees "
            "(gbt) or a network from blocks, or this one without streaming."
        )
    fit_network(model, blocks, valid, seed=seed, progress=progress)


def evaluate_blocks(
    model: CostModel, blocks: Sequence[Programs], *, noise_floor: float = NOISE_FLOOR
) -> Evaluation:
    """What `evaluate` gives of all programs of the blocks, of which one block is in memory at a time.

    Raises:
        ModelError: As `evaluate`.
        ScoreError: As `evaluate`.
        DataError: As `evaluate`, or there are no blocks.
    """
    scores, without_rows = [], []
    for block in (block.measured() for block in blocks):
        scores.append(model.predict(block.rows, block.counts))
        without_rows.append(replace(block, rows=_NO_ROWS, counts=np.zeros_like(block.counts)))
    programs = Programs.join(without_rows) if without_rows else _NONE
    return evaluate_scores(np.concatenate([np.zeros(0), *scores]), programs, noise_floor=noise_floor)


_NO_ROWS: FloatArray = np.zeros((0, 0), np.float32)
_NONE = Programs.from_list([], np.zeros(0, np.int64), (), np.zeros(0))
