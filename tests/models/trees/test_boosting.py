from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost as xgb

from costhub.dataset.programs import Programs
from costhub.errors import ModelError
from costhub.models.trees import boosting
from costhub.models.trees.boosting import TreeCheckpoint, boost_trees, centred, centred_loss, read_booster
from costhub.models.trees.gbt import OBJECTIVES, Gbt, GbtOptions


def test_a_missing_file_is_named_with_its_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"lacks trees\.ubj, the trees of the model"):
        read_booster(tmp_path / "trees.ubj")


def test_a_file_that_is_no_booster_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "trees.ubj").write_bytes(b"[]")

    with pytest.raises(ModelError, match="cannot be read as an XGBoost model"):
        read_booster(tmp_path / "trees.ubj")


ROUNDS = 40


def problem(objective: str, *programs: Programs) -> tuple[dict[str, Any], list[xgb.DMatrix]]:
    options = GbtOptions(objective=objective, learning_rate=0.3, min_child_weight=1.0)
    model = Gbt(feature_spec="demo@1", options=options)
    return options.parameters(seed=3), [model._matrix(p) for p in programs]


def raw(booster: xgb.Booster) -> bytes:
    """The trees alone: attributes and buffers of what was read differ from what was trained."""
    return "\n".join(booster.get_dump(with_stats=True)).encode()


def interrupt_at(trees: int) -> Any:
    grown = 0

    def shown(new: int) -> None:
        nonlocal grown
        grown += new
        if grown == trees:
            raise KeyboardInterrupt

    return shown


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("patience", [3, ROUNDS])
def test_until_trees_are_read_back_they_are_those_of_xgboost_itself(
    objective: str, patience: int, train: Programs, unseen: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boosting, "SAVE_EVERY", ROUNDS)
    parameters, [learned, valid] = problem(objective, train, unseen)
    stop = xgb.callback.EarlyStopping(rounds=patience, save_best=True)
    expected = xgb.train(parameters, learned, ROUNDS, evals=[(valid, "valid")], callbacks=[stop], verbose_eval=False)

    found = boost_trees(parameters, learned, valid, rounds=ROUNDS, patience=patience)

    assert found.num_boosted_rounds() == expected.num_boosted_rounds()
    assert raw(found) == raw(expected)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("stops", [False, True])
