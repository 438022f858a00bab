"""Provides LatencyPredictor: boosted trees for the best latency that a search finds, and how far they may be off."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from costhub.errors import DeviceError, ModelError
from costhub.files import read_regular, refuse_newer
from costhub.models.latency.inputs import LAYOUT, NAMES, input_row, roofline_us
from costhub.models.latency.pools import TRIALS, Pool, TrialCurve, Vector, family
from costhub.models.latency.residuals import (
    KNOWN,
    LEVELS,
    MEASURED,
    NEW,
    Errors,
    Residuals,
    Uncertain,
    quantiles_of,
    scales_of,
)

if TYPE_CHECKING:
    import xgboost as xgb

CONFIG, TREES = "config.json", "model.ubj"
KIND, FORMAT = "latency predictor", 1
MAX_CONFIG_BYTES = 4 << 20
ROUNDS = 500
PARAMETERS: Mapping[str, Any] = {
    "objective": "reg:squarederror",
    "learning_rate": 0.05,
    "max_depth": 4,
    "min_child_weight": 3,
    "reg_lambda": 2,
    "subsample": 0.7,
    "colsample_bytree": 0.5,
    "tree_method": "hist",
    "verbosity": 0,
}
"""Chosen on the training side of the splits, with whole networks held out; deeper trees did no better."""
FOLDS, CHIP_FOLDS = 8, 2
"""Folds of networks, each predicted without itself; fewer if a chip is left out as well."""
_MOST_LOG = 50.0


@dataclass(frozen=True)
class LatencyTable:
    """Pools with what the predictor reads about them, row by row."""

    pools: tuple[Pool, ...]
    inputs: Vector
    """(n, c) columns of `NAMES`."""
    roofline_us: Vector
    """(n,)"""
    operators: tuple[str, ...]
    networks: tuple[str, ...]
    """For each, a network that has the workload, or the workload's id: kernels of a network are held out together."""
    chips: tuple[str, ...]
    """For each, the chip of the device, of which there may be several parts."""

    @classmethod
    def build(
        cls,
        pools: Sequence[Pool],
        numbers: Mapping[str, Vector],
        uses: Mapping[str, tuple[str, str]],
        devices: Mapping[str, Mapping[str, Any]],
    ) -> LatencyTable:
        """Assembles the table.

        Args:
            pools: What was measured.
            numbers: Workload id -> `workload_numbers`.
            uses: Workload id -> operator and network.
            devices: Id -> `device_figures`.
        """
        rows = [(numbers[pool.workload_id], devices[pool.device_id]) for pool in pools]
        return cls(
            tuple(pools),
            np.array([input_row(own, device) for own, device in rows]),
            np.array([roofline_us(own, device) for own, device in rows]),
            tuple(uses[pool.workload_id][0] for pool in pools),
            tuple(uses[pool.workload_id][1] for pool in pools),
            tuple(
                str(device.get("microarchitecture") or pool.device_id)
                for pool, (_, device) in zip(pools, rows, strict=True)
            ),
        )

    def __len__(self) -> int:
        return len(self.pools)

    def select(self, chosen: Any) -> LatencyTable:
        """The rows at a mask."""
        places = np.flatnonzero(chosen).tolist()
        return LatencyTable(
            tuple(self.pools[i] for i in places),
            self.inputs[places],
            self.roofline_us[places],
            *(tuple(column[i] for i in places) for column in (self.operators, self.networks, self.chips)),
        )

    def labels(self, curve: TrialCurve) -> Vector:
        """(n,) log microseconds of the best of `TRIALS` programs, in expectation over which were drawn."""
        return self._at_trials(curve, lambda pool, trials: pool.expected_log_best(trials))

    def outcomes(self, curve: TrialCurve, *, seed: int) -> Vector:
        """(n,) log microseconds of what a single search of `TRIALS` found, which includes the noise of searches."""
        return self._at_trials(curve, lambda pool, trials: pool.drawn_log_best(trials, seed=seed))

    def _at_trials(self, curve: TrialCurve, log_best: Callable[[Pool, int], float]) -> Vector:
        found = []
        for pool in self.pools:
            trials = min(TRIALS, len(pool.latency_s))
            found.append(log_best(pool, trials) + math.log(1e6) - curve(pool.family, trials))
        return np.array(found)


