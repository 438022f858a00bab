from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.errors import ModelError
from costhub.models.compound.blend import Blend, BlendOptions, ScoreScale, fitted_weights
from costhub.models.evaluate import evaluate
from costhub.models.folder import load_model, save_model
from costhub.models.train import describe_model
from costhub.testing import made_programs

RNG = np.random.default_rng(0)


def test_the_spread_is_taken_within_groups() -> None:
    group = np.repeat([0, 1, 2], 50)
    within = RNG.normal(size=150)
    scores = np.stack([within, 3.0 * within + 1000.0 * group])

    standard = ScoreScale.of(scores, group)

    assert standard.spread[1] == pytest.approx(3.0 * standard.spread[0], rel=1e-9)
    assert standard.weight.tolist() == [0.5, 0.5]


def test_on_the_common_scale_members_differ_by_the_level_of_groups_only() -> None:
    group = np.repeat([0, 1], 40)
    within = RNG.normal(size=80)

    one, other = ScoreScale.of(np.stack([within, 7.0 * within - 2.0]), group)(np.stack([within, 7.0 * within - 2.0]))

    np.testing.assert_allclose(one, other, atol=1e-12)


def test_a_member_that_is_constant_within_groups_counts_for_nothing() -> None:
    group = np.repeat([0, 1], 3)

    standard = ScoreScale.of(np.stack([np.full(6, 0.1), group * 0.3]), group)

    assert standard.spread.tolist() == [1.0, 1.0]


def test_numbers_come_back_from_json_to_the_last_digit() -> None:
    standard = ScoreScale.of(RNG.normal(size=(3, 30)), np.repeat([0, 1, 2], 10))

    again = ScoreScale.from_json(json.loads(json.dumps(standard.to_json())), members=3)

    for name in ("mean", "spread", "weight"):
        np.testing.assert_array_equal(getattr(again, name), getattr(standard, name))


@pytest.mark.parametrize(
    "found",
    [
        None,
        [],
        {},
        {"mean": [0.0], "spread": [1.0]},
        {"mean": [0.0, 1.0], "spread": [1.0], "weight": [1.0]},
        {"mean": [0.0], "spread": [0.0], "weight": [1.0]},
        {"mean": [0.0], "spread": [1.0], "weight": [-1.0]},
        {"mean": [float("nan")], "spread": [1.0], "weight": [1.0]},
        {"mean": [True], "spread": [1.0], "weight": [1.0]},
        {"mean": ["0"], "spread": [1.0], "weight": [1.0]},
    ],
)
def test_a_scale_that_is_none_is_refused(found: object) -> None:
    with pytest.raises(ModelError, match="finite number for each of its 1 members"):
        ScoreScale.from_json(found, members=1)


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


SPEC = "per_store@1+relation@1"
MEMBERS = (
    "gbt(rounds=15,learning_rate=0.2,depth=3) gbt(rounds=10,learning_rate=0.2,depth=3):relation@1 "
    "mlp(hidden=8,epochs=3,bins=0):per_store@1"
)


@pytest.fixture(scope="module")
def programs() -> Programs:
    return made_programs(SPEC, workloads=6, each=30)


@pytest.fixture(scope="module")
def blend(programs: Programs) -> Blend:
    model = Blend(feature_spec=SPEC, options=BlendOptions(members=MEMBERS))
    model.fit(programs, None, seed=0, progress=False)
    return model


def test_members_read_their_own_parts(blend: Blend) -> None:
    assert [member.feature_spec for member in blend.members] == [SPEC, "relation@1", "per_store@1"]
    assert [member.config()["columns"] for member in blend.members] == [173, 123, 172]


def test_the_score_is_the_weighted_mean_of_the_standardised_scores(blend: Blend, programs: Programs) -> None:
    assert blend.standard is not None
    own = blend._by_member(programs.rows, programs.counts)
    expected = ((own - blend.standard.mean[:, None]) / blend.standard.spread[:, None]).mean(axis=0)

    np.testing.assert_allclose(blend.predict(programs.rows, programs.counts), expected)
    # No member drowns the others: on the programs it was fitted on each has the same spread within groups.
    within = [own[:, programs.group == g] - own[:, programs.group == g].mean(axis=1, keepdims=True) for g in range(6)]
    spread = np.sqrt((np.concatenate(within, axis=1) ** 2).mean(axis=1)) / blend.standard.spread
    np.testing.assert_allclose(spread, 1.0, rtol=1e-9)


