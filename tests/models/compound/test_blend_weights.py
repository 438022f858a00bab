from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.errors import ModelError
from costhub.models.compound.blend_weights import Standard, fitted_weights

RNG = np.random.default_rng(0)


def test_the_spread_is_taken_within_groups() -> None:
    group = np.repeat([0, 1, 2], 50)
    within = RNG.normal(size=150)
    scores = np.stack([within, 3.0 * within + 1000.0 * group])

    standard = Standard.of(scores, group)

    assert standard.spread[1] == pytest.approx(3.0 * standard.spread[0], rel=1e-9)
    assert standard.weight.tolist() == [0.5, 0.5]


def test_on_the_common_scale_members_differ_by_the_level_of_groups_only() -> None:
    group = np.repeat([0, 1], 40)
    within = RNG.normal(size=80)

    one, other = Standard.of(np.stack([within, 7.0 * within - 2.0]), group)(
        np.stack([within, 7.0 * within - 2.0])
    )

    np.testing.assert_allclose(one, other, atol=1e-12)


def test_a_member_that_is_constant_within_groups_counts_for_nothing() -> None:
    group = np.repeat([0, 1], 3)

    standard = Standard.of(np.stack([np.full(6, 0.1), group * 0.3]), group)

    assert standard.spread.tolist() == [1.0, 1.0]


def test_numbers_come_back_from_json_to_the_last_digit() -> None:
    standard = Standard.of(RNG.normal(size=(3, 30)), np.repeat([0, 1, 2], 10))

    again = Standard.from_json(json.loads(json.dumps(standard.to_json())), members=3)

    for name in ("mean", "spread", "weight"):
        np.testing.assert_array_equal(getattr(again, name), getattr(standard, name))


@pytest.mark.parametrize(
    "found",
    [
        None, [], {}, {"mean": [0.0], "spread": [1.0]},
        {"mean": [0.0, 1.0], "spread": [1.0], "weight": [1.0]},
        {"mean": [0.0], "spread": [0.0], "weight": [1.0]},
        {"mean": [0.0], "spread": [1.0], "weight": [-1.0]},
        {"mean": [float("nan")], "spread": [1.0], "weight": [1.0]},
        {"mean": [True], "spread": [1.0], "weight": [1.0]},
        {"mean": ["0"], "spread": [1.0], "weight": [1.0]},
    ],
)  # fmt: skip
def test_a_scale_that_is_none_is_refused(found: object) -> None:
    with pytest.raises(ModelError, match="finite number for each of its 1 members"):
        Standard.from_json(found, members=1)


def test_fitted_weights_leave_out_a_member_that_knows_nothing(unseen: Programs) -> None:
    good, noise = np.log(unseen.throughput()), 3.0 * RNG.normal(size=unseen.n)

    weights = fitted_weights(np.stack([good, noise]), unseen)

    assert weights.tolist() == [1.0, 0.0]


def test_members_that_are_equally_good_are_weighted_equally(unseen: Programs) -> None:
    good = np.log(unseen.throughput())

    assert fitted_weights(np.stack([good, good, good]), unseen).tolist() == [1 / 3] * 3


def test_where_nothing_differs_weights_are_equal(unseen: Programs) -> None:
    same = replace(unseen, latency_s=np.full(unseen.n, 1e-3))

    assert fitted_weights(RNG.normal(size=(2, unseen.n)), same).tolist() == [0.5, 0.5]
