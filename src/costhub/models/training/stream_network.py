"""Provides fit_network: a network from blocks of programs, also by several processes together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costhub.dataset.programs import Programs
from costhub.models.inputs import check_training
from costhub.models.networks.neural import NeuralModel
from costhub.models.training.processes import gathered, process_count
from costhub.models.training.sample import block_sizes, sample_programs
from costhub.models.training.stream import Stream

SAMPLE_PROGRAMS = 50_000
"""That scalers are fitted on: some 270 MB of rows of `per_store@1`, and quantiles within a half percent."""


def fit_network(
    model: NeuralModel[Any],
    blocks: Sequence[Programs],
    valid: Programs | None,
    *,
    seed: int,
    progress: bool = True,
) -> None:
    """Fits a model as its `fit` does, with a few blocks in memory at a time.

    Where `processes.joined_processes` has found others, each process has blocks of its own, and all end with
    the same weights: torch's DistributedDataParallel averages the gradients of a step over them, so a step
    learns from as many times `batch` programs.

    Args:
        model: The model.
        blocks: Blocks of whole groups; they are read once for the scalers, and once in each epoch.
        valid: Programs of other workloads that tell when to stop, in memory; the same in all processes.
        seed: Equal seeds, blocks and numbers of processes give equal models on one machine.
        progress: Show a progress bar on a terminal.

    Raises:
        DataError: No workload has two programs of different latency.
        ModelError: The checkpoint is of another training.
    """
    sample = sample_programs(blocks, most=SAMPLE_PROGRAMS // process_count(), seed=seed)
    check_training(sample)
    model.fit_scalers(gathered(sample.rows), gathered(sample.counts))
    stream = Stream(blocks, model.scalers, programs=sum(block_sizes(blocks)))
    model.fit_members(stream, sample, valid, seed=seed, progress=progress)
