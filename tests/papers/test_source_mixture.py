from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.errors import ModelError
from costhub.models.architectures import new_model
from costhub.models.compound.blend import Blend, ScoreScale
from costhub.models.evaluate import evaluate
from costhub.models.folder import load_model, save_model
from costhub.models.parts import read_as
from costhub.models.protocol import CostModel
from costhub.models.train import describe_model
from costhub.papers.source_mixture import (
    MAX_SOURCES,
    blend_of,
    blended_from,
    indistinguishable,
    mix_sources,
    mixture_scale,
)
from costhub.search.search_model import SearchModel
from costhub.testing import made_programs
from costhub.transfer.adapt import adapt
from costhub.transfer.sources import RankedSource, rank_sources

SPEC = "per_store@1+relation@1"


def ranked(**shares: list[float]) -> list[RankedSource]:
    found = [
        RankedSource(name, {f"w{i}": share for i, share in enumerate(own)}, mean=0.0, spread=1.0)
        for name, own in shares.items()
    ]
    return sorted(found, key=lambda source: -source.pairwise)


def names(sources: list[RankedSource]) -> list[str]:
    return [source.name for source in sources]


def test_a_source_that_leads_by_more_than_a_standard_error_stands_out() -> None:
    # Behind by .1, .1, .1 and .2: the mean is .125, its standard error .025.
    assert names(indistinguishable(ranked(a=[0.9, 0.8, 0.7, 0.9], b=[0.8, 0.7, 0.6, 0.7]))) == ["a"]


def test_those_within_a_standard_error_of_the_best_do_not_stand_apart() -> None:
    found = indistinguishable(ranked(a=[0.9, 0.8, 0.7, 0.9], b=[0.6, 0.9, 0.9, 0.7], c=[0.5, 0.5, 0.5, 0.5]))

    assert names(found) == ["a", "b"]


def test_equal_sources_do_not_stand_apart_nor_does_anything_on_one_workload() -> None:
    assert names(indistinguishable(ranked(a=[0.9, 0.8], b=[0.9, 0.8]))) == ["a", "b"]
    assert names(indistinguishable(ranked(a=[0.9], b=[0.3]))) == ["a", "b"]
    assert names(indistinguishable(ranked(a=[0.9, 0.8]))) == ["a"]


def test_weights_follow_how_much_better_than_chance_a_source_is() -> None:
    found = mixture_scale(ranked(a=[0.9, 0.7], b=[0.7, 0.7], c=[0.5, 0.3]))

    np.testing.assert_allclose(found.weight, np.array([0.36, 0.16, 0.0]) / 0.52)
    np.testing.assert_allclose(mixture_scale(ranked(a=[0.4], b=[0.3])).weight, [0.5, 0.5])


@pytest.fixture(scope="module")
def here() -> Programs:
    """The target."""
    return made_programs(SPEC, workloads=8, each=20)


@pytest.fixture(scope="module")
def models() -> dict[str, CostModel]:
    """Sources that read different things, and one that has learned the opposite."""
    theirs = made_programs(SPEC, workloads=6, each=30, seed=1)
    options = {"objective": "log", "rounds": 40, "depth": 3, "learning_rate": 0.2}
    found: dict[str, CostModel] = {
        "trees": new_model("gbt", feature_spec=SPEC, options=options),
        "blend": new_model(
            "blend",
            feature_spec=SPEC,
            options={"members": "gbt(rounds=9,depth=3):relation@1 mlp(hidden=8,epochs=4,bins=0):per_store@1"},
        ),
        "worse": new_model("gbt", feature_spec=SPEC, options=options),
    }
    for name, model in found.items():
        slow = Programs(theirs.rows, theirs.counts, theirs.workload, theirs.workload_ids, 1e-6 / theirs.latency_s)
        model.fit(slow if name == "worse" else theirs, None, seed=0, progress=False)
    return found


def close(models: dict[str, CostModel], here: Programs) -> list[RankedSource]:
    """As they are ranked here, but for the shares of right pairs, which tell trees and blend not apart."""
    found = {source.name: source for source in rank_sources(models, lambda spec: here)}
    told = {"trees": [0.9, 0.7], "blend": [0.7, 0.8], "worse": [0.1, 0.1]}
    return [
        RankedSource(name, dict(enumerate(own)), found[name].mean, found[name].spread)  # type: ignore[arg-type]
        for name, own in told.items()
    ]


