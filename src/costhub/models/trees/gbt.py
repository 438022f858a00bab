"""Provides Gbt: gradient-boosted trees (XGBoost) over the pooled rows of a program as a cost model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xgboost as xgb

from costhub.dataset.programs import FloatArray, IntArray, Programs
from costhub.errors import ModelError
from costhub.isolation.scratch import ScratchFolder
from costhub.models.inputs import check_training, checked_rows, is_informative, not_fitted_error, nothing_to_learn_error
from costhub.models.options import added_option, check_choice, check_ranges, check_width, parse_options
from costhub.models.parts import part_leads, part_widths
from costhub.models.protocol import CostModel, Scores
from costhub.models.training_progress import training_id
from costhub.models.trees.boosting import TreeCheckpoint, boost_trees, centred_loss, read_booster
from costhub.models.trees.pooling import pool_parts, pooled_width
from costhub.models.trees.tree_check import MAX_TREE_DEPTH
from costhub.progress import bar

WEIGHTS = "model.ubj"
OBJECTIVES = {
    "regression": "reg:squarederror",
    "log": "reg:squarederror",
    "rank": "rank:pairwise",
    "lambdarank": "rank:ndcg",
}
"""`regression`: squared error on normalised throughput; `log`: on its logarithm, so that programs far from
the best are distinguished as well; a failed one counts as a thousand times slower than the best. The others
compare pairs of programs of one group, a workload on a device, by the logistic loss: `rank` all pairs equally
(AutoTVM, eq. 2), `lambdarank` by the change of discounted cumulative gain (Burges, 2010), where a program's
gain is its normalised throughput, or grows exponentially with it (`GbtOptions.grades`)."""

CORRECTION: Mapping[str, Any] = {
    "learning_rate": 0.05,
    "max_depth": 4,
    "min_child_weight": 4,
    "reg_lambda": 2,
}
"""For the trees that `Gbt.correct` adds, which have a few hundred programs to learn from."""
CORRECTION_ROUNDS = 60

ALL_PAIRS, TOP_PAIRS = 100_000, 32
"""How many programs at the top of a group are compared with the others: more than any group has, or the best ones."""
MOST_GRADES = 10.0
"""The best program of a workload then has a thousand times the gain of one that is ten times slower."""
_SLOWEST = 1e-3
_CURVATURE = {"regression": 1.0, "log": 1.0, "rank": 1.0, "lambdarank": 0.02}
"""Roughly the second derivative of the objective with respect to one program's score, the unit in which XGBoost counts
the weight of a leaf. Under `rank` it is half the number of other programs in a group as long as all score alike, and
falls as they are told apart. Under `lambdarank` XGBoost scales pairs down to the size of a group, and the change of
gain is small: with the constants of regression, an update with 48 programs grew no leaves at all."""
_AS_PUBLISHED = {"lambdarank_score_normalization": False, "lambdarank_normalization": False}
"""By default, XGBoost divides the pull of a pair by the distance of its scores, and that of a group by roughly its size
(dmlc/xgboost, pull request 11272). Eq. 2 of AutoTVM does neither; from the second tree on, the trees differ."""


@dataclass(frozen=True)
class GbtOptions:
    """How a Gbt is built and trained; the defaults did best in the benchmark."""

    objective: str = "regression"
    """What to learn: `regression`, `log`, `rank` or `lambdarank`."""
    rounds: int = 400
    """Maximum number of trees; fewer if validation ends training early."""
    learning_rate: float = 0.05
    """Share of each new tree's prediction that is added."""
    depth: int = 8
    """Maximum number of levels in a tree."""
    min_child_weight: float = 2.0
    """Minimum number of programs in a leaf."""
    subsample: float = 0.7
    """Share of the programs each tree sees."""
    colsample: float = 0.3
    """Share of the columns each tree sees."""
    patience: int = 50
    """Trees without a better validation score after which training ends."""
    update_rounds: int = 20
    """Trees that an update adds."""
    pairs: int = added_option(0, before=32)
    """Under `rank` and `lambdarank`, how many programs of a group, those that score highest so far, are compared
    with all others in it. 0 means all of them under `rank`, and 32 under `lambdarank`."""
    grades: float = added_option(0.0)
    """Under `lambdarank`, the gain of a program is 2^(grades x throughput) - 1, so that the fastest programs count for
    more; 4 spreads five grades over the programs of a workload. 0 means that the gain is the throughput itself."""

    def __post_init__(self) -> None:
        check_choice("objective", self.objective, tuple(OBJECTIVES))
        check_ranges(
            {
                "rounds": (self.rounds, 1, 10_000),
                "learning_rate": (self.learning_rate, 0.0, 1.0),
                "depth": (self.depth, 1, MAX_TREE_DEPTH),
                "min_child_weight": (self.min_child_weight, 0.0, 1e6),
                "subsample": (self.subsample, 0.01, 1.0),
                "colsample": (self.colsample, 0.01, 1.0),
                "patience": (self.patience, 1, 10_000),
                "update_rounds": (self.update_rounds, 1, 1_000),
                "pairs": (self.pairs, 0, ALL_PAIRS),
                "grades": (self.grades, 0.0, MOST_GRADES),
            }
        )

    @property
    def compares(self) -> bool:
        """Whether the objective compares programs of one group, rather than each with its measurement."""
        return self.objective in ("rank", "lambdarank")

    def parameters(self, *, seed: int) -> dict[str, Any]:
        """The same options as parameters of XGBoost."""
        ranking = {
            "lambdarank_pair_method": "topk",
            "lambdarank_num_pair_per_sample": self.pairs or (ALL_PAIRS if self.objective == "rank" else TOP_PAIRS),
            # XGBoost takes only whole grades for its exponential gain, and equal grades are not compared. Without it,
            # a label is the gain itself, whatever its form: see `labelled`.
            "ndcg_exp_gain": False,
            **(_AS_PUBLISHED if self.objective == "rank" else {}),
        }
        return {
            "objective": OBJECTIVES[self.objective],
            **(ranking if self.compares else {}),
            "learning_rate": self.learning_rate,
            "max_depth": self.depth,
            "min_child_weight": self.min_child_weight * _CURVATURE[self.objective],
            "reg_lambda": _CURVATURE[self.objective],
            "subsample": self.subsample,
            "colsample_bytree": self.colsample,
            "tree_method": "hist",
            "seed": seed % 2**31,
            # Otherwise the draws depend on the trees grown earlier in this process, and a loaded model updates
            # differently.
            "seed_per_iteration": True,
            "verbosity": 0,
        }


