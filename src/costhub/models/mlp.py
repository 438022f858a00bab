"""Provides Mlp: the segment-sum multilayer perceptron as a cost model."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from costhub.dataset.programs import FloatArray, IntArray, Programs
from costhub.errors import ModelError
from costhub.models.batches import Batch
from costhub.models.gradient import Schedule, train_network
from costhub.models.inputs import check_training, checked_rows, informative, not_fitted
from costhub.models.network import SegmentSumNetwork
from costhub.models.options import check_ranges, check_width, parse_options
from costhub.models.protocol import Scores
from costhub.models.scaler import Scaler
from costhub.models.weights import read_tensors, write_tensors
from costhub.progress import bar

WEIGHTS = "model.safetensors"
_BLOCK_ROWS = 8192  # Rows scored at once: 16 MB of activations at 256 hidden units.
_UPDATE_ROWS = 40_000  # Rows times steps of one update: about half a second on two cores.


@dataclass(frozen=True)
class MlpOptions:
    """How an Mlp is built and trained; the defaults are what the benchmark found best."""

    hidden: int = 256
    """Width of the hidden layers; Moses has 512."""
    bins: int = 8
    """Most bins into which the scaler spreads a column; 0 leaves columns standardised only."""
    members: int = 1
    """Networks, trained from different initial weights, whose scores are averaged."""
    epochs: int = 60
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    batch: int = 512
    """Programs per step."""
    chunk: int = 64
    """Programs of one workload that stay together in a batch."""
    listwise: float = 0.2
    """Weight of the ListNet loss beside the pairwise one."""
    patience: int = 20
    """Epochs without a better validation loss after which training ends."""

    def __post_init__(self) -> None:
        check_ranges(
            {
                "hidden": (self.hidden, 1, 4096),
                "bins": (self.bins, 0, 64),
                "members": (self.members, 1, 64),
                "epochs": (self.epochs, 1, 10_000),
                "learning_rate": (self.learning_rate, 0.0, 1.0),
                "weight_decay": (self.weight_decay, 0.0, 1.0),
                "batch": (self.batch, 2, 65_536),
                "chunk": (self.chunk, 2, 65_536),
                "listwise": (self.listwise, 0.0, 100.0),
                "patience": (self.patience, 1, 10_000),
            }
        )

    def schedule(self, *, epochs: int | None = None, learning_rate: float | None = None) -> Schedule:
        """The training schedule, with other epochs or another learning rate where they are given."""
        return Schedule(
            epochs=self.epochs if epochs is None else epochs,
            learning_rate=self.learning_rate if learning_rate is None else learning_rate,
            weight_decay=self.weight_decay,
            batch=self.batch,
            chunk=self.chunk,
            listwise=self.listwise,
            patience=self.patience,
        )


class Mlp:
    """Rows are scaled, encoded one by one, summed per program and decoded to a score.

    Args:
        feature_spec: Name and version of the feature layout it reads.
        options: How it is built and trained.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> rows = rng.normal(size=(64, 3)).astype(np.float32)
        >>> ones, latency_s = np.ones(64, np.int64), np.exp(rows[:, 0]).astype(float)
        >>> programs = Programs(rows, ones, 0 * ones, ("w",), latency_s)
        >>> model = Mlp(feature_spec="demo@1", options=MlpOptions(hidden=16))
        >>> model.fit(programs, None, seed=0, progress=False)
        >>> scores = model.predict(programs.rows, programs.counts)
        >>> bool(scores[programs.latency_s.argmin()] > scores[programs.latency_s.argmax()])
        True
    """

    arch = "mlp"

    def __init__(self, *, feature_spec: str, options: MlpOptions | None = None) -> None:
        self.feature_spec = feature_spec
        self.options = options or MlpOptions()
        self.scaler: Scaler | None = None
        """Fitted by `fit` or read from a file, and changed by nothing else."""
        self.networks: list[SegmentSumNetwork] = []
        """The members of the ensemble."""

    def fit(self, train: Programs, valid: Programs | None, *, seed: int, progress: bool = True) -> None:
        """Learns from scratch; `valid`, of other workloads, tells when to stop.

        Raises:
            DataError: No workload has two programs of different latency.
        """
        check_training(train)
        self.scaler = Scaler.fit(train.rows, bins=self.options.bins)
        batch = Batch.of(train, self.scaler)
        stop = Batch.of(valid, self.scaler) if valid is not None and informative(valid) else None
        seeds = np.random.SeedSequence(seed).generate_state(self.options.members)
        self.networks = []
        epochs = self.options.members * self.options.epochs
        with bar(epochs, desc="training", unit="epoch", enabled=progress) as shown:
            for member_seed in map(int, seeds):
                generator = torch.Generator().manual_seed(member_seed)
                network = SegmentSumNetwork(self.scaler.width, self.options.hidden, generator=generator)
                train_network(
                    network, batch, stop, schedule=self.options.schedule(), seed=member_seed,
                    on_epoch=lambda _: shown.update(),
                )  # fmt: skip
                self.networks.append(network)

    def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
        """(n,) scores, see `CostModel.predict`."""
        scaler = self._fitted_scaler()
        rows = checked_rows(rows, counts, columns=scaler.columns)
        # In double precision, rounding that differs with the size of a block stays below 1e-12.
        networks = [copy.deepcopy(network).double() for network in self.networks]
        scores = np.zeros(len(counts))
        ends = np.cumsum(counts)
        first = 0
        with torch.inference_mode():
            while first < len(counts):
                start = int(ends[first] - counts[first])
                last = max(first + 1, int(np.searchsorted(ends, start + _BLOCK_ROWS, side="right")))
                part = torch.from_numpy(scaler(rows[start : ends[last - 1]]).astype(np.float64))
                sizes = torch.from_numpy(np.asarray(counts[first:last], np.int64))
                found = torch.stack([network(part, sizes) for network in networks]).mean(dim=0)
                scores[first:last] = found.numpy()
                first = last
        return scores

    def fine_tune(self, programs: Programs, *, epochs: int, learning_rate: float, seed: int) -> None:
        """Takes plain gradient steps from the present weights; the scaler stays.

        Args:
            programs: What to learn from; nothing happens unless two of one workload differ in latency.
            epochs: Passes over the programs.
            learning_rate: The highest one of the schedule.
            seed: Orders the programs.
        """
        scaler = self._fitted_scaler()
        checked_rows(programs.rows, programs.counts, columns=scaler.columns)
        if not len(programs.rows) or not informative(programs):
            return
        batch = Batch.of(programs, scaler)
        schedule = self.options.schedule(epochs=epochs, learning_rate=learning_rate)
        for number, network in enumerate(self.networks):
            train_network(network, batch, None, schedule=schedule, seed=seed + number)

    def update(self, programs: Programs, *, seed: int) -> None:
        """Fine-tunes briefly; fewer passes over more programs, so that it takes under a second."""
        rows = max(1, len(programs.rows) * len(self.networks))
        epochs = int(np.clip(_UPDATE_ROWS // rows, 2, 20))
        self.fine_tune(programs, epochs=epochs, learning_rate=3e-4, seed=seed)

    def config(self) -> dict[str, Any]:
        """The width of the rows, before and after the scaler, and the options."""
        columns, inputs = (self.scaler.columns, self.scaler.width) if self.scaler else (0, 0)
        return {"columns": columns, "inputs": inputs, **asdict(self.options)}

    def save_weights(self, folder: Path) -> None:
        """Writes model.safetensors: the scaler and the weights of every member."""
        write_tensors(folder / WEIGHTS, _tensors(self._fitted_scaler(), self.networks))

    def load_weights(self, folder: Path, config: Mapping[str, Any]) -> None:
        """Reads model.safetensors after checking the name, shape and dtype of every tensor.

        Raises:
            ModelError: `config` or the file is not what the code expects.
        """
        rest = dict(config)
        columns = check_width("columns", rest.pop("columns", None), arch=self.arch)
        inputs = check_width("inputs", rest.pop("inputs", None), arch=self.arch)
        options = parse_options(MlpOptions, rest, arch=self.arch)
        if not columns <= inputs <= columns * (1 + options.bins):
            raise ModelError(
                f"inputs of this mlp model must be {columns} to {columns * (1 + options.bins)}, got {inputs}."
            )
        networks = [SegmentSumNetwork(inputs, options.hidden) for _ in range(options.members)]
        form = _tensors(_empty_scaler(columns, inputs - columns), networks)
        tensors = read_tensors(folder / WEIGHTS, form)
        scaler = Scaler(*(tensors[f"scaler.{field.name}"].numpy() for field in fields(Scaler)))
        if len(scaler.bin_column) and not 0 <= scaler.bin_column.min() <= scaler.bin_column.max() < columns:
            raise ModelError(f"{folder / WEIGHTS} has bins of columns that do not exist. Fetch it again.")
        for number, network in enumerate(networks):
            prefix = f"member_{number}."
            own = {name[len(prefix) :]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}
            network.load_state_dict(own, assign=True)
            network.requires_grad_(True)
        self.options, self.networks, self.scaler = options, networks, scaler

    def _fitted_scaler(self) -> Scaler:
        if self.scaler is None:
            raise not_fitted()
        return self.scaler


def _tensors(scaler: Scaler, networks: list[SegmentSumNetwork]) -> dict[str, Tensor]:
    """Everything that is saved, under the name it is saved by."""
    tensors = {
        f"scaler.{field.name}": torch.from_numpy(getattr(scaler, field.name)) for field in fields(scaler)
    }
    for number, network in enumerate(networks):
        tensors.update({f"member_{number}.{name}": tensor for name, tensor in network.state_dict().items()})
    return tensors


def _empty_scaler(columns: int, bins: int) -> Scaler:
    """A scaler of a given form, for the shapes of its arrays."""
    by_column, by_bin = np.zeros(columns, np.float32), np.zeros(bins, np.float32)
    return Scaler(by_column, by_column, by_bin.astype(np.int64), by_bin, by_bin)