def test_after_a_break_the_same_trees_are_grown(
    objective: str,
    stops: bool,
    train: Programs,
    unseen: Programs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(boosting, "SAVE_EVERY", 5)
    kept = TreeCheckpoint(tmp_path / "partial" / "model.ubj", "one")

    def grow(**more: Any) -> xgb.Booster:
        parameters, [learned, valid] = problem(objective, train, unseen)
        return boost_trees(parameters, learned, valid if stops else None, rounds=ROUNDS, patience=20, **more)

    with pytest.raises(KeyboardInterrupt):
        grow(checkpoint=kept, on_trees=interrupt_at(13))
    told: list[int] = []
    found = grow(checkpoint=kept, on_trees=told.append)

    assert told[0] == 10
    assert raw(found) == raw(grow(checkpoint=TreeCheckpoint(tmp_path / "unbroken.ubj", "one"))) == raw(grow())
    assert [path.name for path in kept.path.parent.iterdir()] == ["model.ubj"]


def test_a_training_that_had_stopped_is_not_grown_further(
    train: Programs, unseen: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boosting, "SAVE_EVERY", 5)
    parameters, [learned, valid] = problem("regression", train, unseen)
    kept = TreeCheckpoint(tmp_path / "model.ubj", "one")
    grown: tuple[list[int], list[int]] = ([], [])
    found = [
        boost_trees(parameters, learned, valid, rounds=300, patience=2, checkpoint=kept, on_trees=each.append)
        for each in grown
    ]

    assert found[0].num_boosted_rounds() < 300
    assert sum(grown[1]) == sum(grown[0])
    assert grown[1][0] == sum(grown[0]) // 5 * 5  # those of the last save
    assert raw(found[0]) == raw(found[1])


def test_trees_of_another_training_are_refused(train: Programs, tmp_path: Path) -> None:
    parameters, [learned] = problem("regression", train)
    boost_trees(parameters, learned, None, rounds=2, patience=2, checkpoint=TreeCheckpoint(tmp_path / "m", "one"))

    with pytest.raises(ModelError, match="progress of another training"):
        TreeCheckpoint(tmp_path / "m", "two").restore(features=19)


def test_trees_of_other_features_are_refused(train: Programs, tmp_path: Path) -> None:
    parameters, [learned] = problem("regression", train)
    kept = TreeCheckpoint(tmp_path / "m", "one")
    boost_trees(parameters, learned, None, rounds=2, patience=2, checkpoint=kept)

    assert kept.restore(features=learned.num_col()) is not None
    with pytest.raises(ModelError, match="progress of another training"):
        kept.restore(features=learned.num_col() + 1)


@pytest.mark.parametrize("history", ["[1.0]", "[1.0, 2.0, 3.0]", "[1.0, null]", "[1.0, 2", "7", "[" * 10_000])
def test_progress_without_a_loss_for_each_tree_is_refused(history: str, train: Programs, tmp_path: Path) -> None:
    parameters, [learned] = problem("regression", train)
    booster = boost_trees(parameters, learned, None, rounds=2, patience=2)
    booster.set_attr(training="one", history=history)
    booster.save_model(tmp_path / "m.ubj")

    with pytest.raises(ModelError, match=r"no loss for each of its trees\. It is the progress"):
        TreeCheckpoint(tmp_path / "m.ubj", "one").restore(features=learned.num_col())


def test_an_interrupted_save_leaves_the_trees_before(
    train: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters, [learned] = problem("regression", train)
    kept = TreeCheckpoint(tmp_path / "model.ubj", "one")
    boost_trees(parameters, learned, None, rounds=2, patience=2, checkpoint=kept)
    before = kept.path.read_bytes()

    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        boost_trees(parameters, learned, None, rounds=4, patience=2, checkpoint=kept)

    assert kept.path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_the_file_of_a_fitted_model_has_no_trace_of_the_progress(train: Programs, tmp_path: Path) -> None:
    model = Gbt(feature_spec="demo@1", options=GbtOptions(rounds=3))
    model.checkpoint = tmp_path / "partial"
    model.fit(train, None, seed=0, progress=False)

    assert model.booster is not None
    assert model.booster.attributes() == {}
    plain = Gbt(feature_spec="demo@1", options=GbtOptions(rounds=3))
    plain.fit(train, None, seed=0, progress=False)
    np.testing.assert_array_equal(model.predict(train.rows, train.counts), plain.predict(train.rows, train.counts))


def test_the_progress_of_other_blocks_is_refused(train: Programs, tmp_path: Path) -> None:
    halves = [train.select(np.flatnonzero(train.workload % 2 == side)) for side in (0, 1)]
    model = Gbt(feature_spec="demo@1", options=GbtOptions(rounds=3))
    model.checkpoint = tmp_path / "partial"
    model.fit_blocks(halves, None, seed=0, progress=False, external=False)
    first, second = halves
    others = [first, replace(second, latency_s=2.0 * second.latency_s[::-1])]

    with pytest.raises(ModelError, match="progress of another training"):
        model.fit_blocks(others, None, seed=0, progress=False, external=False)


def test_damaged_progress_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "model.ubj"
    path.write_bytes(b"{L\x00")

    with pytest.raises(ModelError, match=r"cut short\. It is the progress of a training run; remove it to start over"):
        TreeCheckpoint(path, "id").restore(features=1)


NOTHING = xgb.DMatrix(np.zeros((1, 1)))


def loss(scores: np.ndarray, label: np.ndarray, group: np.ndarray) -> float:
    return 0.5 * float((centred(scores - label, group) ** 2).sum())


@pytest.fixture
def differences() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=12), rng.normal(size=12), rng.integers(0, 4, size=12)


def test_the_first_derivative_is_that_of_the_loss(differences: tuple[np.ndarray, ...]) -> None:
    scores, label, group = differences
    first, _ = centred_loss(label, group)(scores, NOTHING)

    for place in range(12):
        step = 1e-6 * (np.arange(12) == place)
        found = (loss(scores + step, label, group) - loss(scores - step, label, group)) / 2e-6
        assert found == pytest.approx(first[place], abs=1e-7)


def test_the_second_derivative_is_that_of_the_loss(differences: tuple[np.ndarray, ...]) -> None:
    scores, label, group = differences
    derivatives = centred_loss(label, group)
    _, second = derivatives(scores, NOTHING)

    for place in range(12):
        step = 1e-3 * (np.arange(12) == place)
        ahead, behind = (derivatives(scores + sign * step, NOTHING)[0][place] for sign in (1, -1))
        assert (ahead - behind) / 2e-3 == pytest.approx(second[place])


def test_the_level_of_a_group_does_not_count(differences: tuple[np.ndarray, ...]) -> None:
    scores, label, group = differences
    shift = np.array([5.0, -3.0, 0.0, 100.0])[group]

    np.testing.assert_allclose(
        centred_loss(label + shift, group)(scores, NOTHING), centred_loss(label, group)(scores, NOTHING)
    )


def test_it_is_the_mean_of_the_squared_differences_of_all_pairs() -> None:
    scores, label = np.array([0.0, 1.0, 5.0]), np.array([0.0, -1.0, 2.0])
    off = scores - label
    pairs = sum((off[i] - off[j]) ** 2 for i in range(3) for j in range(i))

    assert loss(scores, label, np.zeros(3, np.int64)) == pytest.approx(0.5 * pairs / 3)
