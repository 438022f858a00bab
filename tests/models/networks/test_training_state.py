from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from costhub.errors import ModelError
from costhub.models.networks.training_state import Checkpoint, TrainingState


def made(seed: int = 0) -> TrainingState:
    network = nn.Linear(3, 1)
    return TrainingState(network, torch.optim.AdamW(network.parameters(), lr=0.1), np.random.default_rng(seed))


def step(state: TrainingState) -> None:
    """A step that depends on all that a state holds: weights, moments and the next random number."""
    state.optimizer.zero_grad()
    (state.network(torch.ones(1, 3)) * state.rng.normal()).sum().backward()
    state.optimizer.step()


def test_a_restored_state_goes_on_as_the_one_that_was_put_away() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        state, restored = made(), made(seed=9)
    for valid_loss in (0.5, 0.75):
        step(state)
        state.end_epoch(valid_loss)

    tensors = {name: tensor.clone() for name, tensor in state.tensors().items()}
    restored.restore(tensors, json.loads(json.dumps(state.numbers())))

    assert (restored.epochs, restored.best, restored.best_epochs) == (2, 0.5, 1)
    for _ in range(2):
        step(state)
        step(restored)
    for one, other in zip(state.network.parameters(), restored.network.parameters(), strict=True):
        assert torch.equal(one, other)
    assert state.kept is not None
    assert restored.kept is not None
    assert all(torch.equal(state.kept[name], restored.kept[name]) for name in state.kept)


def test_the_weights_with_the_lowest_loss_are_kept() -> None:
    state, weights = made(), []
    for valid_loss in (0.5, 0.25, 0.25, float("nan")):
        step(state)
        weights.append(state.network.weight.detach().clone())  # type: ignore[operator, union-attr]
        state.end_epoch(valid_loss)

    assert (state.best_epochs, state.epochs) == (2, 4)
    assert state.kept is not None
    assert torch.equal(state.kept["weight"], weights[1])


def test_without_validation_nothing_is_kept() -> None:
    state, restored = made(), made()
    step(state)
    state.end_epoch(float("nan"))

    restored.restore(state.tensors(), json.loads(json.dumps(state.numbers())))

    assert (restored.kept, restored.epochs, restored.best_epochs) == (None, 1, 0)


def state(fill: float = 0.0) -> TrainingState:
    network = nn.Linear(3, 1)
    nn.init.constant_(network.weight, fill)
    return TrainingState(network, torch.optim.AdamW(network.parameters()), np.random.default_rng(0))


def weight(found: TrainingState) -> float:
    return float(next(found.network.parameters()).detach()[0, 0])


def test_what_was_saved_is_taken_up_and_nothing_else_is_left(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "made" / "member_0.safetensors", "a")
    restored = state()
    checkpoint.restore(restored)
    assert weight(restored) == 0.0

    for fill in (1.0, 2.0):
        checkpoint.save(state(fill))
    checkpoint.restore(restored)

    assert weight(restored) == 2.0
    assert [path.name for path in checkpoint.path.parent.iterdir()] == ["member_0.safetensors"]


def test_an_interrupted_save_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, restored = Checkpoint(tmp_path / "one.safetensors", "a"), state()
    checkpoint.save(state(1.0))
    with monkeypatch.context() as context:
        context.setattr("os.fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            checkpoint.save(state(2.0))

    checkpoint.restore(restored)

    assert weight(restored) == 1.0
    assert len(list(tmp_path.iterdir())) == 1


def interrupt(descriptor: int) -> None:
    raise KeyboardInterrupt


def test_progress_of_another_training_is_refused(tmp_path: Path) -> None:
    Checkpoint(tmp_path / "one.safetensors", "a").save(state())

    with pytest.raises(ModelError, match="progress of another training run, with other programs, options or seed"):
        Checkpoint(tmp_path / "one.safetensors", "b").restore(state())


@pytest.mark.parametrize("keep", [0, 7, 200])
def test_a_damaged_file_is_refused(keep: int, tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "one.safetensors", "a")
    checkpoint.save(state())
    checkpoint.path.write_bytes(checkpoint.path.read_bytes()[:keep])

    with pytest.raises(ModelError, match=r"cannot be read \(.*; remove it to start over"):
        checkpoint.restore(state())
