"""The benchmark of what accuracy buys a search: oracles with noise."""

from __future__ import annotations

import numpy as np
import pytest

from costhub.testing import made_replay
from scripts.bench.ceilings.value_of_accuracy import ERRORS, device_table, figures, model_figures, noisy_figures, panels

LATENCY_S = np.exp(np.random.default_rng(0).normal(size=400))


def test_an_oracle_without_noise_finds_the_optimum_at_once() -> None:
    found = noisy_figures(LATENCY_S, 0.0, seed=0, draws=3)

    assert found == {name: 1.0 for name in found}


def test_more_noise_is_worse_in_every_figure() -> None:
    little, much, chance = (noisy_figures(LATENCY_S, error, seed=0) for error in (0.1, 0.6, np.inf))

    for name in ("top_1", "pairwise", "best_of_1", "best_of_4"):
        assert little[name] > much[name] > chance[name], name
    assert little["best_of_64"] >= much["best_of_64"] > chance["best_of_64"]
    assert chance["pairwise"] == pytest.approx(0.5, abs=0.02)


def test_the_first_of_the_order_are_what_a_search_measures() -> None:
    scores = np.array([0.0, 3.0, 2.0, 1.0])
    found = figures(np.array([1.0, 4.0, 2.0, 3.0]), scores, np.random.default_rng(0))

    assert [found[f"best_of_{k}"] for k in (1, 4)] == [0.25, 1.0]
    assert found["top_1"] == 0.25


def test_a_model_is_judged_as_the_oracle_is() -> None:
    exact = model_figures(LATENCY_S, -np.log(LATENCY_S), seed=0)

    assert exact == pytest.approx(noisy_figures(LATENCY_S, 0.0, seed=0))


def test_a_device_has_a_line_for_each_noise_and_a_curve_for_each_number_of_trials() -> None:
    side = made_replay(side=8)
    rows = [{"device": "d", **row} for row in device_table([side, side], {}, 0)]

    assert len(rows) == len(ERRORS) + 1
    assert rows[-1]["scores"] == "random"
    curves = panels(rows)["d"]
    assert [curve["label"] for curve in curves] == ["1 trial", "4 trials", "16 trials", "64 trials"]
    assert all(curve["x"] == sorted(curve["x"]) for curve in curves)
