"""What every method keeps, and how the parts of a model learn."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.models.compound.residual import Residual
from costhub.models.evaluate import evaluate
from costhub.models.folder import load_model, save_model
from costhub.models.networks.mlp import Mlp
from costhub.models.protocol import CostModel
from costhub.models.train import describe_model
from costhub.models.trees.gbt import Gbt
from costhub.transfer.methods import method
from costhub.transfer.methods.by_name import METHODS, find_method
from costhub.transfer.methods.method import Brief, FineTune, Frozen, ResidualTrees, adapt_sub_models

LEARNING = [name for name in METHODS if name != "frozen"]
Models = dict[str, CostModel]


def scores(model: CostModel, programs: Programs) -> np.ndarray:
    return model.predict(programs.rows, programs.counts)


class Adaptation(NamedTuple):
    """A model by a method with seed 0, and what its source said before and after."""

    model: CostModel
    before: np.ndarray
    after: np.ndarray


@pytest.fixture(scope="module")
def adapted(sources: Models, measured_here: Programs, unseen: Programs) -> Callable[[str, str], Adaptation]:
    """Adapts the source of an architecture by a method, once; nobody may change the result."""

    @cache
    def adapt(name: str, arch: str) -> Adaptation:
        before = scores(sources[arch], unseen)
        model = find_method(name).adapt(sources[arch], measured_here, seed=0)
        return Adaptation(model, before, scores(sources[arch], unseen))

    return adapt


@pytest.mark.parametrize("arch", ["gbt", "mlp", "blend"])
@pytest.mark.parametrize("name", METHODS)
def test_the_source_stays_as_it_is(
    name: str, arch: str, adapted: Callable[[str, str], Adaptation], unseen: Programs
) -> None:
    model, before, after = adapted(name, arch)

    np.testing.assert_array_equal(after, before)
    assert np.array_equal(scores(model, unseen), before) == (name == "frozen")


@pytest.mark.parametrize("arch", ["gbt", "mlp", "blend"])
@pytest.mark.parametrize("name", LEARNING)
def test_the_adapted_model_ranks_the_target_better(
    name: str, arch: str, adapted: Callable[[str, str], Adaptation], sources: Models, unseen: Programs
) -> None:
    assert evaluate(adapted(name, arch).model, unseen).pairwise > evaluate(sources[arch], unseen).pairwise + 0.005


@pytest.mark.parametrize("name", METHODS)
def test_equal_seeds_give_equal_models(
    name: str,
    adapted: Callable[[str, str], Adaptation],
    sources: Models,
    measured_here: Programs,
    unseen: Programs,
) -> None:
    again = find_method(name).adapt(sources["blend"], measured_here, seed=0)

    np.testing.assert_array_equal(scores(again, unseen), scores(adapted(name, "blend").model, unseen))


@pytest.mark.parametrize("name", METHODS)
def test_with_nothing_to_learn_from_it_ranks_like_the_source(
    name: str, sources: Models, measured_here: Programs, unseen: Programs
) -> None:
    nothing = measured_here.select(np.zeros(0, np.int64))

    for few in (nothing, measured_here.select(np.array([0]))):
        adapted = find_method(name).adapt(sources["blend"], few, seed=0)
        np.testing.assert_array_equal(scores(adapted, unseen), scores(sources["blend"], unseen))


@pytest.mark.parametrize("name", METHODS)
def test_the_result_is_saved_and_loaded_like_any_model(
    name: str,
    adapted: Callable[[str, str], Adaptation],
    measured_here: Programs,
    unseen: Programs,
    tmp_path: Path,
) -> None:
    model = adapted(name, "blend").model
    info = describe_model(model, measured_here, device_id="acme-two", seed=0, licence="Apache-2.0")

    loaded, _ = load_model(save_model(model, tmp_path / "model", info))

    np.testing.assert_allclose(scores(loaded, unseen), scores(model, unseen), rtol=1e-6)


def test_trees_and_others_are_updated_by_default(sources: Models, measured_here: Programs, unseen: Programs) -> None:
    updated = copy.deepcopy(sources["gbt"])
    updated.update(measured_here, seed=5)

    adapted = adapt_sub_models(sources["gbt"], measured_here, seed=5, network=lambda *_: None)

    np.testing.assert_array_equal(scores(adapted, unseen), scores(updated, unseen))


def test_each_part_learns_as_its_kind(sources: Models, measured_here: Programs) -> None:
    seen: list[tuple[str, int, int]] = []

    adapt_sub_models(
        sources["blend"],
        measured_here,
        seed=7,
        network=lambda part, own, seed: seen.append((part.arch, own.n, seed)),
        trees=lambda part, own, seed: seen.append((part.arch, own.n, seed)),
    )

    assert seen == [("gbt", measured_here.n, 7), ("mlp", measured_here.n, 8)]


class Foreign(CostModel):
    """A cost model that is neither a network nor trees, and counts its updates."""

    arch = "foreign"
    feature_spec = "demo@1"
    updates = 0

    def fit(self, train: Programs, valid: Programs | None, *, seed: int, progress: bool = True) -> None: ...

    def predict(self, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
        return np.zeros(len(counts))

    def update(self, programs: Programs, *, seed: int) -> None:
        self.updates += 1

    def config(self) -> dict[str, object]:
        return {}

    def save_weights(self, folder: Path) -> None: ...

    def load_weights(self, folder: Path, config: Mapping[str, object]) -> None: ...


def test_a_class_of_ones_own_is_only_updated_and_that_is_said_once(
    measured_here: Programs, caplog: pytest.LogCaptureFixture
) -> None:
    method._warn_of_update_alone.cache_clear()

    brief = Brief().adapt(Foreign(), measured_here, seed=0)
    assert isinstance(brief, Foreign)
    assert (brief.updates, caplog.text) == (1, "")

    for name in ("lottery", "corrected", "lottery"):
        adapted = find_method(name).adapt(Foreign(), measured_here, seed=0)
        assert isinstance(adapted, Foreign)
        assert adapted.updates == 1
    (record,) = caplog.records
    assert record.getMessage().startswith("Foreign derives neither from NeuralModel nor from Gbt, so only its `update`")


def test_networks_and_trees_of_costhubs_own_are_no_reason_for_a_warning(
    sources: Models, measured_here: Programs, caplog: pytest.LogCaptureFixture
) -> None:
    method._warn_of_update_alone.cache_clear()

    for name in ("fine-tune", "lottery", "corrected"):
        find_method(name).adapt(sources["blend"], measured_here, seed=0)

    assert caplog.text == ""


def test_trees_of_ranks_continue_under_every_method(source_programs: Programs, measured_here: Programs) -> None:
    from costhub.models.trees.gbt import GbtOptions

    ranks = Gbt(feature_spec="demo@1", options=GbtOptions(objective="rank", rounds=10))
    ranks.fit(source_programs, None, seed=0, progress=False)

    adapted = find_method("corrected").adapt(ranks, measured_here, seed=0)

    assert isinstance(adapted, Gbt)
    assert adapted.booster is not None
    assert adapted.booster.num_boosted_rounds() == 10 + ranks.options.update_rounds


def test_the_copy_shares_no_weights(sources: dict[str, CostModel], measured_here: Programs) -> None:
    source, copied = sources["mlp"], Frozen().adapt(sources["mlp"], measured_here, seed=0)

    assert isinstance(source, Mlp)
    assert isinstance(copied, Mlp)
    mine = {weight.data_ptr() for weight in source.networks[0].parameters()}
    assert not mine & {weight.data_ptr() for weight in copied.networks[0].parameters()}


def test_it_is_what_update_does_to_a_copy(sources: dict[str, CostModel], measured_here: Programs) -> None:
    for arch, source in sources.items():
        before = source.predict(measured_here.rows, measured_here.counts)
        updated = copy.deepcopy(source)
        updated.update(measured_here, seed=0)

        adapted = Brief().adapt(source, measured_here, seed=0)

        assert np.array_equal(source.predict(measured_here.rows, measured_here.counts), before), arch
        if arch in ("mlp", "gbt"):  # of one part, which gets the seed itself
            theirs = updated.predict(measured_here.rows, measured_here.counts)
            assert np.array_equal(adapted.predict(measured_here.rows, measured_here.counts), theirs), arch


def test_a_network_takes_plain_steps(sources: dict[str, CostModel], measured_here: Programs) -> None:
    by_hand = copy.deepcopy(sources["mlp"])
    assert isinstance(by_hand, Mlp)
    by_hand.fine_tune(measured_here, epochs=3, learning_rate=2e-3, seed=4)

    adapted = FineTune(epochs=3, learning_rate=2e-3).adapt(sources["mlp"], measured_here, seed=4)

    found, expected = (m.predict(measured_here.rows, measured_here.counts) for m in (adapted, by_hand))
    np.testing.assert_array_equal(found, expected)


def test_the_global_model_is_the_source(sources: dict[str, CostModel], measured_here: Programs) -> None:
    adapted = ResidualTrees().adapt(sources["mlp"], measured_here, seed=0)

    assert isinstance(adapted, Residual)
    assert adapted.local is not None
    assert adapted.slope > 0
    found, expected = (m.predict(measured_here.rows, measured_here.counts) for m in (adapted.base, sources["mlp"]))
    np.testing.assert_array_equal(found, expected)


def test_of_a_source_with_a_local_model_the_global_one_is_carried_over(
    sources: dict[str, CostModel], measured_here: Programs
) -> None:
    source = ResidualTrees().adapt(sources["mlp"], measured_here, seed=0)

    again = ResidualTrees().adapt(source, measured_here, seed=0)

    assert isinstance(again, Residual)
    found, expected = (m.predict(measured_here.rows, measured_here.counts) for m in (again, source))
    np.testing.assert_array_equal(found, expected)
