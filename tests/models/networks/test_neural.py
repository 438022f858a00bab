from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from torch import Tensor, nn

from costhub.dataset.programs import Programs
from costhub.errors import DataError, ModelError
from costhub.models.evaluate import evaluate
from costhub.models.networks.mlp import Mlp
from costhub.models.networks.network_options import MlpOptions, NetworkOptions
from costhub.models.networks.neural import NeuralModel
from costhub.models.networks.scaler import Scaler
from costhub.models.networks.training_state import Checkpoint, TrainingState
from costhub.models.networks.weights import draw_weights


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

    np.testing.assert_array_equal(with_it.predict(train.rows, train.counts), without.predict(train.rows, train.counts))


def test_what_is_saved_comes_back(model: Linear, unseen: Programs, tmp_path: Path) -> None:
    model.save_weights(tmp_path)
    loaded = Linear(feature_spec="demo@1")

    loaded.load_weights(tmp_path, model.config())

    np.testing.assert_array_equal(loaded.predict(unseen.rows, unseen.counts), model.predict(unseen.rows, unseen.counts))
    assert loaded.config() == model.config()


@pytest.mark.parametrize("inputs", [5, 55, [6], None, True])
def test_encoded_columns_that_the_options_do_not_allow_are_refused(
    inputs: object, model: Linear, tmp_path: Path
) -> None:
    model.save_weights(tmp_path)

    with pytest.raises(ModelError, match="inputs of this linear model must be"):
        Linear(feature_spec="demo@1").load_weights(tmp_path, {**model.config(), "inputs": inputs})


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("scaler.inverse_std", -1.0, "a scaler that reverses a column"),
        ("scaler.bin_inverse_width", -1.0, "a scaler that reverses a column"),
        ("scaler.bin_inverse_width", 0.0, "a scaler that reverses a column"),
        ("scaler.bin_column", -1, "bins of columns that do not exist"),
        ("scaler.bin_column", 6, "bins of columns that do not exist"),
        ("scaler.mean", 1e38, "in a sound model no number there is beyond"),
    ],
)
def test_a_scaler_that_no_training_gives_is_refused(
    name: str, value: float, sentence: str, model: Linear, tmp_path: Path
) -> None:
    model.save_weights(tmp_path)
    tensors = dict(load_file(tmp_path / "model.safetensors"))
    tensors[name][0] = value
    save_file(tensors, tmp_path / "model.safetensors")

    with pytest.raises(ModelError, match=sentence):
        Linear(feature_spec="demo@1").load_weights(tmp_path, model.config())


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
    again = Linear(feature_spec="demo@1", options=options)
    again.checkpoint = tmp_path / "again"
    saves: dict[int, list[int]] = {0: [], 1: []}
    for number, model in enumerate((again, resumed)):
        with monkeypatch.context() as context:
            context.setattr(Checkpoint, "save", lambda _, state, own=saves[number]: own.append(state.epochs))
            model.fit(train, unseen, seed=0, progress=False)

    assert len(saves[1]) == len(saves[0]) - epochs_before
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


OPTIONS = MlpOptions(hidden=32, epochs=30, batch=64, chunk=16)


def blocks_of(programs: Programs) -> list[Programs]:
    """A block for each workload."""
    return [programs.of_workloads({name}) for name in programs.workload_ids]


def test_a_network_from_blocks_ranks_as_one_of_all_programs_at_once(train: Programs, unseen: Programs) -> None:
    whole, streamed = (Mlp(feature_spec="demo@1", options=OPTIONS) for _ in range(2))
    whole.fit(train, None, seed=0, progress=False)

    streamed.fit_blocks(blocks_of(train), None, seed=0, progress=False)

    # Few programs are all in the sample, so the scalers are the same.
    assert np.array_equal(streamed.scalers[0].mean, whole.scalers[0].mean)
    assert evaluate(streamed, unseen).pairwise > 0.85
    assert abs(evaluate(streamed, unseen).pairwise - evaluate(whole, unseen).pairwise) < 0.05


def test_equal_seeds_give_equal_networks_and_others_others(train: Programs, unseen: Programs) -> None:
    def scores(seed: int) -> np.ndarray:
        model = Mlp(feature_spec="demo@1", options=MlpOptions(hidden=8, epochs=3, members=2))
        model.fit_blocks(blocks_of(train), unseen, seed=seed, progress=False)
        return model.predict(unseen.rows, unseen.counts)

    assert np.array_equal(scores(1), scores(1))
    assert not np.array_equal(scores(1), scores(2))


def test_an_interrupted_training_is_taken_up(
    train: Programs, unseen: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = MlpOptions(hidden=8, epochs=6)
    through = Mlp(feature_spec="demo@1", options=options)
    through.fit_blocks(blocks_of(train), None, seed=0, progress=False)

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
        model.fit_blocks(Breaks(blocks_of(train)), None, seed=0, progress=False)
    assert list(tmp_path.iterdir())
    model.fit_blocks(blocks_of(train), None, seed=0, progress=False)

    assert np.array_equal(model.predict(unseen.rows, unseen.counts), through.predict(unseen.rows, unseen.counts))
    with pytest.raises(ModelError, match="another training"):
        model.fit_blocks(blocks_of(unseen), None, seed=0, progress=False)


def test_programs_that_tell_nothing_are_refused(train: Programs) -> None:
    alone = [train.select(np.array([place])) for place in (0, 40, 80)]

    with pytest.raises(DataError, match="nothing to learn from 3 programs"):
        Mlp(feature_spec="demo@1").fit_blocks(alone, None, seed=0, progress=False)


@pytest.mark.slow
def test_two_processes_end_with_equal_weights_and_have_learned(
    torchrun: Callable[..., str], train: Programs, unseen: Programs, tmp_path: Path
) -> None:
    np.savez(
        tmp_path / "programs.npz",
        rows=train.rows,
        counts=train.counts,
        workload=train.workload,
        latency_s=train.latency_s,
    )
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
