"""The latency predictor: what it learns, what it may not see, and that a broken folder is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.api.estimating.estimate import load_predictor
from costhub.errors import CosthubError, DeviceError, ModelError
from costhub.hub.catalogue.devices import find_device
from costhub.models.latency.predictor import CONFIG, TREES, LatencyPredictor, predicted_without
from costhub.models.latency.residuals import KNOWN, NEW
from tests.models.latency.made_table import DEVICES, made_table, numbers

TABLE = made_table()
MOST_BYTES = 2 << 20


@pytest.fixture(scope="module")
def fitted() -> LatencyPredictor:
    return replace(LatencyPredictor.fit(TABLE), rest_shares=(0.02, 0.05), facts={"seed": 0})


def us(fitted: LatencyPredictor, flop: float, operator: str, device: str = "cpu-4") -> float:
    return fitted.predict(numbers(flop, operator), operator, DEVICES[device]).us


def test_a_law_of_roofline_and_operator_is_learned(fitted: LatencyPredictor) -> None:
    for flop in (20.0, 25.0):
        for operator, factor in (("conv", 2.0), ("norm", 10.0)):
            law = 2**flop / DEVICES["cpu-4"]["peak_gflops"] / 1e3 * factor

            assert us(fitted, flop, operator) == pytest.approx(law, rel=0.15)


def test_more_trials_find_no_slower_program(fitted: LatencyPredictor) -> None:
    found = [fitted.predict(numbers(22.0), "conv", DEVICES["cpu-2"], trials=n).us for n in (1, 4, 16, 64, 1000)]

    assert found == sorted(found, reverse=True)
    assert found[0] > 1.2 * found[-1]


def test_a_new_device_is_less_certain_than_a_known_one(fitted: LatencyPredictor) -> None:
    known = fitted.predict(numbers(22.0), "conv", DEVICES["cpu-2"])
    new = fitted.predict(numbers(22.0), "conv", {**DEVICES["cpu-2"], "device_id": "board"})

    assert (known.case, new.case) == (KNOWN, NEW)
    assert known.log_us == new.log_us  # the trees read figures, not names


def test_no_row_is_predicted_by_trees_that_saw_its_network_or_chip() -> None:
    odd = TABLE.networks[0]
    factor = np.array([50.0 if network == odd else 1.0 for network in TABLE.networks])
    pools = tuple(replace(pool, latency_s=pool.latency_s * f) for pool, f in zip(TABLE.pools, factor, strict=True))
    curve = LatencyPredictor.fit(TABLE, cases=()).curve

    off = np.array(replace(TABLE, pools=pools).labels(curve)) - predicted_without(
        replace(TABLE, pools=pools), curve, seed=0
    )
    assert (off[factor > 1] > np.log(10)).all()

    chip = np.array([50.0 if name == "cpu2" else 1.0 for name in TABLE.chips])
    pools = tuple(replace(pool, latency_s=pool.latency_s * f) for pool, f in zip(TABLE.pools, chip, strict=True))
    off = replace(TABLE, pools=pools).labels(curve) - predicted_without(
        replace(TABLE, pools=pools), curve, seed=0, chips=True
    )
    assert (off[chip > 1] > np.log(10)).all()


def test_intervals_hold_what_they_say_on_other_workloads(fitted: LatencyPredictor) -> None:
    other = made_table(seed=1)
    outcome, found = other.outcomes(fitted.curve, seed=5), fitted.log_us(other)
    for share in (0.5, 0.9):
        held = []
        for pool, operator, value, truth in zip(other.pools, other.operators, found, outcome, strict=True):
            figure = fitted.predict(numbers(20.0, operator), operator, DEVICES[pool.device_id])
            low, high = fitted.residuals.interval(replace(figure, log_us=float(value)), share)
            held.append(low <= np.exp(truth) <= high)

        assert share - 0.1 < np.mean(held)


@pytest.mark.parametrize("trials", [1, 4, 16])
def test_intervals_of_short_searches_hold_what_they_say_too(fitted: LatencyPredictor, trials: int) -> None:
    other = made_table(seed=1)
    held = []
    for pool, operator, value in zip(other.pools, other.operators, fitted.log_us(other), strict=True):
        figure = fitted.predict(numbers(20.0, operator), operator, DEVICES[pool.device_id], trials=trials)
        figure = replace(figure, log_us=float(value) + fitted.curve(pool.family, trials))
        low, high = fitted.residuals.interval(figure, 0.8)
        held.append(low <= 1e6 * np.exp(pool.drawn_log_best(trials, seed=7)) <= high)

    assert 0.7 < np.mean(held) < 0.95


def test_a_family_that_was_not_learned_is_refused() -> None:
    cpus = TABLE.select([pool.family == "cpu" for pool in TABLE.pools])
    fitted = LatencyPredictor.fit(cpus, cases=(KNOWN,))

    with pytest.raises(DeviceError, match="learned from no gpu"):
        fitted.predict(numbers(20.0), "conv", DEVICES["cuda-4"])


def test_a_folder_brings_back_the_same_figures(fitted: LatencyPredictor, tmp_path: Path) -> None:
    fitted.save(tmp_path / "p")
    again = LatencyPredictor.load(tmp_path / "p")

    assert us(again, 21.0, "conv") == us(fitted, 21.0, "conv")
    assert (again.devices, again.workloads, again.rest_shares) == (fitted.devices, fitted.workloads, (0.02, 0.05))
    assert again.facts == {"seed": 0}


def test_a_folder_of_before_the_luck_was_kept_still_predicts(fitted: LatencyPredictor, tmp_path: Path) -> None:
    fitted.save(tmp_path / "p")
    config = json.loads((tmp_path / "p" / CONFIG).read_text())
    del config["luck"]
    (tmp_path / "p" / CONFIG).write_text(json.dumps(config))
    again = LatencyPredictor.load(tmp_path / "p")

    assert us(again, 21.0, "conv") == us(fitted, 21.0, "conv")
    assert again.curve.extra_variance("cpu", 1) == 0.0 < fitted.curve.extra_variance("cpu", 1)


def test_equal_tables_and_seeds_give_equal_trees() -> None:
    first, second = (LatencyPredictor.fit(TABLE, seed=3, cases=()) for _ in range(2))

    assert (first.log_us(TABLE) == second.log_us(TABLE)).all()


def edited(change: dict[str, Any]) -> Any:
    def edit(folder: Path) -> None:
        config = json.loads((folder / CONFIG).read_text())
        (folder / CONFIG).write_text(json.dumps({**config, **change}))

    return edit


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda folder: (folder / CONFIG).unlink(), "has no config.json"),
        (lambda folder: (folder / TREES).unlink(), "trees"),
        (lambda folder: (folder / TREES).write_bytes(b"{"), "damaged or cut short"),
        (lambda folder: (folder / TREES).write_bytes((folder / TREES).read_bytes()[:-40]), "damaged or cut short"),
        (lambda folder: (folder / CONFIG).write_text("{"), "cannot be used"),
        (lambda folder: (folder / CONFIG).write_text("[" * 100_000), "cannot be used"),
        (edited({"costhub": "model"}), "it is not a latency predictor"),
        (edited({"version": 99}), "has version 99"),
        (edited({"layout": "latency@9"}), "latency@9"),
        (edited({"curve": {"cpu": [[64, 0.0], [16, 0.1]]}}), "rising trials"),
        (edited({"curve": {"cpu": []}}), "rising trials"),
        (edited({"curve": {"cpu": [[1, float("nan")]]}}), "rising trials"),
        (edited({"luck": {"cpu": [[64, 0.0], [16, 0.1]]}}), "rising trials"),
        (edited({"luck": {"cpu": [[1, -0.1]]}}), "negative variance"),
        (edited({"rest_shares": [0.2, 0.1]}), "rising shares"),
        (edited({"rest_shares": [float("nan")]}), "rising shares"),
        (edited({"residuals": {}}), "need quantiles"),
        (edited({"devices": 3}), "cannot be used"),
    ],
)
def test_a_broken_folder_is_refused_with_a_sentence(
    fitted: LatencyPredictor, tmp_path: Path, damage: Any, says: str
) -> None:
    fitted.save(tmp_path / "p")
    damage(tmp_path / "p")

    with pytest.raises(CosthubError, match=says):
        LatencyPredictor.load(tmp_path / "p")


def test_trees_of_another_layout_are_refused(fitted: LatencyPredictor, tmp_path: Path) -> None:
    import xgboost as xgb

    fitted.save(tmp_path / "p")
    booster = xgb.train({}, xgb.DMatrix(np.eye(4), label=np.arange(4.0)), 2)
    booster.save_model(tmp_path / "p" / TREES)

    with pytest.raises(ModelError, match="reads 4 columns"):
        LatencyPredictor.load(tmp_path / "p")


def test_the_shipped_predictor_is_small_and_says_where_it_comes_from() -> None:
    shipped = load_predictor()

    assert {"datasets", "seed", "versions", "created", "licence"} <= shipped.facts.keys()
    assert len(shipped.devices) == 20
    assert shipped.rest_shares


@pytest.mark.parametrize(
    ("device", "us"),
    [("amd-epyc-zen5-2c", 122.089), ("intel-xeon-graniterapids-2c", 115.435), ("nvidia-a100", 57.208)],
)
def test_the_shipped_predictor_gives_the_figures_it_was_trained_to_give(device: str, us: float) -> None:
    # Training it anew (scripts.release train-latency) changes them; another version of XGBoost must not.
    row = find_device(device)
    assert row is not None

    found = load_predictor().predict(numbers(24.0, "matmul"), "matmul", row.row())

    assert found.case == KNOWN
    assert found.us == pytest.approx(us, rel=1e-3)
