"""What the protocol promises, of every architecture."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.programs import Programs
from costhub.errors import DataError, ModelError
from costhub.models.architectures import ARCHITECTURES, new_model
from costhub.models.compound.blend import Blend, BlendOptions
from costhub.models.compound.conditioned import Conditioned
from costhub.models.compound.residual import Residual
from costhub.models.evaluate import evaluate
from costhub.models.networks.mlp import Mlp, MlpOptions
from costhub.models.networks.tree_gru import TreeGru, TreeGruOptions
from costhub.models.protocol import CostModel, Resumable, SubModels, sub_models, update_sub_models
from costhub.models.trees.gbt import Gbt, GbtOptions
from costhub.papers.autotvm_models import Ensemble, EnsembleOptions
from costhub.papers.tlp import TokenAttention, TokenAttentionOptions
from costhub.testing import made_programs

MakePrograms = Callable[..., Programs]
Fitted = Callable[[str], CostModel]
Scores = npt.NDArray[np.float64]

SMALL: dict[str, Callable[[], CostModel]] = {
    "mlp": lambda: Mlp(feature_spec="demo@1", options=MlpOptions(hidden=24, epochs=25, learning_rate=5e-3, members=2)),
    "gbt": lambda: Gbt(feature_spec="demo@1", options=GbtOptions(rounds=30, learning_rate=0.2, depth=4)),
    "treegru": lambda: TreeGru(
        feature_spec="demo@1",
        options=TreeGruOptions(hidden=16, slots=2, epochs=25, batch=64, chunk=16, learning_rate=5e-3),
    ),
    "tokens": lambda: TokenAttention(
        feature_spec="demo@1",
        options=TokenAttentionOptions(hidden=16, heads=2, epochs=25, batch=64, chunk=16, learning_rate=5e-3),
    ),
    "conditioned": lambda: Conditioned(feature_spec="demo@1", base=SMALL["gbt"]()).bind(
        {"device_id": "demo", "kind": "cpu", "cores": 2}
    ),
    "ensemble": lambda: Ensemble(
        feature_spec="demo@1",
        options=EnsembleOptions(members=2, member="gbt(rounds=30,learning_rate=0.2,depth=4)"),
    ),
    "blend": lambda: Blend(
        feature_spec="demo@1",
        options=BlendOptions(members="gbt(rounds=30,learning_rate=0.2,depth=4) mlp(hidden=24,epochs=15)"),
    ),
    "residual": lambda: Residual(feature_spec="demo@1", base=SMALL["gbt"]()),
}
every_arch = pytest.mark.parametrize("arch", sorted(SMALL))


@pytest.fixture(scope="module")
def fitted(train: Programs, make_programs: MakePrograms) -> Fitted:
    """A small model of each architecture; tests must not change it."""

    @cache
    def fit(arch: str) -> CostModel:
        model = SMALL[arch]()
        model.fit(train, make_programs(2, seed=5), seed=0, progress=False)
        return model

    return fit


def scores(model: CostModel, programs: Programs) -> Scores:
    return model.predict(programs.rows, programs.counts)


def joined(a: Programs, b: Programs) -> Programs:
    return Programs(
        np.concatenate([a.rows, b.rows]),
        np.concatenate([a.counts, b.counts]),
        np.concatenate([a.workload, b.workload]),
        a.workload_ids,
        np.concatenate([a.latency_s, b.latency_s]),
    )


def test_every_architecture_is_tested_here() -> None:
    assert set(SMALL) == set(ARCHITECTURES)


@every_arch
def test_it_ranks_programs_of_workloads_it_has_not_seen(arch: str, fitted: Fitted, unseen: Programs) -> None:
    found = evaluate(fitted(arch), unseen)

    assert found.pairwise > 0.8
    assert found.top_5 > 0.9


@every_arch
@given(st.integers(0, 160))
def test_a_score_does_not_depend_on_the_rest_of_the_batch(
    arch: str, fitted: Fitted, unseen: Programs, cut: int
) -> None:
    order = np.random.default_rng(cut).permutation(unseen.n)
    a, b = unseen.select(order[:cut]), unseen.select(order[cut:])

    together = scores(fitted(arch), joined(a, b))

    np.testing.assert_allclose(
        together, np.concatenate([scores(fitted(arch), a), scores(fitted(arch), b)]), rtol=1e-9, atol=1e-9
    )


@every_arch
def test_scores_are_finite_doubles_and_programs_without_rows_have_one(
    arch: str, fitted: Fitted, unseen: Programs
) -> None:
    found = scores(fitted(arch), unseen)

    assert found.dtype == np.float64
    assert found.shape == (unseen.n,)
    assert np.isfinite(found).all()
    assert (unseen.counts == 0).any()
    assert len(set(found[unseen.counts == 0])) == 1


@every_arch
@pytest.mark.parametrize("n", [0, 1, 3])
def test_programs_that_all_have_no_rows_are_scored(arch: str, fitted: Fitted, n: int) -> None:
    assert fitted(arch).predict(np.zeros((0, 0), np.float32), np.zeros(n, np.int64)).shape == (n,)


@every_arch
def test_features_beyond_anything_seen_give_finite_scores(arch: str, fitted: Fitted) -> None:
    rows = np.array([[1e30] * 6, [-1e30] * 6], np.float32)

    assert np.isfinite(fitted(arch).predict(rows, np.array([1, 1]))).all()


@every_arch
def test_equal_seeds_give_equal_models(
    arch: str, fitted: Fitted, train: Programs, unseen: Programs, make_programs: MakePrograms
) -> None:
    again, other = SMALL[arch](), SMALL[arch]()
    for model, seed in ((again, 0), (other, 1)):
        model.fit(train, make_programs(2, seed=5), seed=seed, progress=False)

    np.testing.assert_allclose(scores(again, unseen), scores(fitted(arch), unseen), rtol=1e-6, atol=1e-6)
    assert not np.allclose(scores(other, unseen), scores(fitted(arch), unseen))


@every_arch
def test_updating_a_copy_leaves_the_original(arch: str, fitted: Fitted, unseen: Programs) -> None:
    before = scores(fitted(arch), unseen)
    copied = copy.deepcopy(fitted(arch))

    copied.update(unseen, seed=0)

    assert not np.allclose(scores(copied, unseen), before)
    np.testing.assert_array_equal(scores(fitted(arch), unseen), before)


@every_arch
def test_an_update_teaches_the_order_of_what_was_measured(
    arch: str, fitted: Fitted, make_programs: MakePrograms
) -> None:
    # On this device the slow ones are fast: the pretrained order is wrong, and measurements say so.
    programs = make_programs(1, 200, seed=3)
    opposite = Programs(
        programs.rows, programs.counts, programs.workload, programs.workload_ids, 1e-6 / programs.latency_s
    )
    model = copy.deepcopy(fitted(arch))
    before = evaluate(model, opposite).pairwise

    for seed in range(5):
        model.update(opposite, seed=seed)

    assert evaluate(model, opposite).pairwise > before + 0.2


@every_arch
@pytest.mark.parametrize("latency_s", [[], [1e-3], [1e-3, 1e-3]])
def test_an_update_that_holds_nothing_to_learn_changes_nothing(
    arch: str, latency_s: list[float], fitted: Fitted, unseen: Programs
) -> None:
    model = copy.deepcopy(fitted(arch))
    rows = [np.full((2, 6), i) for i in range(len(latency_s))]
    few = Programs.from_list(rows, np.zeros(len(latency_s), np.int64), ("w",), np.array(latency_s))

    model.update(few, seed=0)

    np.testing.assert_array_equal(scores(model, unseen), scores(fitted(arch), unseen))


@every_arch
def test_updates_repeat_with_the_seed(arch: str, fitted: Fitted, unseen: Programs) -> None:
    copies = [copy.deepcopy(fitted(arch)) for _ in range(2)]

    for model in copies:
        model.update(unseen, seed=7)

    np.testing.assert_allclose(scores(copies[0], unseen), scores(copies[1], unseen), rtol=1e-6, atol=1e-6)


@every_arch
def test_weights_come_back_as_they_were(arch: str, fitted: Fitted, unseen: Programs, tmp_path: Path) -> None:
    fitted(arch).save_weights(tmp_path)
    loaded = new_model(arch, feature_spec="demo@1")

    loaded.load_weights(tmp_path, fitted(arch).config())

    np.testing.assert_array_equal(scores(loaded, unseen), scores(fitted(arch), unseen))
    assert loaded.config() == fitted(arch).config()


@every_arch
def test_a_loaded_model_can_be_updated_like_the_one_that_was_saved(
    arch: str, fitted: Fitted, unseen: Programs, tmp_path: Path
) -> None:
    saved, loaded = copy.deepcopy(fitted(arch)), new_model(arch, feature_spec="demo@1")
    saved.save_weights(tmp_path)
    loaded.load_weights(tmp_path, saved.config())

    for model in (saved, loaded):
        model.update(unseen, seed=0)

    np.testing.assert_allclose(scores(loaded, unseen), scores(saved, unseen), rtol=1e-6, atol=1e-6)


@every_arch
@pytest.mark.parametrize("columns", [0, -1, 1.5, "6", True, None, 10**9])
def test_a_configured_width_that_makes_no_sense_is_refused(
    arch: str, columns: object, fitted: Fitted, tmp_path: Path
) -> None:
    fitted(arch).save_weights(tmp_path)

    with pytest.raises(ModelError, match="columns of this"):
        new_model(arch, feature_spec="demo@1").load_weights(tmp_path, {**fitted(arch).config(), "columns": columns})


@every_arch
def test_a_width_other_than_that_of_the_file_is_refused(arch: str, fitted: Fitted, tmp_path: Path) -> None:
    fitted(arch).save_weights(tmp_path)

    with pytest.raises(ModelError, match=r"config\.json describes"):
        new_model(arch, feature_spec="demo@1").load_weights(tmp_path, {**fitted(arch).config(), "columns": 7})


@every_arch
def test_a_model_that_was_not_fitted_refuses_to_score_learn_and_save(
    arch: str, train: Programs, tmp_path: Path
) -> None:
    model = new_model(arch, feature_spec="demo@1")

    with pytest.raises(ModelError, match="no weights"):
        model.predict(np.ones((1, 6), np.float32), np.array([1]))
    with pytest.raises(ModelError, match="no weights"):
        model.update(train, seed=0)
    with pytest.raises(ModelError, match="no weights yet"):
        model.save_weights(tmp_path)


@every_arch
def test_rows_of_another_width_are_refused(arch: str, fitted: Fitted) -> None:
    with pytest.raises(ModelError, match="rows of 6 columns, got 5"):
        fitted(arch).predict(np.ones((1, 5), np.float32), np.array([1]))


@every_arch
def test_nothing_to_learn_from_is_refused(arch: str, train: Programs) -> None:
    with pytest.raises(DataError, match="nothing to learn"):
        new_model(arch, feature_spec="demo@1").fit(train.select(np.array([0])), None, seed=0, progress=False)


def test_networks_are_resumable_and_what_has_no_checkpoint_is_not() -> None:
    assert isinstance(Mlp(feature_spec="demo@1"), Resumable)
    assert not isinstance(object(), Resumable)


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

    assert not isinstance(model, SubModels)
    assert list(sub_models(model, train)) == [(model, train)]


@pytest.mark.parametrize(("make", "count"), [(ensemble, 3), (conditioned, 1)])
def test_leaves_read_the_programs_as_they_get_them(make: Callable[[], CostModel], count: int, train: Programs) -> None:
    model = make()
    model.fit(train, None, seed=0, progress=False)

    found = list(sub_models(model, train))

    assert len(found) == count
    scores = [part.predict(own.rows, own.counts) for part, own in found]
    np.testing.assert_allclose(np.mean(scores, axis=0), model.predict(train.rows, train.counts), rtol=1e-6)


def test_a_blend_in_a_blend_of_specs_is_followed_down() -> None:
    programs = made_programs(SPEC, workloads=4, each=20)
    members = f"{TREES} {TREES}:relation@1 mlp(hidden=4,epochs=1,bins=0):per_store@1"
    model = Blend(feature_spec=SPEC, options=BlendOptions(members=members))
    model.fit(programs, None, seed=0, progress=False)

    found = list(sub_models(model, programs))

    assert [part.arch for part, _ in found] == ["gbt", "gbt", "mlp"]
    assert [own.rows.shape[1] for _, own in found] == [173, 123, 172]
    assert all(own.n == programs.n for _, own in found)


def test_updating_the_inner_models_changes_each(train: Programs, unseen: Programs) -> None:
    model = ensemble()
    model.fit(train, None, seed=0, progress=False)
    assert isinstance(model, Ensemble)
    before = [part.predict(unseen.rows, unseen.counts) for part, _ in sub_models(model, unseen)]

    update_sub_models(model, unseen, seed=0)

    after = [part.predict(unseen.rows, unseen.counts) for part, _ in sub_models(model, unseen)]
    assert not any(np.array_equal(a, b) for a, b in zip(after, before, strict=True))
