from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from costhub.dataset.programs import Programs
from costhub.errors import DataError, ModelError
from costhub.models.evaluation.evaluate import evaluate
from costhub.models.networks.mlp import Mlp, MlpOptions
from costhub.models.training.stream_network import fit_network

OPTIONS = MlpOptions(hidden=32, epochs=30, batch=64, chunk=16)


def blocks_of(programs: Programs) -> list[Programs]:
    """A block for each workload."""
    return [programs.of_workloads({name}) for name in programs.workload_ids]


def test_a_network_from_blocks_ranks_as_one_of_all_programs_at_once(
    train: Programs, unseen: Programs
) -> None:
    whole, streamed = (Mlp(feature_spec="demo@1", options=OPTIONS) for _ in range(2))
    whole.fit(train, None, seed=0, progress=False)

    fit_network(streamed, blocks_of(train), None, seed=0, progress=False)

    # Few programs are all in the sample, so the scalers are the same.
    assert np.array_equal(streamed.scalers[0].mean, whole.scalers[0].mean)
    assert evaluate(streamed, unseen).pairwise > 0.85
    assert abs(evaluate(streamed, unseen).pairwise - evaluate(whole, unseen).pairwise) < 0.05


def test_equal_seeds_give_equal_networks_and_others_others(train: Programs, unseen: Programs) -> None:
    def scores(seed: int) -> np.ndarray:
        model = Mlp(feature_spec="demo@1", options=MlpOptions(hidden=8, epochs=3, members=2))
        fit_network(model, blocks_of(train), unseen, seed=seed, progress=False)
        return model.predict(unseen.rows, unseen.counts)

    assert np.array_equal(scores(1), scores(1))
    assert not np.array_equal(scores(1), scores(2))


def test_an_interrupted_training_is_taken_up(
    train: Programs, unseen: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = MlpOptions(hidden=8, epochs=6)
    through = Mlp(feature_spec="demo@1", options=options)
    fit_network(through, blocks_of(train), None, seed=0, progress=False)

    class Breaks(list[Programs]):
        """Blocks of which reading the twenty-first fails: six for the sample, six for each epoch."""

        reads = 0

        def __getitem__(self, number: int) -> Programs:  # type: ignore[override]
            self.reads += 1
            if self.reads == 21:
                raise KeyboardInterrupt
            return super().__getitem__(number)

    model = Mlp(feature_spec="demo@1", options=options)
    model.checkpoint = tmp_path
    with pytest.raises(KeyboardInterrupt):
        fit_network(model, Breaks(blocks_of(train)), None, seed=0, progress=False)
    assert list(tmp_path.iterdir())
    fit_network(model, blocks_of(train), None, seed=0, progress=False)

    assert np.array_equal(
        model.predict(unseen.rows, unseen.counts), through.predict(unseen.rows, unseen.counts)
    )
    with pytest.raises(ModelError, match="another training"):
        fit_network(model, blocks_of(unseen), None, seed=0, progress=False)


def test_programs_that_tell_nothing_are_refused(train: Programs) -> None:
    alone = [train.select(np.array([place])) for place in (0, 40, 80)]

    with pytest.raises(DataError, match="nothing to learn from 3 programs"):
        fit_network(Mlp(feature_spec="demo@1"), alone, None, seed=0, progress=False)


def test_two_processes_end_with_equal_weights_and_have_learned(
    torchrun: Callable[..., str], train: Programs, unseen: Programs, tmp_path: Path
) -> None:
    np.savez(
        tmp_path / "programs.npz",
        rows=train.rows, counts=train.counts, workload=train.workload, latency_s=train.latency_s,
    )  # fmt: skip
    torchrun(str(Path(__file__).with_name("joined_training.py")), str(tmp_path))

    weights = [load_file(tmp_path / f"process_{number}/model.safetensors") for number in (0, 1)]
    assert weights[0].keys() == weights[1].keys()
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])
    for number in (0, 1):
        told = load_file(tmp_path / f"process_{number}/told.safetensors")
        assert (told["mean"].item(), told["least"].item()) == (0.5, 10)
        assert told["gathered"].tolist() == [[0, 0], [1, 1], [1, 1]]
        assert told["threads"].item() == 0
    model = Mlp(feature_spec="demo@1", options=OPTIONS)
    inputs = weights[0]["member_0.encode_1.weight"].shape[1]
    model.load_weights(tmp_path / "process_0", {"columns": 6, "inputs": inputs, **asdict(OPTIONS)})
    assert evaluate(model, unseen).pairwise > 0.75
