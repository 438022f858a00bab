from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.models.architectures import new_model
from costhub.models.compound.blend import Blend, BlendOptions
from costhub.models.compound.conditioned import Conditioned
from costhub.models.compound.ensemble import Ensemble, EnsembleOptions
from costhub.models.compound.inner import Compound, leaves, update_inner
from costhub.models.protocol import CostModel
from costhub.models.trees.gbt import Gbt, GbtOptions
from costhub.testing import made_programs

TREES = "gbt(rounds=5,learning_rate=0.2,depth=3)"
SPEC = "per_store@1+relation@1"
CPU = {"device_id": "demo", "kind": "cpu", "cores": 2}


def ensemble() -> CostModel:
    return Ensemble(feature_spec="demo@1", options=EnsembleOptions(members=3, member=TREES))


def conditioned() -> CostModel:
    options = {"rounds": 5, "learning_rate": 0.2, "depth": 3}
    base = new_model("gbt", feature_spec="demo@1", options=options)
    return Conditioned(feature_spec="demo@1", base=base).bind(CPU)


def test_a_simple_model_is_its_own_leaf(train: Programs) -> None:
    model = Gbt(feature_spec="demo@1", options=GbtOptions(rounds=5))

    assert not isinstance(model, Compound)
    assert list(leaves(model, train)) == [(model, train)]


@pytest.mark.parametrize(("make", "count"), [(ensemble, 3), (conditioned, 1)])
def test_leaves_read_the_programs_as_they_get_them(
    make: Callable[[], CostModel], count: int, train: Programs
) -> None:
    model = make()
    model.fit(train, None, seed=0, progress=False)

    found = list(leaves(model, train))

    assert len(found) == count
    scores = [part.predict(own.rows, own.counts) for part, own in found]
    np.testing.assert_allclose(np.mean(scores, axis=0), model.predict(train.rows, train.counts), rtol=1e-6)


def test_a_blend_in_a_blend_of_specs_is_followed_down() -> None:
    programs = made_programs(SPEC, workloads=4, each=20)
    members = f"{TREES} {TREES}:relation@1 mlp(hidden=4,epochs=1,bins=0):per_store@1"
    model = Blend(feature_spec=SPEC, options=BlendOptions(members=members))
    model.fit(programs, None, seed=0, progress=False)

    found = list(leaves(model, programs))

    assert [part.arch for part, _ in found] == ["gbt", "gbt", "mlp"]
    assert [own.rows.shape[1] for _, own in found] == [173, 123, 172]
    assert all(own.n == programs.n for _, own in found)


def test_updating_the_inner_models_changes_each(train: Programs, unseen: Programs) -> None:
    model = ensemble()
    model.fit(train, None, seed=0, progress=False)
    assert isinstance(model, Ensemble)
    before = [part.predict(unseen.rows, unseen.counts) for part, _ in leaves(model, unseen)]

    update_inner(model, unseen, seed=0)

    after = [part.predict(unseen.rows, unseen.counts) for part, _ in leaves(model, unseen)]
    assert not any(np.array_equal(a, b) for a, b in zip(after, before, strict=True))