class Gbt(CostModel):
    """Sum, maximum and mean of a program's rows, and their number, are ranked by boosted trees.

    Rows of a composite feature spec are pooled part by part.

    Args:
        feature_spec: Name and version of the feature layout it reads.
        options: How it is built and trained.

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
        >>> ones, latency_s = np.ones(64, np.int64), np.exp(rows[:, 0]).astype(float)
        >>> programs = Programs(rows, ones, 0 * ones, ("w",), latency_s)
        >>> model = Gbt(feature_spec="demo@1", options=GbtOptions(rounds=20))
        >>> model.fit(programs, None, seed=0, progress=False)
        >>> scores = model.predict(programs.rows, programs.counts)
        >>> bool(scores[programs.latency_s.argmin()] > scores[programs.latency_s.argmax()])
        True
    """

    arch = "gbt"

    def __init__(self, *, feature_spec: str, options: GbtOptions | None = None) -> None:
        self.feature_spec = feature_spec
        self.options = options or GbtOptions()
        self.columns: int | None = None
        """Width of a feature row; None before fitting or loading."""
        self.booster: xgb.Booster | None = None

    def fit(self, train: Programs, valid: Programs | None, *, seed: int, progress: bool = True) -> None:
        """Learns from scratch; `valid`, of other workloads, decides when to stop.

        Raises:
            DataError: No workload has two programs with different latencies.
            ModelError: The checkpoint belongs to another training run.
        """
        check_training(train)
        self._boost(self._matrix(train), train, valid, seed=seed, progress=progress)

    def fit_blocks(
        self,
        blocks: Sequence[Programs],
        valid: Programs | None,
        *,
        seed: int,
        progress: bool = True,
        external: bool = True,
        cache: Path | None = None,
    ) -> None:
        """Learns from scratch with one block in memory at a time, see `CostModel.fit_blocks`.

        XGBoost reads the blocks four times, and keeps the bin of every pooled number, one byte each. The edges
        of the bins are quantiles found block by block, so the trees differ a little from those of `fit`.

        Args:
            blocks: Blocks of whole groups.
            valid: Programs of other workloads that decide when to stop; they are in memory.
            seed: As in `fit`.
            progress: Show a progress bar on a terminal.
            external: Keep the bins in files, which are mapped to memory block by block; otherwise in memory.
            cache: Folder for these files, on a disk; by default the one for temporary files.
        """
        if not len(blocks):
            raise nothing_to_learn_error(0)
        with ScratchFolder(cache) as scratch:
            pooled = _PooledBlocks(self, blocks, cache=str(scratch.path / "bins") if external else None)
            matrix = (xgb.ExtMemQuantileDMatrix if external else xgb.QuantileDMatrix)(pooled)
            if not pooled.is_informative:
                raise nothing_to_learn_error(matrix.num_row())
            self._boost(matrix, blocks[0], valid, seed=seed, progress=progress)

    def _boost(
        self, train: xgb.DMatrix, sample: Programs, valid: Programs | None, *, seed: int, progress: bool
    ) -> None:
        """Learns from scratch from what `labelled` returns, in whatever form XGBoost holds it.

        Args:
            train: Pooled rows and labels.
            sample: All or some programs of `train`, by which a checkpoint recognises the training run.
            valid: Programs of other workloads that decide when to stop.
            seed: As in `fit`.
            progress: Show a progress bar on a terminal.

        Raises:
            ModelError: The checkpoint belongs to another training run.
        """
        valid = valid if valid is not None and is_informative(valid) else None
        checkpoint = None
        if self.checkpoint is not None:
            settings = {"arch": self.arch, "spec": self.feature_spec, "seed": seed, **asdict(self.options)}
            settings["labels"] = hashlib.sha256(train.get_label().tobytes()).hexdigest()  # `sample` may hold some only
            training = training_id(sample, valid, settings)
            checkpoint = TreeCheckpoint(self.checkpoint / WEIGHTS, training)
        with bar(self.options.rounds, desc="training", unit="tree", enabled=progress) as progress_bar:
            self.booster = boost_trees(
                self.options.parameters(seed=seed),
                train,
                None if valid is None else self._matrix(valid),
                rounds=self.options.rounds,
                patience=self.options.patience,
                checkpoint=checkpoint,
                on_trees=progress_bar.update,
            )
        self.columns = sample.rows.shape[1]

    def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
        """(n,) scores, see `CostModel.predict`."""
        booster, columns = self._fitted()
        rows = checked_rows(rows, counts, columns=columns)
        if not len(counts):
            return np.zeros(0)
        scores: Scores = booster.inplace_predict(self._pooled(rows, counts)).astype(np.float64)
        return scores

    def update(self, programs: Programs, *, seed: int) -> None:
        """Continues boosting: adds a few trees that correct the current ones on these programs."""
        booster, columns = self._fitted()
        checked_rows(programs.rows, programs.counts, columns=columns)
        if not len(programs.rows) or not is_informative(programs):
            return
        self.booster = xgb.train(
            self.options.parameters(seed=seed),
            self._matrix(programs),
            num_boost_round=self.options.update_rounds,
            xgb_model=booster,
            verbose_eval=False,
        )

    def correct(self, programs: Programs, *, scores: Scores | None = None, weight: float = 1.0, seed: int) -> None:
        """Adds trees that correct the differences of scores within groups, in `log` throughput.

        A few programs of a workload do not show the level of their throughput, which `update` would learn;
        see `centred_loss`.

        Args:
            programs: What to learn from; nothing happens unless two of one group differ in latency.
            scores: (n,) scores of another model, in log throughput, which new trees then correct from
                scratch; by default the trees are added to the current ones.
            weight: Factor of the learning rate. Sixty trees learn more than this share of what they learn at
                1: about half of it at a weight of 0.2.
            seed: Draws programs and columns.

        Raises:
            ModelError: The trees have a different objective from `log`, so their scores have no scale.
        """
        if self.options.objective != "log":
            raise ModelError(f"Trees of the objective log can be corrected, not {self.options.objective}.")
        if scores is None:
            checked_rows(programs.rows, programs.counts, columns=self._fitted()[1])
        if not len(programs.rows) or not is_informative(programs):
            return
        pooled, label, _ = self.labelled(programs)
        self.booster = xgb.train(
            {
                **self.options.parameters(seed=seed),
                **CORRECTION,
                "learning_rate": weight * CORRECTION["learning_rate"],
                **({} if scores is None else {"base_score": 0}),
            },
            xgb.DMatrix(pooled, label=label, base_margin=scores),
            num_boost_round=CORRECTION_ROUNDS,
            xgb_model=self.booster if scores is None else None,
            obj=centred_loss(label.astype(np.float64), programs.group),
            verbose_eval=False,
        )
        self.columns = programs.rows.shape[1]

    def config(self) -> dict[str, Any]:
        """The width of the rows and the options."""
        return {"columns": self.columns or 0, **asdict(self.options)}

    def save_weights(self, folder: Path) -> None:
        """Writes model.ubj, XGBoost's own binary JSON."""
        self._fitted()[0].save_model(folder / WEIGHTS)

    def load_weights(self, folder: Path, config: Mapping[str, Any]) -> None:
        """Reads model.ubj and checks its number of features.

        Raises:
            ModelError: `config` or the file is not what the code expects.
        """
        rest = dict(config)
        columns = check_width("columns", rest.pop("columns", None), arch=self.arch)
        options = parse_options(GbtOptions, rest, arch=self.arch)
        booster = read_booster(folder / WEIGHTS)
        expected = pooled_width(part_widths(self.feature_spec, columns), part_leads(self.feature_spec))
        if booster.num_features() != expected:
            raise ModelError(
                f"{folder / WEIGHTS} reads {booster.num_features()} features, but config.json describes {expected}."
            )
        self.options, self.columns, self.booster = options, columns, booster

    def _fitted(self) -> tuple[xgb.Booster, int]:
        if self.booster is None or self.columns is None:
            raise not_fitted_error()
        return self.booster, self.columns

    def labelled(self, programs: Programs) -> tuple[FloatArray, Scores, IntArray | None]:
        """What the trees learn from.

        Returns:
            (n, k) pooled rows; (n,) normalised throughput, its logarithm or, under `lambdarank`, the gain; and (n,)
            group. For objectives that compare within a group, the programs of each group are adjacent; for the others
            there is no group.
        """
        pooled, label = self._pooled(programs.rows, programs.counts), self.labels(programs)
        if not self.options.compares:
            return pooled, label, None
        if self.options.objective == "lambdarank" and self.options.grades:
            label = np.exp2(self.options.grades * label) - 1.0
        order = np.argsort(programs.group, kind="stable")  # XGBoost needs each group in one piece
        return pooled[order], label[order], programs.group[order]

    def labels(self, programs: Programs) -> Scores:
        """(n,) what the scores of programs should be: normalised throughput or its logarithm."""
        throughput = programs.throughput()
        return np.log(np.maximum(throughput, _SLOWEST)) if self.options.objective == "log" else throughput

    def _pooled(self, rows: FloatArray, counts: IntArray) -> FloatArray:
        widths = part_widths(self.feature_spec, rows.shape[1])
        return pool_parts(rows, counts, widths, part_leads(self.feature_spec))

    def _matrix(self, programs: Programs) -> xgb.DMatrix:
        pooled, label, group = self.labelled(programs)
        return xgb.DMatrix(pooled, label=label, qid=group)


class _PooledBlocks(xgb.DataIter):
    """The blocks as XGBoost asks for them: pooled rows and labels of one block after the other."""

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
        self.is_informative |= is_informative(block)
        pooled, label, group = self._model.labelled(block)
        # Sizes rather than numbers of groups, which begin at 0 again in each block.
        sizes = None if group is None else np.bincount(group)
        input_data(data=pooled, label=label, group=sizes)
        return True
