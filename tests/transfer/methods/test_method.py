"""What every method keeps, and how the parts of a model learn."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.models.evaluation.evaluate import evaluate
from costhub.models.folder import load_model, save_model
from costhub.models.protocol import CostModel
from costhub.models.train import describe_model
from costhub.models.trees.gbt import Gbt
from costhub.transfer.methods.method import adapt_leaves
from costhub.transfer.methods.registry import METHODS, find_method

LEARNING = [name for name in METHODS if name != "frozen"]
Models = dict[str, CostModel]


def scores(model: CostModel, programs: Programs) -> np.ndarray:
    return model.predict(programs.rows, programs.counts)


@pytest.mark.parametrize("arch", ["gbt", "mlp", "blend"])
@pytest.mark.parametrize("name", METHODS)
def test_the_source_stays_as_it_is(
    name: str, arch: str, sources: Models, target: Programs, unseen: Programs
) -> None:
    before = scores(sources[arch], unseen)

    adapted = find_method(name).adapt(sources[arch], target, seed=0)

    np.testing.assert_array_equal(scores(sources[arch], unseen), before)
    assert np.array_equal(scores(adapted, unseen), before) == (name == "frozen")


@pytest.mark.parametrize("arch", ["gbt", "mlp", "blend"])
@pytest.mark.parametrize("name", LEARNING)
def test_the_adapted_model_ranks_the_target_better(
    name: str, arch: str, sources: Models, target: Programs, unseen: Programs
) -> None:
    adapted = find_method(name).adapt(sources[arch], target, seed=0)

    assert evaluate(adapted, unseen).pairwise > evaluate(sources[arch], unseen).pairwise + 0.005


@pytest.mark.parametrize("name", METHODS)
def test_equal_seeds_give_equal_models(
    name: str, sources: Models, target: Programs, unseen: Programs
) -> None:
    found = [scores(find_method(name).adapt(sources["blend"], target, seed=3), unseen) for _ in range(2)]

    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("name", METHODS)
def test_with_nothing_to_learn_from_it_ranks_like_the_source(
    name: str, sources: Models, target: Programs, unseen: Programs
) -> None:
    nothing = target.select(np.zeros(0, np.int64))

    for few in (nothing, target.select(np.array([0]))):
        adapted = find_method(name).adapt(sources["blend"], few, seed=0)
        np.testing.assert_array_equal(scores(adapted, unseen), scores(sources["blend"], unseen))


@pytest.mark.parametrize("name", METHODS)
def test_the_result_is_saved_and_loaded_like_any_model(
    name: str, sources: Models, target: Programs, unseen: Programs, tmp_path: Path
) -> None:
    adapted = find_method(name).adapt(sources["blend"], target, seed=0)
    info = describe_model(adapted, target, device_id="acme-two", seed=0, licence="Apache-2.0")

    loaded, _ = load_model(save_model(adapted, tmp_path / "model", info))

    np.testing.assert_allclose(scores(loaded, unseen), scores(adapted, unseen), rtol=1e-6)


def test_trees_and_others_are_updated_by_default(sources: Models, target: Programs, unseen: Programs) -> None:
    updated = copy.deepcopy(sources["gbt"])
    updated.update(target, seed=5)

    adapted = adapt_leaves(sources["gbt"], target, seed=5, network=lambda *_: None)

    np.testing.assert_array_equal(scores(adapted, unseen), scores(updated, unseen))


def test_each_part_learns_as_its_kind(sources: Models, target: Programs) -> None:
    seen: list[tuple[str, int, int]] = []

    adapt_leaves(
        sources["blend"], target, seed=7,
        network=lambda part, own, seed: seen.append((part.arch, own.n, seed)),
        trees=lambda part, own, seed: seen.append((part.arch, own.n, seed)),
    )  # fmt: skip

    assert seen == [("gbt", target.n, 7), ("mlp", target.n, 8)]


def test_trees_of_ranks_continue_under_every_method(source_programs: Programs, target: Programs) -> None:
    from costhub.models.trees.gbt import GbtOptions

    ranks = Gbt(feature_spec="demo@1", options=GbtOptions(objective="rank", rounds=10))
    ranks.fit(source_programs, None, seed=0, progress=False)

    adapted = find_method("corrected").adapt(ranks, target, seed=0)

    assert isinstance(adapted, Gbt)
    assert adapted.booster is not None
    assert adapted.booster.num_boosted_rounds() == 10 + ranks.options.update_rounds