def test_the_best_alone_is_given_back_as_it_is(models: dict[str, CostModel], here: Programs) -> None:
    found = mix_sources(ranked(trees=[0.9, 0.9], worse=[0.1, 0.1]), models)

    assert found.names == ("trees",)
    assert found.model is models["trees"]


def test_the_score_is_the_weighted_mean_on_the_scale_of_the_programs_probed(
    models: dict[str, CostModel], here: Programs
) -> None:
    sources = close(models, here)

    found = mix_sources(sources, models)

    assert found.names == ("trees", "blend")
    assert found.model.arch == "blend"
    assert [member.arch for member in found.model.members] == ["gbt", "gbt", "mlp"]  # type: ignore[attr-defined]
    weight = np.array([0.6**2, 0.5**2]) / (0.6**2 + 0.5**2)
    expected = sum(
        share * (models[source.name].predict(here.rows, here.counts) - source.mean) / source.spread
        for share, source in zip(weight, sources, strict=False)
    )
    np.testing.assert_allclose(found.model.predict(here.rows, here.counts), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_a_mixture_is_saved_loaded_adapted_and_searches(
    models: dict[str, CostModel], here: Programs, tmp_path: Path
) -> None:
    found = mix_sources(close(models, here), models).model
    before = {name: copy.deepcopy(model).predict(here.rows, here.counts) for name, model in models.items()}
    info = describe_model(found, here, device_id="acme-one", seed=0, licence="Apache-2.0")

    loaded, _ = load_model(save_model(found, tmp_path / "model", info))
    scores = loaded.predict(here.rows, here.counts)
    np.testing.assert_array_equal(scores, found.predict(here.rows, here.counts))

    done = adapt(loaded, here, trials=64, progress=False)
    assert evaluate(done.model, here).pairwise >= evaluate(loaded, here).pairwise
    search = SearchModel(loaded)
    features = np.split(here.rows, np.cumsum(here.counts)[:-1])[:20]
    search.update("task", list(features), here.latency_s[:20])
    assert np.isfinite(search.predict("task", list(features))).all()
    for name, model in models.items():
        np.testing.assert_array_equal(model.predict(here.rows, here.counts), before[name])


def test_there_are_no_more_sources_or_members_than_a_blend_can_have(models: dict[str, CostModel]) -> None:
    many = {f"m{number}": models["trees"] for number in range(6)}
    pairs = {f"m{number}": models["blend"] for number in range(6)}
    equal = ranked(**{name: [0.8, 0.7] for name in many})

    assert mix_sources(equal, many).names == ("m0", "m1", "m2", "m3")
    assert len(mix_sources(equal, many).names) == MAX_SOURCES
    assert mix_sources(equal, pairs).names == ("m0", "m1", "m2")
    # One that fits is taken after one that does not.
    some = {**pairs, **{name: models["trees"] for name in ("m2", "m4")}}
    assert mix_sources(equal, some).names == ("m0", "m1", "m2", "m4")


def test_what_cannot_be_a_member_is_left_out_or_alone(models: dict[str, CostModel], here: Programs) -> None:
    options = {"members": 2, "member": "gbt(rounds=5)"}
    both = {**models, "ensemble": new_model("ensemble", feature_spec=SPEC, options=options)}

    first = mix_sources(ranked(ensemble=[0.8, 0.7], trees=[0.8, 0.7], blend=[0.8, 0.7]), both)
    later = mix_sources(ranked(trees=[0.8, 0.7], ensemble=[0.8, 0.7], blend=[0.8, 0.7]), both)

    assert first.names == ("ensemble",)
    assert later.names == ("trees", "blend")
    assert isinstance(later.model, Blend)


SPEC = "per_store@1+relation@1"
SMALL = {"rounds": 10, "learning_rate": 0.2, "depth": 3}
STANDARD = ScoreScale(np.array([0.5, -2.0]), np.array([0.1, 3.0]), np.array([0.25, 0.75]))


@pytest.fixture(scope="module")
def programs() -> Programs:
    return made_programs(SPEC, workloads=4, each=30)


def fitted(arch: str, programs: Programs, options: dict[str, object], spec: str = SPEC) -> CostModel:
    model = new_model(arch, feature_spec=spec, options=options)
    [own] = read_as(programs, feature_spec=SPEC, specs=[spec])
    model.fit(own, None, seed=0, progress=False)
    return model


def expected(models: list[CostModel], programs: Programs) -> np.ndarray:
    own = read_as(programs, feature_spec=SPEC, specs=[model.feature_spec for model in models])
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
