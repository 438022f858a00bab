"""Provides TvmXgb: the recipe of TVM's own XGBModel on the same rows, as the baseline of the benchmarks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import xgboost as xgb

from costhub.dataset.programs import FloatArray, IntArray, Programs
from costhub.models.protocol import Scores

_PARAMETERS = {
    "max_depth": 10,
    "gamma": 0.001,
    "min_child_weight": 0,
    "eta": 0.2,
    "verbosity": 0,
    "base_score": 0.5,
}
_MOST_ROUNDS = 10_000
_PATIENCE = 50


class TvmXgb:
    """Trees over single rows; a program's score is the sum over its rows.

    As `tvm.s_tir.meta_schedule.cost_model.XGBModel` (0.27) trains it: the sum is regressed on normalised
    throughput, every row weighs as much as that throughput, and training ends when the error on the
    *training* rows has not fallen for 50 rounds.
    """

    def fit(self, train: Programs, *, seed: int = 43) -> None:
        """Learns from scratch; programs without rows are left out, as in TVM."""
        label = np.repeat(train.throughput(), train.counts)
        program = np.repeat(np.arange(train.n), train.counts)

        def gradient(predicted: FloatArray, _: xgb.DMatrix) -> tuple[Scores, Scores]:
            error = np.bincount(program, weights=predicted)[program] - label
            return error * label, label

        def p_rmse(predicted: FloatArray, _: xgb.DMatrix) -> tuple[str, float]:
            total = np.bincount(program, weights=predicted)[program]
            return "p-rmse", float(np.sqrt(np.mean((total - label) ** 2)))

        matrix = xgb.DMatrix(train.rows, label=label, weight=label)
        self.booster = xgb.train(
            {**_PARAMETERS, "seed": seed, "disable_default_eval_metric": 1},
            matrix,
            num_boost_round=_MOST_ROUNDS,
            obj=gradient,
            custom_metric=p_rmse,
            evals=[(matrix, "train")],
            early_stopping_rounds=_PATIENCE,
            verbose_eval=False,
        )

    def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
        """(n,) scores, higher is faster; a program without rows gets 0."""
        program: npt.NDArray[np.int64] = np.repeat(np.arange(len(counts)), counts)
        by_row = self.booster.predict(xgb.DMatrix(rows))
        return np.bincount(program, weights=by_row, minlength=len(counts)).astype(np.float64)
