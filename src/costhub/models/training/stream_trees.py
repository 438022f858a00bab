"""Provides fit_trees: boosted trees from blocks of programs, through XGBoost's external memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xgboost as xgb

from costhub.dataset.programs import Programs
from costhub.models.inputs import informative, nothing_to_learn
from costhub.models.trees.gbt import Gbt


def fit_trees(
    model: Gbt,
    blocks: Sequence[Programs],
    valid: Programs | None,
    *,
    seed: int,
    external: bool = True,
    cache: Path | None = None,
    progress: bool = True,
) -> None:
    """Fits a model as `Gbt.fit` does, with one block in memory at a time.

    XGBoost reads the blocks four times, and keeps the bin of every pooled number, a byte each. The edges of
    the bins are quantiles found block by block, so the trees differ a little from those of `Gbt.fit`.

    Args:
        model: The model.
        blocks: Blocks of whole groups.
        valid: Programs of other workloads that tell when to stop; they are in memory.
        seed: As in `Gbt.fit`.
        external: Keep the bins in files, which are mapped to memory block by block; else in memory.
        cache: Folder for these files, on a disk; by default the one for temporary files.
        progress: Show a progress bar on a terminal.

    Raises:
        DataError: No workload has two programs of different latency.
        ModelError: The checkpoint is of another training.
    """
    if not len(blocks):
        raise nothing_to_learn(0)
    with tempfile.TemporaryDirectory(prefix="costhub-trees-", dir=cache) as folder:
        pooled = _Pooled(model, blocks, cache=str(Path(folder, "bins")) if external else None)
        matrix = (xgb.ExtMemQuantileDMatrix if external else xgb.QuantileDMatrix)(pooled)
        if not pooled.is_informative:
            raise nothing_to_learn(matrix.num_row())
        model.boost(matrix, blocks[0], valid, seed=seed, progress=progress)


class _Pooled(xgb.DataIter):
    """The blocks as XGBoost asks for them: pooled rows and labels of one after the other."""

    def __init__(self, model: Gbt, blocks: Sequence[Programs], *, cache: str | None) -> None:
        super().__init__(cache_prefix=cache)
        self.is_informative = False
        self._model, self._blocks = model, blocks
        self._next = 0

    def reset(self) -> None:
        self._next = 0

    def next(self, input_data: Callable[..., Any]) -> bool:
        if self._next == len(self._blocks):
            return False
        block = self._blocks[self._next]
        self._next += 1
        self.is_informative |= informative(block)
        pooled, label, group = self._model.labelled(block)
        # Sizes and not numbers of groups: those of another block begin at 0 again.
        sizes = None if group is None else np.bincount(group)
        input_data(data=pooled, label=label, group=sizes)
        return True