@dataclass(frozen=True)
class LatencyPredictor:
    """Predicts the latency of the best program that a search finds for a workload on a device.

    The trees predict the logarithm of the latency over the roofline. Create one with `fit` or `load`.
    """

    booster: xgb.Booster
    curve: TrialCurve
    residuals: Residuals
    devices: tuple[str, ...]
    """The devices learned from."""
    workloads: tuple[str, ...]
    rest_shares: tuple[float, ...] = ()
    """Time of tuned networks outside their tuned kernels, over the time of these; ascending, one for each network."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Where it comes from: data, versions, seed."""

    @classmethod
    def fit(cls, table: LatencyTable, *, seed: int = 0, cases: Sequence[str] = (KNOWN, NEW)) -> LatencyPredictor:
        """Learns from a table, which takes a second, and half a minute for the residuals.

        Args:
            table: At least two networks or workloads; for `NEW`, at least two chips of each family.
            seed: Seed of the trees and the folds.
            cases: The cases that intervals are needed for; each part of the table is predicted without itself. The
                size of an operator's residuals is taken from the first case.
        """
        curve = TrialCurve.fit(table.pools)
        found = cls(
            _boosted(table, curve, seed),
            curve,
            Residuals.empty(),
            tuple(sorted({pool.device_id for pool in table.pools})),
            tuple(sorted({pool.workload_id for pool in table.pools})),
        )
        return replace(found, residuals=_residuals(table, curve, seed, cases)) if cases else found

    def log_us(self, table: LatencyTable) -> Vector:
        """(n,) log microseconds of the best of `TRIALS` programs."""
        return _predicted(self.booster, table)

    def predict(self, numbers: Vector, operator: str, device: Mapping[str, Any], *, trials: int = TRIALS) -> Uncertain:
        """What a search of some trials is predicted to find.

        Args:
            numbers: (w,) from `workload_numbers`.
            operator: From `classify`.
            device: From `device_figures`.
            trials: How many programs are tried.

        Raises:
            DeviceError: The predictor has not learned from any device of this kind.
        """
        kind = family(device["kind"])
        case = KNOWN if device.get("device_id") in self.devices else NEW
        if kind not in self.curve.points:
            raise DeviceError(
                f"The predictor has learned from no {kind}; it gives no estimate for {device['device_id']}."
            )
        one = LatencyTable(
            (), input_row(numbers, device)[None], np.array([roofline_us(numbers, device)]), (operator,), ("",), ("",)
        )
        log_us = float(self.log_us(one)[0]) + self.curve(kind, trials)
        return Uncertain(log_us, case, kind, operator, self.curve.extra_variance(kind, trials))

    def save(self, folder: Path) -> None:
        """Writes the files of the predictor into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        self.booster.save_model(folder / TREES)
        config = {
            "costhub": KIND,
            "version": FORMAT,
            "layout": LAYOUT,
            **self.facts,
            "devices": list(self.devices),
            "workloads": list(self.workloads),
            "rest_shares": list(self.rest_shares),
            "curve": {name: [list(point) for point in points] for name, points in self.curve.points.items()},
            "luck": {name: [list(point) for point in points] for name, points in self.curve.luck.items()},
            "residuals": self.residuals.to_json(),
        }
        (folder / CONFIG).write_text(json.dumps(config, indent=1, allow_nan=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path) -> LatencyPredictor:
        """Reads a folder that `save` wrote; nothing in it is run.

        Raises:
            ModelError: The folder is missing or incomplete, a newer costhub wrote it, or it holds something else.
        """
        from costhub.models.trees.boosting import read_booster

        path = Path(folder) / CONFIG
        if not path.is_file():
            raise ModelError(f"{folder} is not the folder of a latency predictor: it has no {CONFIG}.")
        try:
            config = json.loads(read_regular(path, limit=MAX_CONFIG_BYTES, error=ModelError))
            if not isinstance(config, dict) or config.get("costhub") != KIND:
                raise ValueError(f"it is not a {KIND}")
            refuse_newer(config, newest=FORMAT, what=path, error=ModelError)
            parts = _read_parts(config)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ModelError(f"{path} cannot be used ({error!s:.200}). Fetch it again.") from error
        booster = read_booster(Path(folder) / TREES)
        if booster.num_features() != len(NAMES):
            raise ModelError(f"{folder} reads {booster.num_features()} columns, expected the {len(NAMES)} of {LAYOUT}.")
        return cls(booster, *parts)


def _read_parts(config: Mapping[str, Any]) -> tuple[Any, ...]:
    if config["layout"] != LAYOUT:
        raise ValueError(f"it reads the columns {config['layout']!r:.40}, but this costhub makes {LAYOUT}")
    points = _read_points(config, "curve")
    luck = _read_points(config, "luck") if "luck" in config else {}  # one of before: intervals as for `TRIALS`
    if any(value < 0 for own in luck.values() for _, value in own):
        raise ValueError("its luck has a negative variance")
    rest = tuple(map(float, config["rest_shares"]))
    if any(not 0 <= share <= 10 for share in rest) or list(rest) != sorted(rest):
        raise ValueError("its rest_shares are not rising shares")
    facts = {
        key: config[key] for key in ("datasets", "seed", "versions", "created", "licence", "figures") if key in config
    }
    names = (tuple(map(str, config[key])) for key in ("devices", "workloads"))
    return TrialCurve(points, luck), Residuals.from_json(config["residuals"]), *names, rest, facts


def _read_points(config: Mapping[str, Any], key: str) -> dict[str, tuple[tuple[int, float], ...]]:
    found = {
        str(name): tuple((int(trials), float(value)) for trials, value in own) for name, own in config[key].items()
    }
    for own in found.values():
        trials = [number for number, _ in own]
        if not own or trials != sorted(set(trials)) or trials[0] < 1 or not all(abs(v) <= _MOST_LOG for _, v in own):
            raise ValueError(f"its {key} does not have rising trials")
    return found


def _boosted(table: LatencyTable, curve: TrialCurve, seed: int) -> xgb.Booster:
    import xgboost as xgb

    label = table.labels(curve) - np.log(table.roofline_us)
    return xgb.train({**PARAMETERS, "seed": seed}, xgb.DMatrix(table.inputs, label=label), ROUNDS)


def _predicted(booster: xgb.Booster, table: LatencyTable) -> Vector:
    import xgboost as xgb

    found: Vector = booster.predict(xgb.DMatrix(table.inputs)).astype(np.float64) + np.log(table.roofline_us)
    return found


def predicted_without(table: LatencyTable, curve: TrialCurve, *, seed: int, chips: bool = False) -> Vector:
    """(n,) log microseconds, each predicted by trees that have not learned from its network.

    Args:
        table: All rows.
        curve: How the best latency falls with the number of trials.
        seed: Seed of the trees and the folds.
        chips: Whether the trees must not have learned from its chip, either.
    """
    folds = FOLDS if not chips else CHIP_FOLDS
    names = sorted(set(table.networks))
    place = dict(zip(names, np.random.default_rng(seed).permutation(len(names)) % folds, strict=True))
    fold = np.array([place[name] for name in table.networks])
    chip = np.array(table.chips)
    found = np.zeros(len(table))
    for number in range(folds):
        for held in sorted(set(table.chips)) if chips else [None]:
            test = (fold == number) & ((chip == held) if held is not None else True)
            train = (fold != number) & ((chip != held) if held is not None else True)
            if test.any() and train.any():
                found[test] = _predicted(_boosted(table.select(train), curve, seed), table.select(test))
    return found


def _residuals(table: LatencyTable, curve: TrialCurve, seed: int, cases: Sequence[str]) -> Residuals:
    outcome = table.outcomes(curve, seed=seed)
    off = {case: outcome - predicted_without(table, curve, seed=seed, chips=case == NEW) for case in cases}
    families = np.array([pool.family for pool in table.pools])
    quantiles: dict[str, tuple[float, ...]] = {}
    scales: dict[str, float] = {}
    shared: dict[str, float] = {}
    for name in sorted(set(families)):
        own = table.select(families == name)
        groups = [f"{network} {pool.device_id}" for network, pool in zip(own.networks, own.pools, strict=True)]
        scales |= scales_of(Errors(off[cases[0]][families == name], own.operators, groups), name)
        for case in cases:
            errors = Errors(off[case][families == name], own.operators, groups)
            quantiles[f"{case}/{name}"], shared[f"{case}/{name}"] = quantiles_of(errors, name, scales)
        again = np.array([value for pool in own.pools for value in _two_searches(pool, seed)] or [0.0])
        quantiles[f"{MEASURED}/{name}"] = tuple(float(value) for value in np.quantile(again, LEVELS))
    return Residuals(quantiles, scales, shared)


def _two_searches(pool: Pool, seed: int) -> tuple[float, ...]:
    """How far apart two searches of a pool are, in both directions."""
    bests = pool.two_log_bests(TRIALS, seed=seed)
    return () if bests is None else (bests[0] - bests[1], bests[1] - bests[0])
