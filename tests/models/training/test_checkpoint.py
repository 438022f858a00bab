from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from costhub.errors import ModelError
from costhub.models.training.checkpoint import Checkpoint
from costhub.models.training.training_state import TrainingState


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

    with pytest.raises(ModelError, match="progress of another training: other programs, options or seed"):
        Checkpoint(tmp_path / "one.safetensors", "b").restore(state())


@pytest.mark.parametrize("keep", [0, 7, 200])
def test_a_damaged_file_is_refused(keep: int, tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "one.safetensors", "a")
    checkpoint.save(state())
    checkpoint.path.write_bytes(checkpoint.path.read_bytes()[:keep])

    with pytest.raises(ModelError, match=r"cannot be read \(.*; remove it to start over"):
        checkpoint.restore(state())
