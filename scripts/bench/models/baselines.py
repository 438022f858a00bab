"""Provides TensetMlp and TvmXgb: the published recipes of TenSet and TVM, to compare with."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
import xgboost as xgb
from torch import Tensor, nn

from costhub.dataset.programs import FloatArray, IntArray, Programs
from costhub.models.networks.mlp import SegmentSumNetwork
from costhub.models.protocol import Scores

HIDDEN = 256
EPOCHS = 50
PATIENCE = EPOCHS // 6
"""Epochs without a lower *training* loss after which training ends; nothing is held out."""
BATCH = 512
LEARNING_RATE = 7e-4
WEIGHT_DECAY = 1e-6
MOST_GRADIENT = 0.5
"""Largest norm of the gradient; longer ones are cut to it."""
_SCORED = 4096  # Programs scored at once.
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


class TensetMlp:
    """Rows are encoded by two layers of 256, summed per program, and decoded through two residual layers.

    As `MLPModelInternal` of TenSet (Zheng et al., NeurIPS Datasets and Benchmarks 2021) trains it for the
    ranks of Table 4: columns divided by their largest value, Adam at a constant 7e-4, 50 epochs of 512
    programs, LambdaRank. A batch is drawn from all workloads at once and its pairs cross them, as there.

    What differs, because the data do: rows are those of MetaSchedule (172 columns with the operator's name)
    in place of Ansor's 164 and TenSet's own 10 columns for the operator.
    """

    def fit(self, train: Programs, *, seed: int = 0) -> None:
        """Learns from scratch; equal seeds give equal models on one machine."""
        largest = train.rows.max(axis=0, initial=0.0)
        self.scale: FloatArray = np.where(largest > 0, largest, 1.0).astype(np.float32)
        generator = torch.Generator().manual_seed(seed)
        self.network = SegmentSumNetwork(train.rows.shape[1], HIDDEN, form="tenset", generator=generator)
        rng = np.random.default_rng(seed)
        optimizer = torch.optim.Adam(self.network.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
        label = train.throughput().astype(np.float32)
        average, best, best_epoch = math.nan, math.inf, 0
        for epoch in range(EPOCHS):
            order = rng.permutation(train.n)
            for start in range(0, train.n, BATCH):
                taken = order[start : start + BATCH]
                loss = self._step(optimizer, train.select(taken), label[taken])
                average = loss if math.isnan(average) else 0.95 * average + 0.05 * loss
            if average < best:
                best, best_epoch = average, epoch
            elif epoch - best_epoch >= PATIENCE:
                break

    def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
        """(n,) scores, higher is faster."""
        scores, ends = np.zeros(len(counts)), np.cumsum(counts)
        with torch.inference_mode():
            for start in range(0, len(counts), _SCORED):
                part = counts[start : start + _SCORED]
                first = int(ends[start] - counts[start])
                part_scores = self._score(rows[first : first + int(part.sum())], part)
                scores[start : start + _SCORED] = part_scores.numpy()
        return scores

    def size_bytes(self) -> int:
        """What the weights take, and the scale of the columns."""
        return 4 * (sum(weight.numel() for weight in self.network.parameters()) + len(self.scale))

    def _step(self, optimizer: torch.optim.Adam, batch: Programs, label: FloatArray) -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = lambda_rank(self._score(batch.rows, batch.counts), torch.from_numpy(label))
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), MOST_GRADIENT)
        optimizer.step()
        return float(loss.detach())

    def _score(self, rows: FloatArray, counts: IntArray) -> Tensor:
        scores: Tensor = self.network(torch.from_numpy(rows / self.scale), torch.from_numpy(counts))
        return scores


def lambda_rank(scores: Tensor, throughput: Tensor) -> Tensor:
    """TenSet's loss of a batch: -sum over pairs, i the faster one, of w_ij log2 sigmoid(s_i - s_j).

    w_ij = |1/D_i - 1/D_j| |G_i - G_j|, with D = log2(1 + rank by score) and G = (2^c - 1) / the highest DCG:
    the change of NDCG when i and j swap ranks (Burges et al. 2006).

    Args:
        scores: (b,) scores s.
        throughput: (b,) normalised throughput c, compared whatever the workload.

    Example:
        >>> round(float(lambda_rank(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 0.0]))), 4)
        0.3691
    """
    order = torch.argsort(scores, descending=True, stable=True)
    scores, throughput = scores[order], throughput[order]
    discount = 1.0 / torch.log2(2.0 + torch.arange(len(scores)))
    gain = torch.exp2(throughput) - 1.0
    highest = (gain.sort(descending=True).values * discount).sum().clamp(min=1e-10)
    weight = (discount[:, None] - discount[None, :]).abs() * (gain[:, None] - gain[None, :]).abs() / highest
    faster = throughput[:, None] > throughput[None, :]
    share = nn.functional.logsigmoid(scores[:, None] - scores[None, :]) / math.log(2.0)
    return -(weight * share * faster).sum()


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
