from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from costhub.dataset.programs import Programs
from costhub.errors import ModelError
from costhub.models.networks.initial_weights import draw_weights
from costhub.models.networks.network_options import NetworkOptions
from costhub.models.networks.neural import NeuralModel
from costhub.models.networks.scaler import Scaler
from costhub.models.training.checkpoint import Checkpoint
from costhub.models.training.training_state import TrainingState


class SumNetwork(nn.Module):
    """Scores are linear in the sum of the rows, and what the raw column adds."""

    def __init__(self, columns: int, generator: torch.Generator | None) -> None:
        super().__init__()
        with torch.device("meta"):
            self.score = nn.Linear(columns, 1)
        if generator is not None:
            draw_weights(self, generator)

    def forward(self, rows: Tensor, counts: Tensor) -> Tensor:
        program = torch.repeat_interleave(torch.arange(len(counts)), counts)
        found = self.score(rows[:, :-1]).squeeze(-1) + rows[:, -1]
        return found.new_zeros(len(counts)).index_add(0, program, found)


@dataclass(frozen=True)
class LinearOptions(NetworkOptions):
    epochs: int = 4
    members: int = 2
    batch: int = 64


class Linear(NeuralModel[LinearOptions]):
    """The smallest architecture: column 5 is no quantity."""

    arch = "linear"
    options_type = LinearOptions

    @property
    def raw(self) -> tuple[int, ...]:
        return (5,)

    def build(self, inputs: Sequence[int], generator: torch.Generator | None) -> nn.Module:
        return SumNetwork(inputs[0], generator)


def fitted(train: Programs, valid: Programs | None = None, *, options: LinearOptions | None = None) -> Linear:
    model = Linear(feature_spec="demo@1", options=options)
    model.fit(train, valid, seed=0, progress=False)
    return model


@pytest.fixture
def model(train: Programs) -> Linear:
    return fitted(train)


def test_scores_are_the_mean_of_the_members(model: Linear, unseen: Programs) -> None:
    alone = []
    for network in model.networks:
        single = copy.deepcopy(model)
        single.networks = [network]
        alone.append(single.predict(unseen.rows, unseen.counts))

    np.testing.assert_allclose(model.predict(unseen.rows, unseen.counts), np.mean(alone, axis=0))
    assert not np.allclose(alone[0], alone[1])


def test_a_raw_column_reaches_the_network_as_it_is(model: Linear) -> None:
    rows = np.zeros((2, 6), np.float32)
    rows[1, 5] = 1234.0

    first, second = model.predict(rows, np.array([1, 1]))

    assert second - first == pytest.approx(1234.0)


