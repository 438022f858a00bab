"""Provides fit_trees_dask: boosted trees on the workers of a Dask cluster, through XGBoost's interface."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from costhub.dataset.programs import Programs
from costhub.errors import CosthubError
from costhub.models.inputs import check_training, is_informative
from costhub.models.trees.gbt import Gbt

if TYPE_CHECKING:
    from distributed import Client


def fit_trees_dask(
    model: Gbt, blocks: Sequence[Programs], valid: Programs | None, *, client: Client, seed: int
) -> None:
    """Fits a model as `Gbt.fit` does, on the workers of a cluster.

    A worker reads blocks of its own and keeps their pooled rows, 2 KB a program of `per_store@1`; workers
    exchange only sums over bins. Dask chooses which worker reads which block, and the trees depend on this a
    little.

    Args:
        model: The model.
        blocks: Blocks of whole groups, at least as many as workers. Those of a data folder are read by the
            workers, which need it at the same path.
        valid: Programs of other workloads, for early stopping.
        client: Of the cluster.
        seed: As in `Gbt.fit`.

    Raises:
        CosthubError: Dask is not installed.
        DataError: The first block holds no two programs of one workload that differ in latency.
    """
    try:
        import xgboost.dask as dxgb
    except ImportError as error:
        raise CosthubError(
            "Training on a cluster needs Dask, which is not installed; "
            "`pip install 'dask[array,dataframe]' distributed` adds it."
        ) from error
    first = blocks[0]
    check_training(first)
    columns, width = first.rows.shape[1], model.labelled(first)[0].shape[1]
    table = functools.partial(_matrix, dxgb, client, model, width=width)
    # A part is a sequence of one block, so that it can be sent unread.
    training = table([blocks[number : number + 1] for number in range(len(blocks))])
    stopping = [valid] if valid is not None and is_informative(valid) else []
    trained = dxgb.train(
        client,
        model.options.parameters(seed=seed),
        training,
        num_boost_round=model.options.rounds,
        evals=[(table([stopping], ref=training), "valid")] if stopping else None,
        callbacks=[_early_stopping(model.options.patience)] if stopping else None,
        verbose_eval=False,
    )
    model.booster, model.columns = trained["booster"], columns


def _matrix(
    dxgb: Any, client: Client, model: Gbt, parts: Sequence[Sequence[Programs]], *, width: int, ref: Any = None
) -> Any:
    """A matrix of pooled rows of that width, which the workers fill; another one gives the bins."""
    import dask
    from dask import array

    read = dask.delayed(_labelled, nout=3)
    tables = [read(model, part, number) for number, part in enumerate(parts)]

    def column(place: int, *shape: int, dtype: str) -> Any:
        arrays = [array.from_delayed(t[place], (np.nan, *shape), dtype=dtype) for t in tables]
        return array.concatenate(arrays, allow_unknown_chunksizes=True)

    grouped = model.options.compares
    return dxgb.DaskQuantileDMatrix(
        client,
        column(0, width, dtype="float32"),
        column(1, dtype="float64"),
        qid=column(2, dtype="uint32") if grouped else None,
        ref=ref,
    )


def _early_stopping(patience: int) -> Any:
    """Ends training early, and keeps the trees up to the best."""
    import xgboost as xgb

    return xgb.callback.EarlyStopping(rounds=patience, save_best=True)


def _labelled(model: Gbt, part: Sequence[Programs], number: int) -> tuple[Any, Any, Any]:
    """`Gbt.labelled` of a block, on a worker; every block has its own numbers of groups."""
    pooled, label, group = model.labelled(part[0])
    # 2^20 groups a block and 4,096 blocks fit in XGBoost's 32 bits.
    return pooled, label, None if group is None else (group + (number << 20)).astype(np.uint32)