def test_it_learns(blend: Blend) -> None:
    assert evaluate(blend, made_programs(SPEC, workloads=2, seed=1)).pairwise > 0.6


def test_a_folder_brings_back_members_scales_and_weights(blend: Blend, programs: Programs, tmp_path: Path) -> None:
    info = describe_model(blend, programs, device_id="acme-one", seed=0, licence="Apache-2.0")

    loaded, _ = load_model(save_model(blend, tmp_path / "model", info))

    np.testing.assert_array_equal(
        loaded.predict(programs.rows, programs.counts), blend.predict(programs.rows, programs.counts)
    )
    assert loaded.config() == blend.config()


def test_an_update_reaches_the_members_and_leaves_the_scales(programs: Programs, blend: Blend) -> None:
    model = Blend(feature_spec=SPEC, options=BlendOptions(members=MEMBERS))
    model.fit(programs, None, seed=0, progress=False)
    before = model._by_member(programs.rows, programs.counts)
    assert model.standard is not None
    scale = model.standard.to_json()

    model.update(made_programs(SPEC, workloads=1, seed=2), seed=0)

    changed = np.abs(model._by_member(programs.rows, programs.counts) - before).max(axis=1)
    assert (changed > 0.0).all()
    assert model.standard.to_json() == scale


def test_weights_are_fitted_on_validation_programs() -> None:
    train, valid = (made_programs("demo@1", workloads=5, each=30, seed=seed) for seed in (0, 1))
    # Two trees of depth 1 know little beside 60 of depth 4.
    members = "gbt(rounds=60,learning_rate=0.2,depth=4) gbt(rounds=2,depth=1,colsample=0.2)"
    model = Blend(feature_spec="demo@1", options=BlendOptions(members=members, weights="fitted"))

    model.fit(train, valid, seed=0, progress=False)

    assert model.standard is not None
    assert model.standard.weight[0] > model.standard.weight[1]
    assert model.standard.weight.sum() == pytest.approx(1.0)

    model.fit(train, None, seed=0, progress=False)
    assert model.standard.weight.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"members": ""}, "1 to 6 words, got 0"),
        ({"members": "gbt " * 7}, "1 to 6 words, got 7"),
        ({"members": "gbt perceiver"}, "a member must be one of"),
        ({"members": "gbt,mlp"}, "a member must be ARCH"),
        ({"members": "blend"}, "a member must be one of"),
        ({"weights": "best"}, "weights must be one of equal, fitted"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        BlendOptions(**options)


def test_a_member_that_reads_what_is_not_there_is_refused() -> None:
    with pytest.raises(ModelError, match=r"reads trace_tokens@1, which is not a part of per_store@1\+relation@1"):
        Blend(feature_spec=SPEC, options=BlendOptions(members="gbt gbt:trace_tokens@1+per_store@1"))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"standard": None}, "standard of this blend model"),
        ({"standard": {"mean": [0.0] * 3, "spread": [1.0, 1.0, 1e-300], "weight": [0.3] * 3}}, "spreads at least"),
        ({"standard": {"mean": [0.0] * 3, "spread": [1.0, 1.0, 1e300], "weight": [0.3] * 3}}, "spreads within"),
        ({"standard": {"mean": [1e300, 0.0, 0.0], "spread": [1.0] * 3, "weight": [0.3] * 3}}, "means and spreads"),
        ({"standard": {"mean": [0.0] * 3, "spread": [1.0] * 3, "weight": [0.3, 0.3, 1e9]}}, "weights from 0 to 1"),
        ({"standard": {"mean": [0.0] * 3, "spread": [1.0] * 3, "weight": [0.3, 0.3, -0.1]}}, "weights from 0 to 1"),
        ({"standard": {"mean": [10**400, 0, 0], "spread": [1.0] * 3, "weight": [0.3] * 3}}, "a finite number"),
        ({"fitted": []}, "for each of the 3 members"),
        ({"members": "gbt"}, "each of its 1 members"),
        ({"members": "gbt mlp:relation@1 gbt"}, "mlp model|gbt model"),
        ({"weights": "best"}, "weights must be one of"),
        ({"columns": 172}, "have 173 columns, got 172"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(
    blend: Blend, tmp_path: Path, changes: dict[str, object], sentence: str
) -> None:
    blend.save_weights(tmp_path)

    with pytest.raises(ModelError, match=sentence):
        Blend(feature_spec=SPEC).load_weights(tmp_path, {**blend.config(), **changes})
