"""Provides Residual: a global model of other devices or workloads, plus a local one of its residuals."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from costhub.dataset.programs import FloatArray, IntArray, Programs
from costhub.errors import ModelError
from costhub.models.architectures import ARCHITECTURES, new_model
from costhub.models.compound.members import load_members, save_members
from costhub.models.inputs import checked_rows, is_informative, not_fitted_error
from costhub.models.options import check_choice, check_width, parse_options
from costhub.models.protocol import CostModel, Scores
from costhub.models.trees.boosting import centred
from costhub.models.trees.gbt import Gbt, GbtOptions

_MOST_SLOPE = 1e6


@dataclass(frozen=True)
class ResidualOptions:
    """How a Residual is built."""

    base: str = "gbt"
    """The architecture of the global model."""

    def __post_init__(self) -> None:
        check_choice("base", self.base, tuple(name for name in ARCHITECTURES if name != Residual.arch))


class Residual(CostModel):
    """The score is a slope times the global model's, plus that of local trees (AutoTVM, eq. 4).

    `fit` trains the global model; `update` trains the local one, from scratch, on the residuals of the global
    one in log throughput, and leaves the global one unchanged. The slope brings any model's scores to this
    scale: it is the least-squares slope over the differences within groups.

    Args:
        feature_spec: Name and version of the feature layout that both read.
        options: How it is built.
        base: The global model; by default a new one of `options.base`.

    Example:
        >>> import numpy as np
        >>> rows = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
        >>> ones, source_s = np.ones(64, np.int64), np.exp(rows[:, 0]).astype(float)
        >>> source = Programs(rows, ones, 0 * ones, ("w",), source_s)
        >>> target = replace(source, latency_s=source_s * np.exp(rows[:, 1]))
        >>> model = Residual(feature_spec="demo@1")
        >>> model.fit(source, None, seed=0, progress=False)
        >>> before = np.corrcoef(model.predict(rows, ones), -np.log(target.latency_s))[0, 1]
        >>> model.update(target, seed=0)
        >>> bool(np.corrcoef(model.predict(rows, ones), -np.log(target.latency_s))[0, 1] > before)
        True
    """

    arch = "residual"

    def __init__(
        self,
        *,
        feature_spec: str,
        options: ResidualOptions | None = None,
        base: CostModel | None = None,
    ) -> None:
        options = options or ResidualOptions()
        if base is not None and (base.arch not in ARCHITECTURES or "columns" not in base.config()):
            raise ModelError(
                f"The method residual needs an architecture with an entry point, and `columns` in its config(); "
                f"{base.arch!r} lacks one of the two (docs/my-own-model.md). Use another method."
            )
        self.feature_spec = feature_spec
        self.options = options if base is None else replace(options, base=base.arch)
        self.base = new_model(options.base, feature_spec=feature_spec) if base is None else base
        """The global model."""
        self.local: Gbt | None = None
        """The local trees; None before they have learned."""
        self.slope = 1.0
        """Factor of the global model's scores."""

    def fit(self, train: Programs, valid: Programs | None, *, seed: int, progress: bool = True) -> None:
        """Trains the global model; `valid`, of other workloads, decides when to stop.

        Raises:
            DataError: No workload has two programs with different latencies.
        """
        self.base.checkpoint = self.checkpoint
        self.base.fit(train, valid, seed=seed, progress=progress)
        self.local, self.slope = None, 1.0

    def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
        """(n,) scores, see `CostModel.predict`."""
        return self._corrected(self.base.predict(rows, counts), rows, counts)

    def predict_programs(self, programs: Programs) -> Scores:
        """(n,) scores of programs, each on its own device where the global model knows devices."""
        return self._corrected(self.base.predict_programs(programs), programs.rows, programs.counts)

    def _corrected(self, base: Scores, rows: FloatArray, counts: IntArray) -> Scores:
        scores = self.slope * base
        return scores if self.local is None else scores + self.local.predict(rows, counts)

    def add_devices(self, devices: Mapping[str, Mapping[str, Any]]) -> None:
        """Hands the rows of devices to the global model."""
        self.base.add_devices(devices)

    def bind(self, device: Mapping[str, Any]) -> Residual:
        """A copy whose global model scores for one device; itself once it has local trees, which are of a device."""
        if self.local is not None:
            return self
        bound = copy.copy(self)
        bound.base = self.base.bind(device)
        return bound

    def update(self, programs: Programs, *, seed: int) -> None:
        """Trains the local model on these programs; an earlier one is forgotten."""
        checked_rows(programs.rows, programs.counts, columns=self._columns())
        if not programs.n or not len(programs.rows) or not is_informative(programs):
            return
        base = self.base.predict(programs.rows, programs.counts)
        local = Gbt(feature_spec=self.feature_spec, options=GbtOptions(objective="log"))
        self.slope = slope_of(base, local.labels(programs), programs.group)
        local.correct(programs, scores=self.slope * base, seed=seed)
        self.local = local

    def config(self) -> dict[str, Any]:
        """The width of the rows, the options, the slope, and what both models need."""
        return {
            "columns": self.base.config()["columns"],
            **asdict(self.options),
            "slope": self.slope,
            "fitted": [model.config() for model in self._models()],
        }

    def save_weights(self, folder: Path) -> None:
        """Writes the weights of each model into a separate subfolder."""
        save_members(self._models(), folder)

    def load_weights(self, folder: Path, config: Mapping[str, Any]) -> None:
        """Reads what `save_weights` wrote.

        Raises:
            ModelError: `config` or a file is not what the code expects.
        """
        rest = dict(config)
        columns = check_width("columns", rest.pop("columns", None), arch=self.arch)
        slope, fitted = rest.pop("slope", None), rest.pop("fitted", None)
        if not isinstance(slope, int | float) or isinstance(slope, bool) or not 0 <= slope < _MOST_SLOPE:
            raise ModelError(
                f"slope of this residual model must be a number, 0 or more, got {slope!r}; fetch it again."
            )
        options = parse_options(ResidualOptions, rest, arch=self.arch)
        base = new_model(options.base, feature_spec=self.feature_spec)
        has_local = isinstance(fitted, list) and len(fitted) > 1
        local = Gbt(feature_spec=self.feature_spec) if has_local else None
        models = [base] if local is None else [base, local]
        load_members(models, folder, fitted, columns=[columns] * len(models))
        self.options, self.base, self.local, self.slope = options, base, local, float(slope)

    def _models(self) -> list[CostModel]:
        self._columns()
        return [self.base] if self.local is None else [self.base, self.local]

    def _columns(self) -> int:
        columns: int = self.base.config()["columns"]
        if not columns:
            raise not_fitted_error()
        return columns


def slope_of(scores: Scores, label: Scores, group: IntArray) -> float:
    """The factor, at least 0 and below 1e6, with which differences of scores in groups fit those of the labels best.

    Args:
        scores: (n,) scores.
        label: (n,) what they should be.
        group: (n,) group of each.

    Example:
        >>> import numpy as np
        >>> slope_of(np.array([1.0, 2.0, 7.0, 9.0]), np.array([0.0, 3.0, 0.0, 6.0]), np.array([0, 0, 1, 1]))
        3.0
    """
    differences = centred(scores, group)
    square = float(differences @ differences)
    slope = float(differences @ centred(label, group)) / square if square else 1.0
    return min(max(0.0, slope), 0.999 * _MOST_SLOPE)
