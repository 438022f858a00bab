"""What the protocol promises beyond the conformance suite, of every architecture."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from costhub.dataset.programs import Programs
from costhub.errors import DataError, ModelError
from costhub.models.architectures import ARCHITECTURES, new_model
from costhub.models.compound.blend import Blend, BlendOptions
from costhub.models.compound.conditioned import Conditioned
from costhub.models.compound.residual import Residual
from costhub.models.evaluate import evaluate
from costhub.models.networks.mlp import Mlp
from costhub.models.networks.network_options import MlpOptions, TreeGruOptions
from costhub.models.networks.tree_gru import TreeGru
from costhub.models.protocol import CostModel
from costhub.models.trees.gbt import Gbt, GbtOptions
from costhub.papers.autotvm_models import Ensemble, EnsembleOptions
from costhub.papers.tlp import TokenAttention, TokenAttentionOptions
from costhub.testing import made_programs

MakePrograms = Callable[..., Programs]
Fitted = Callable[[str], CostModel]
Scores = npt.NDArray[np.float64]

CPU = {"device_id": "demo", "kind": "cpu", "cores": 2}
SPEC = "per_store@1+relation@1"
TREES = "gbt(rounds=5,learning_rate=0.2,depth=3)"
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
    "conditioned": lambda: Conditioned(feature_spec="demo@1", base=SMALL["gbt"]()).bind(CPU),
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


def test_every_architecture_is_tested_here() -> None:
    assert set(SMALL) == set(ARCHITECTURES)


@every_arch
def test_it_ranks_programs_of_workloads_it_has_not_seen(arch: str, fitted: Fitted, unseen: Programs) -> None:
    evaluation = evaluate(fitted(arch), unseen)

    assert evaluation.pairwise > 0.8
    assert evaluation.top_5 > 0.9


@every_arch
def test_scores_depend_on_the_batch_by_rounding_in_double_precision_at_most(
    arch: str, fitted: Fitted, unseen: Programs
) -> None:
    order = np.random.default_rng(0).permutation(unseen.n)
    apart = [scores(fitted(arch), unseen.select(own)) for own in np.split(order, [1, 60])]

    np.testing.assert_allclose(np.concatenate(apart), scores(fitted(arch), unseen)[order], rtol=1e-9, atol=1e-9)


@every_arch
def test_programs_without_any_row_need_no_width(arch: str, fitted: Fitted) -> None:
    for n in (0, 1, 3):
        assert fitted(arch).predict(np.zeros((0, 0), np.float32), np.zeros(n, np.int64)).shape == (n,)


@every_arch
def test_another_seed_gives_another_model(
    arch: str, fitted: Fitted, train: Programs, unseen: Programs, make_programs: MakePrograms
) -> None:
    other = SMALL[arch]()
    other.fit(train, make_programs(2, seed=5), seed=1, progress=False)

    assert not np.allclose(scores(other, unseen), scores(fitted(arch), unseen))


@every_arch
def test_a_loaded_model_scores_and_learns_like_the_one_that_was_saved(
    arch: str, fitted: Fitted, unseen: Programs, tmp_path: Path
) -> None:
    saved, loaded = copy.deepcopy(fitted(arch)), new_model(arch, feature_spec="demo@1")
    saved.save_weights(tmp_path)
    loaded.load_weights(tmp_path, saved.config())
    np.testing.assert_array_equal(scores(loaded, unseen), scores(saved, unseen))
    before = scores(saved, unseen)

    for model in (saved, loaded):
        model.update(unseen, seed=7)

    assert not np.allclose(scores(saved, unseen), before)
    np.testing.assert_allclose(scores(loaded, unseen), scores(saved, unseen), rtol=1e-6, atol=1e-6)


@every_arch
def test_a_configured_width_that_makes_no_sense_is_refused(arch: str, fitted: Fitted, tmp_path: Path) -> None:
    fitted(arch).save_weights(tmp_path)

    for columns in (0, -1, 1.5, "6", True, None, 10**9):
        with pytest.raises(ModelError, match="columns of this"):
            new_model(arch, feature_spec="demo@1").load_weights(tmp_path, {**fitted(arch).config(), "columns": columns})


@every_arch
def test_a_width_other_than_that_of_the_file_is_refused(arch: str, fitted: Fitted, tmp_path: Path) -> None:
    fitted(arch).save_weights(tmp_path)

    with pytest.raises(ModelError, match=r"config\.json describes"):
        new_model(arch, feature_spec="demo@1").load_weights(tmp_path, {**fitted(arch).config(), "columns": 7})


@every_arch
def test_nothing_to_learn_from_is_refused(arch: str, train: Programs) -> None:
    with pytest.raises(DataError, match="nothing to learn"):
        new_model(arch, feature_spec="demo@1").fit(train.select(np.array([0])), None, seed=0, progress=False)


@every_arch
def test_messages_say_what_the_model_lacks_or_reads(arch: str, fitted: Fitted, train: Programs) -> None:
    with pytest.raises(ModelError, match="no weights yet"):
        new_model(arch, feature_spec="demo@1").predict(np.ones((1, 6), np.float32), np.array([1]))
    with pytest.raises(ModelError, match="rows of 6 columns, got 5"):
        fitted(arch).predict(np.ones((1, 5), np.float32), np.array([1]))


def test_a_class_that_lacks_a_method_cannot_be_used() -> None:
    class Half(CostModel):
        arch = "half"
        feature_spec = "demo@1"

    with pytest.raises(TypeError, match="abstract"):
        Half()  # type: ignore[abstract]


def test_a_simple_model_has_the_defaults(fitted: Fitted, unseen: Programs) -> None:
    model = fitted("gbt")

    model.add_devices({"demo": CPU})

    assert model.checkpoint is None
    assert model.bind(CPU) is model
    assert model.sub_models(unseen) == [(model, unseen)]
    np.testing.assert_array_equal(model.predict_programs(unseen), scores(model, unseen))


def test_an_architecture_that_needs_all_programs_refuses_blocks(train: Programs) -> None:
    with pytest.raises(ModelError, match="residual learns from programs in memory only"):
        SMALL["residual"]().fit_blocks([train], None, seed=0)


@pytest.mark.parametrize(("arch", "count"), [("ensemble", 2), ("conditioned", 1)])
def test_sub_models_read_the_programs_as_they_get_them(arch: str, count: int, fitted: Fitted, train: Programs) -> None:
    parts = fitted(arch).sub_models(train)

    assert len(parts) == count
    own_scores = [part.predict(own.rows, own.counts) for part, own in parts]
    np.testing.assert_allclose(np.mean(own_scores, axis=0), scores(fitted(arch), train), rtol=1e-6)


def test_sub_models_of_a_conditioned_blend_are_those_of_the_blend() -> None:
    programs = made_programs("demo@1", workloads=4, each=20)
    base = Blend(feature_spec="demo@1", options=BlendOptions(members=f"{TREES} mlp(hidden=4,epochs=1,bins=0)"))
    model = Conditioned(feature_spec="demo@1", base=base).bind(CPU)
    model.fit(programs, None, seed=0, progress=False)

    assert [part.arch for part, _ in model.sub_models(programs)] == ["gbt", "mlp"]


def test_sub_models_of_a_blend_of_specs_read_their_parts() -> None:
    programs = made_programs(SPEC, workloads=4, each=20)
    members = f"{TREES} {TREES}:relation@1 mlp(hidden=4,epochs=1,bins=0):per_store@1"
    model = Blend(feature_spec=SPEC, options=BlendOptions(members=members))
    model.fit(programs, None, seed=0, progress=False)

    parts = model.sub_models(programs)

    assert [part.arch for part, _ in parts] == ["gbt", "gbt", "mlp"]
    assert [own.rows.shape[1] for _, own in parts] == [173, 123, 172]
    assert all(own.n == programs.n for _, own in parts)


def test_an_update_reaches_every_sub_model(fitted: Fitted, unseen: Programs) -> None:
    model = copy.deepcopy(fitted("ensemble"))
    before = [scores(part, unseen) for part, _ in model.sub_models(unseen)]

    model.update(unseen, seed=0)

    after = [scores(part, unseen) for part, _ in model.sub_models(unseen)]
    assert not any(np.array_equal(a, b) for a, b in zip(after, before, strict=True))
