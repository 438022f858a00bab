"""Intervals from residuals: they nest, they hold what they say, and sums add up."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from costhub.errors import ModelError
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
    shared_part,
)


def residuals(shared: float = 0.0) -> Residuals:
    rng = np.random.default_rng(0)
    errors = Errors(rng.normal(0.1, 0.3, 2000), ["conv"] * 1000 + ["norm"] * 1000, [str(n) for n in range(2000)])
    scales = scales_of(errors, "cpu")
    quantiles, _ = quantiles_of(errors, "cpu", scales)
    return Residuals({f"{KNOWN}/cpu": quantiles}, scales, {f"{KNOWN}/cpu": shared})


def figure(us: float = 100.0, operator: str = "conv", case: str = KNOWN) -> Uncertain:
    return Uncertain(float(np.log(us)), case, "cpu", operator)


def test_intervals_nest_and_hold_the_figure() -> None:
    found = residuals()
    bounds = [found.interval(figure(), share) for share in (0.01, 0.5, 0.8, 0.9, 0.99)]

    assert all(low <= figure().us <= high for low, high in bounds)
    assert [low for low, _ in bounds] == sorted((low for low, _ in bounds), reverse=True)
    assert [high for _, high in bounds] == sorted(high for _, high in bounds)


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_an_interval_holds_the_share_that_it_names(share: float) -> None:
    low, high = residuals().interval(figure(), share)
    outcomes = 100.0 * np.exp(np.random.default_rng(1).normal(0.1, 0.3, 5000))

    assert np.mean((low <= outcomes) & (outcomes <= high)) == pytest.approx(share, abs=0.03)


def test_an_interval_has_the_variance_that_is_added() -> None:
    found = residuals()
    usual, longer = (np.log(found.draws([replace(figure(), extra_variance=more)])[0]) for more in (0.0, 0.5))

    assert np.var(longer) - np.var(usual) == pytest.approx(0.5, rel=0.1)
    assert np.median(longer) == pytest.approx(np.median(usual), abs=0.02)


def test_an_operator_that_is_harder_to_predict_has_wider_intervals() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(0, 0.1, 500), rng.normal(0, 0.5, 500)])
    scales = scales_of(Errors(values, ["conv"] * 500 + ["norm"] * 500, [""] * 1000), "cpu")

    assert scales["cpu/conv"] < scales["cpu/"] < scales["cpu/norm"]


def test_what_is_off_together_makes_the_sum_less_certain() -> None:
    kernels = [figure() for _ in range(16)]
    alone, together = (np.std(residuals(shared).draws(kernels).sum(axis=0)) for shared in (0.0, 0.9))

    assert together > 2 * alone


def test_one_kernel_has_the_same_interval_by_draws() -> None:
    found = residuals()

    drawn = np.quantile(found.draws([figure()])[0], [0.05, 0.95])
    assert drawn == pytest.approx(found.interval(figure(), 0.9), rel=0.05)


def test_residuals_of_a_network_that_rise_and_fall_together_are_seen() -> None:
    rng = np.random.default_rng(0)
    own, common = rng.normal(size=600), np.repeat(rng.normal(size=60), 10)
    groups = [str(number // 10) for number in range(600)]

    assert shared_part(own, groups) < 0.1
    assert shared_part(own + common, groups) == pytest.approx(0.5, abs=0.1)
    assert shared_part(own, [str(number) for number in range(600)]) == 0.0


def test_a_case_without_residuals_gives_no_interval() -> None:
    for case in (NEW, MEASURED):
        with pytest.raises(ModelError, match=f"no residuals of {case}/cpu"):
            residuals().interval(figure(case=case), 0.9)


def test_json_brings_back_the_same_intervals() -> None:
    found = residuals(0.3)
    again = Residuals.from_json(json.loads(json.dumps(found.to_json())))

    assert again.interval(figure(), 0.9) == pytest.approx(found.interval(figure(), 0.9), rel=1e-4)
    assert again.shared == found.shared


GOOD: dict[str, Any] = {
    "quantiles": {"known/cpu": LEVELS.tolist()},
    "scales": {"cpu/": 1.0},
    "shared": {"known/cpu": 0.1},
}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"quantiles": {"known/cpu": LEVELS[::-1].tolist()}}, "rising numbers"),
        ({"quantiles": {"known/cpu": [0.0, 1.0]}}, "rising numbers"),
        ({"quantiles": {"known/cpu": [*LEVELS[:-1].tolist(), float("inf")]}}, "rising numbers"),
        ({"quantiles": {"known/cpu": [float("nan")] * len(LEVELS)}}, "rising numbers"),
        ({"scales": {"cpu/": -1.0}}, "positive"),
        ({"scales": {"cpu/": float("nan")}}, "positive"),
        ({"shared": {"known/cpu": 1.5}}, "0 to 1"),
        ({"more": 1}, "need quantiles"),
    ],
)
def test_a_file_with_other_content_is_refused(changed: dict[str, Any], reason: str) -> None:
    assert Residuals.from_json(GOOD).shared == {"known/cpu": 0.1}
    with pytest.raises(ValueError, match=reason):
        Residuals.from_json({**GOOD, **changed})
