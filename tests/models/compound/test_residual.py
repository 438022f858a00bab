from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.errors import ModelError
from costhub.models.architectures import new_model
from costhub.models.compound.residual import Residual, ResidualOptions, slope_of
from costhub.models.evaluate import evaluate
from costhub.models.folder import load_model, save_model
from costhub.models.train import describe_model
from costhub.models.trees.gbt import Gbt, GbtOptions


def on_target(programs: Programs) -> Programs:
    """The same programs on a device that also dislikes another column."""
    per_program = np.zeros(programs.n)
    np.add.at(per_program, np.repeat(np.arange(programs.n), programs.counts), programs.rows[:, 3])
    return replace(programs, latency_s=programs.latency_s * np.exp(0.5 * per_program))


@pytest.fixture(params=["gbt", "mlp"])
def model(request: pytest.FixtureRequest, train: Programs) -> Residual:
    options = {"rounds": 40, "learning_rate": 0.2} if request.param == "gbt" else {"hidden": 16, "bins": 0}
    base = new_model(request.param, feature_spec="demo@1", options=options)
    found = Residual(feature_spec="demo@1", base=base)
    found.fit(train, None, seed=0, progress=False)
    return found


def test_before_it_has_learned_it_is_the_global_model(model: Residual, unseen: Programs) -> None:
    found = model.predict(unseen.rows, unseen.counts)

    np.testing.assert_array_equal(found, model.base.predict(unseen.rows, unseen.counts))


def test_the_local_model_adds_what_the_target_has_changed(model: Residual, train: Programs, unseen: Programs) -> None:
    before, of_base = (
        evaluate(model, on_target(unseen)).pairwise,
        model.base.predict(unseen.rows, unseen.counts),
    )

    model.update(on_target(train), seed=0)

    assert evaluate(model, on_target(unseen)).pairwise > before + 0.05
    np.testing.assert_array_equal(model.base.predict(unseen.rows, unseen.counts), of_base)


def test_the_score_is_the_scaled_global_one_plus_a_correction_of_what_it_leaves(
    model: Residual, train: Programs, unseen: Programs
) -> None:
    """AutoTVM, eq. 4, with the slope by a regression that gives each workload a level of its own."""
    target = on_target(train)
    of_base, log_speed = model.base.predict(target.rows, target.counts), np.log(np.maximum(target.throughput(), 1e-3))
    levels = np.eye(target.group.max() + 1)[target.group]
    slope = np.linalg.lstsq(np.column_stack([of_base, levels]), log_speed, rcond=None)[0][0]

    model.update(target, seed=0)

    assert model.slope == pytest.approx(slope)
    assert abs(slope - 1.0) > 0.1
    local = Gbt(feature_spec="demo@1", options=GbtOptions(objective="log"))
    local.correct(target, scores=model.slope * of_base, seed=0)
    expected = model.slope * model.base.predict(unseen.rows, unseen.counts) + local.predict(unseen.rows, unseen.counts)
    np.testing.assert_array_equal(model.predict(unseen.rows, unseen.counts), expected)


def test_an_earlier_local_model_is_forgotten(model: Residual, train: Programs, unseen: Programs) -> None:
    model.update(on_target(train), seed=0)
    once = model.predict(unseen.rows, unseen.counts)

    model.update(train, seed=0)
    model.update(on_target(train), seed=0)

    np.testing.assert_array_equal(model.predict(unseen.rows, unseen.counts), once)


def test_scores_that_rank_the_wrong_way_round_are_left_out() -> None:
    group = np.zeros(3, np.int64)

    assert slope_of(np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0]), group) == 0.0
    assert slope_of(np.ones(3), np.array([3.0, 2.0, 1.0]), group) == 1.0


def test_a_folder_brings_back_both_models(model: Residual, train: Programs, unseen: Programs, tmp_path: Path) -> None:
    model.update(on_target(train), seed=0)
    info = describe_model(model, train, device_id="acme-one", seed=0, licence="Apache-2.0")

    loaded, _ = load_model(save_model(model, tmp_path / "model", info))

    found = loaded.predict(unseen.rows, unseen.counts)
    np.testing.assert_allclose(found, model.predict(unseen.rows, unseen.counts), rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"slope": -1.0}, "slope of this residual model must be a number, 0 or more, got -1.0"),
        ({"slope": float("nan")}, "slope"),
        ({"slope": True}, "slope"),
        ({"base": "residual"}, "base must be one of"),
        ({"fitted": []}, "needs fitted"),
        ({"columns": 7}, r"config\.json describes 7"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(
    train: Programs, tmp_path: Path, changes: dict[str, object], sentence: str
) -> None:
    base = new_model("gbt", feature_spec="demo@1", options={"rounds": 5})
    model = Residual(feature_spec="demo@1", base=base)
    model.fit(train, None, seed=0, progress=False)
    model.save_weights(tmp_path)

    with pytest.raises(ModelError, match=sentence):
        Residual(feature_spec="demo@1").load_weights(tmp_path, {**model.config(), **changes})


def test_a_model_that_was_not_fitted_says_so(train: Programs) -> None:
    with pytest.raises(ModelError, match="fit"):
        Residual(feature_spec="demo@1").update(train, seed=0)


class Foreign(Gbt):
    """A model whose class has no entry point."""

    arch = "foreign"


class Narrow(Gbt):
    """A model that does not tell the width of its rows."""

    def config(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize("base", [Foreign, Narrow])
def test_a_model_that_it_could_not_save_is_refused_with_a_sentence(base: type[Gbt]) -> None:
    with pytest.raises(
        ModelError, match="The method residual needs an architecture with an entry point, and `columns`"
    ):
        Residual(feature_spec="demo@1", base=base(feature_spec="demo@1"))


def test_a_residual_of_a_residual_is_refused() -> None:
    with pytest.raises(ValueError, match="base must be one of"):
        ResidualOptions(base="residual")


def test_a_slope_that_could_not_be_loaded_again_is_not_learned() -> None:
    scores = np.array([0.0, 1e-12])
    assert slope_of(scores, np.array([0.0, 3.0]), np.zeros(2, np.int64)) < 1e6
