from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.errors import ModelError
from costhub.models.architectures import new_model
from costhub.models.compound.blend import Blend, ScoreScale
from costhub.models.parts import read_as
from costhub.models.protocol import CostModel
from costhub.papers.source_mixture import blend_of, blended_from
from costhub.testing import made_programs

SPEC = "per_store@1+relation@1"
SMALL = {"rounds": 10, "learning_rate": 0.2, "depth": 3}
STANDARD = ScoreScale(np.array([0.5, -2.0]), np.array([0.1, 3.0]), np.array([0.25, 0.75]))


@pytest.fixture(scope="module")
def programs() -> Programs:
    return made_programs(SPEC, workloads=4, each=30)


def fitted(arch: str, programs: Programs, options: dict[str, object], spec: str = SPEC) -> CostModel:
    model = new_model(arch, feature_spec=spec, options=options)
    [own] = read_as(programs, feature_spec=SPEC, wanted=[spec])
    model.fit(own, None, seed=0, progress=False)
    return model


def expected(models: list[CostModel], programs: Programs) -> np.ndarray:
    own = read_as(programs, feature_spec=SPEC, wanted=[model.feature_spec for model in models])
    scores = np.stack([m.predict(p.rows, p.counts) for m, p in zip(models, own, strict=True)])
    found: np.ndarray = STANDARD.weight @ STANDARD(scores)
    return found


def test_models_of_different_specs_are_joined_and_saved(programs: Programs, tmp_path: Path) -> None:
    models = [
        fitted("gbt", programs, {**SMALL, "objective": "rank"}, "per_store@1"),
        fitted("mlp", programs, {"hidden": 8, "epochs": 2, "bins": 0}, "relation@1"),
    ]

    found = blend_of(models, STANDARD)

    assert found.feature_spec == SPEC
    assert found.options.members == (
        "gbt(objective=rank,rounds=10,learning_rate=0.2,depth=3):per_store@1 mlp(bins=0,epochs=2,hidden=8):relation@1"
    )
    scores = found.predict(programs.rows, programs.counts)
    np.testing.assert_allclose(scores, expected(models, programs))
    found.save_weights(tmp_path)
    loaded = Blend(feature_spec=SPEC)
    loaded.load_weights(tmp_path, found.config())
    np.testing.assert_array_equal(loaded.predict(programs.rows, programs.counts), scores)


def test_the_members_of_a_blend_count_as_they_did(programs: Programs) -> None:
    words = "gbt(rounds=10,depth=3) gbt(rounds=10,depth=2):relation@1"
    models = [fitted("blend", programs, {"members": words}), fitted("gbt", programs, SMALL)]

    found = blend_of(models, STANDARD)

    assert [member.feature_spec for member in found.members] == [SPEC, "relation@1", SPEC]
    assert found.standard is not None
    assert found.standard.weight.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(found.predict(programs.rows, programs.counts), expected(models, programs), atol=1e-9)


def test_it_learns_from_nothing_like_any_blend(programs: Programs) -> None:
    found = blend_of([fitted("gbt", programs, SMALL)] * 2, STANDARD)

    found.fit(programs, None, seed=0, progress=False)

    assert [member.config()["rounds"] for member in found.members] == [10, 10]


def test_what_cannot_be_a_member_is_refused(programs: Programs) -> None:
    trees = fitted("gbt", programs, SMALL)
    ensemble = new_model("ensemble", feature_spec=SPEC)

    assert blended_from(ensemble) == []
    assert blended_from(trees) == [trees]
    with pytest.raises(ModelError, match=r"cannot be joined to one: members must be 1 to 6 words, got 7"):
        blend_of([trees] * 7, ScoreScale(np.zeros(7), np.ones(7), np.ones(7)))


def test_models_that_read_rows_of_different_widths_under_one_name_are_refused() -> None:
    models = []
    for columns in (3, 4):
        model = new_model("gbt", feature_spec="demo@1", options=SMALL)
        model.fit(made_programs("demo@1", columns=columns), None, seed=0, progress=False)
        models.append(model)

    with pytest.raises(ModelError, match=r"all read demo@1, but rows of 3 and 4 columns"):
        blend_of(models, STANDARD)