def test_blocks_of_any_size_give_the_same_scores(
    model: Linear, unseen: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = model.predict(unseen.rows, unseen.counts)
    # One row per block is less than most programs have: such a program is a block of its own.
    for rows in (1, 3, 50):
        monkeypatch.setattr(Linear, "block_rows", rows)
        np.testing.assert_allclose(model.predict(unseen.rows, unseen.counts), whole, rtol=1e-12)


def test_learning_more_leaves_the_scaler_and_the_global_random_state(model: Linear, unseen: Programs) -> None:
    (scaler,) = model.scalers
    before, state = copy.deepcopy(scaler), torch.get_rng_state()

    model.update(unseen, seed=0)
    model.fine_tune(unseen, epochs=2, learning_rate=1e-3, seed=0)

    for field in fields(Scaler):
        assert np.array_equal(getattr(model.scalers[0], field.name), getattr(before, field.name))
    assert torch.equal(torch.get_rng_state(), state)


def test_a_learning_rate_of_zero_changes_nothing(model: Linear, unseen: Programs) -> None:
    before = model.predict(unseen.rows, unseen.counts)

    model.fine_tune(unseen, epochs=2, learning_rate=0.0, seed=0)

    np.testing.assert_array_equal(model.predict(unseen.rows, unseen.counts), before)


def test_programs_without_rows_teach_nothing(model: Linear, unseen: Programs) -> None:
    before = model.predict(unseen.rows, unseen.counts)
    none = np.zeros(2, np.int64)
    empty = Programs(np.zeros((0, 0), np.float32), none, none, ("w",), np.array([1e-3, 2e-3]))

    model.update(empty, seed=0)

    np.testing.assert_array_equal(model.predict(unseen.rows, unseen.counts), before)


def test_validation_without_any_order_is_ignored(train: Programs) -> None:
    with_it, without = fitted(train, train.select(np.array([0]))), fitted(train)

    np.testing.assert_array_equal(
        with_it.predict(train.rows, train.counts), without.predict(train.rows, train.counts)
    )


def test_what_is_saved_comes_back(model: Linear, unseen: Programs, tmp_path: Path) -> None:
    model.save_weights(tmp_path)
    loaded = Linear(feature_spec="demo@1")

    loaded.load_weights(tmp_path, model.config())

    np.testing.assert_array_equal(
        loaded.predict(unseen.rows, unseen.counts), model.predict(unseen.rows, unseen.counts)
    )
    assert loaded.config() == model.config()


@pytest.mark.parametrize("inputs", [5, 55, [6], None, True])
def test_encoded_columns_that_the_options_do_not_allow_are_refused(
    inputs: object, model: Linear, tmp_path: Path
) -> None:
    model.save_weights(tmp_path)

    with pytest.raises(ModelError, match="inputs of this linear model must be"):
        Linear(feature_spec="demo@1").load_weights(tmp_path, {**model.config(), "inputs": inputs})


def test_an_architecture_of_one_part_refuses_a_composite_spec() -> None:
    with pytest.raises(ModelError, match=r"linear model reads one feature spec, got relation@1\+per_store@1"):
        Linear(feature_spec="relation@1+per_store@1")


def test_an_unfitted_model_cannot_be_fine_tuned(train: Programs) -> None:
    with pytest.raises(ModelError, match="no weights yet"):
        Linear(feature_spec="demo@1").fine_tune(train, epochs=1, learning_rate=1e-3, seed=0)


@pytest.mark.parametrize("epochs_before", [1, 3, 4, 6])
def test_an_interrupted_training_that_goes_on_ends_with_the_same_weights(
    epochs_before: int,
    train: Programs,
    unseen: Programs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = LinearOptions(learning_rate=1e-2)
    whole = fitted(train, unseen, options=options)
    broken, resumed = (Linear(feature_spec="demo@1", options=options) for _ in range(2))
    broken.checkpoint = resumed.checkpoint = tmp_path / "partial"

    with monkeypatch.context() as context:
        context.setattr(Checkpoint, "save", interrupted_after(epochs_before))
        with pytest.raises(KeyboardInterrupt):
            broken.fit(train, unseen, seed=0, progress=False)
    resumed.fit(train, unseen, seed=0, progress=False)

    assert len(resumed.networks) == 2
    for one, other in zip(resumed.networks, whole.networks, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def interrupted_after(epochs: int) -> Callable[[Checkpoint, TrainingState], None]:
    save, done = Checkpoint.save, []

    def saved(checkpoint: Checkpoint, state: TrainingState) -> None:
        save(checkpoint, state)
        done.append(state.epochs)
        if len(done) == epochs:
            raise KeyboardInterrupt

    return saved


def test_the_progress_of_another_training_is_refused(train: Programs, tmp_path: Path) -> None:
    model = Linear(feature_spec="demo@1")
    model.checkpoint = tmp_path
    model.fit(train, None, seed=0, progress=False)

    for programs, seed in ((train, 1), (replace(train, latency_s=train.latency_s[::-1].copy()), 0)):
        with pytest.raises(ModelError, match="progress of another training"):
            model.fit(programs, None, seed=seed, progress=False)
