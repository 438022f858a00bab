"""Provides NeuralModel: what all cost models that are networks have in common."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from costhub.dataset.programs import FloatArray, IntArray, Programs
from costhub.errors import ModelError
from costhub.models.inputs import check_training, checked_rows, is_informative, not_fitted_error
from costhub.models.networks.batches import BatchSource, Examples, Stream, block_sizes, parts_of, sample_programs
from costhub.models.networks.gradient import StepRule, train_network
from costhub.models.networks.network_options import NetworkOptions
from costhub.models.networks.processes import all_gather, process_count
from costhub.models.networks.scaler import Scaler
from costhub.models.networks.training_state import Checkpoint
from costhub.models.networks.weights import read_tensors, with_prefix, write_tensors
from costhub.models.options import check_width, parse_options
from costhub.models.parts import part_widths
from costhub.models.protocol import CostModel, Scores
from costhub.models.training_progress import training_id
from costhub.progress import bar

WEIGHTS = "model.safetensors"
SAMPLE_PROGRAMS = 50_000
"""Programs that scalers are fitted on: about 270 MB of rows of `per_store@1`, with quantiles within half a percent."""

Options = TypeVar("Options", bound=NetworkOptions)


class NeuralModel(CostModel, Generic[Options]):
    """A cost model whose members are networks with averaged scores; an architecture is a subclass.

    The subclass defines what a network looks like; scaling, training, saving and loading are done here:

        @dataclass(frozen=True)
        class TreeGruOptions(NetworkOptions):
            hidden: int = 128

            def __post_init__(self) -> None:
                super().__post_init__()
                check_ranges({"hidden": (self.hidden, 1, 4096)})


        class TreeGru(NeuralModel[TreeGruOptions]):
            arch = "treegru"
            options_type = TreeGruOptions

            def build(self, inputs: Sequence[int], generator: torch.Generator | None) -> nn.Module:
                return TreeGruNetwork(inputs[0], self.options.hidden, generator=generator)

            @property
            def raw(self) -> tuple[int, ...]:
                return (PARENT,)  # the network gets this column as it is, after the others

    The network is called with (r, w) rows and (n,) counts and returns (n,) scores, on the CPU or a GPU, in
    single precision or (in `predict`) double. It holds only weights, no buffers; dropout would draw from
    the global random state, and equal seeds would no longer give equal models. Rows may come from strangers:
    raw columns may hold any finite number.

    Args:
        feature_spec: Name and version of the feature layout it reads.
        options: How it is built and trained.
    """

    options_type: ClassVar[type[NetworkOptions]]
    """The dataclass of its options."""
    reads_parts: ClassVar[bool] = False
    """Whether it reads composite feature specs: its network is then called with the rows and counts of each
    part in turn, and `raw` refers to all parts."""
    block_rows: ClassVar[int] = 8192
    """Rows scored at once: 16 MB of activations at 256 hidden units in double precision."""
    update_rows: ClassVar[int] = 40_000
    """Rows times epochs of one update: about half a second on two cores."""

    def __init__(self, *, feature_spec: str, options: Options | None = None) -> None:
        self.feature_spec = feature_spec
        self.options: Options = options or self.options_type()  # type: ignore[assignment]
        self.scalers: tuple[Scaler, ...] = ()
        """One for each part of the feature spec; fitted by `fit` or read from a file, and never changed
        otherwise."""
        self.networks: list[nn.Module] = []
        """The members."""
        if "+" in feature_spec and not self.reads_parts:
            raise ModelError(
                f"A {self.arch} model reads one feature spec, got {feature_spec}; a blend can combine models."
            )

    @property
    def raw(self) -> tuple[int, ...]:
        """Columns that are not quantities: they reach the network unscaled, after the encoded ones."""
        return ()

    @abstractmethod
    def build(self, inputs: Sequence[int], generator: torch.Generator | None) -> nn.Module:
        """A network with the current options.

        Args:
            inputs: Number of encoded columns, not counting those of `raw`, for each part of the feature spec.
            generator: Draws the initial weights; None leaves them on the device "meta", to be loaded.
        """

    def fit(self, train: Programs, valid: Programs | None, *, seed: int, progress: bool = True) -> None:
        """Learns from scratch; `valid`, of other workloads, decides when to stop.

        Raises:
            DataError: No workload has two programs with different latencies.
            ModelError: The checkpoint belongs to another training run, or the rows lack columns of the feature spec.
        """
        check_training(train)
        self._fit_scalers(train.rows, train.counts)
        self._fit_members(Examples(train, self.scalers), train, valid, seed=seed, progress=progress)

    def fit_blocks(
        self, blocks: Sequence[Programs], valid: Programs | None, *, seed: int, progress: bool = True
    ) -> None:
        """Learns from scratch with a few blocks in memory at a time, see `CostModel.fit_blocks`.

        Blocks are read once for the scalers, and once in each epoch. If `processes.joined_processes` has found
        others, each process has blocks of its own, and all end with the same weights: torch's
        DistributedDataParallel averages the gradients of a step over them, so a step learns from `batch`
        programs times the number of processes. `valid` is then the same in all processes.
        """
        sample = sample_programs(blocks, most=SAMPLE_PROGRAMS // process_count(), seed=seed)
        check_training(sample)
        self._fit_scalers(all_gather(sample.rows), all_gather(sample.counts))
        stream = Stream(blocks, self.scalers, programs=sum(block_sizes(blocks)))
        self._fit_members(stream, sample, valid, seed=seed, progress=progress)

    def _fit_scalers(self, rows: FloatArray, counts: IntArray) -> None:
        """Fits the scalers on (r, d) rows of all programs, or of a fair sample, with (n,) rows per program."""
        widths = part_widths(self.feature_spec, rows.shape[1])
        self._check_raw(widths)
        parts = parts_of(rows, counts, widths)
        self.scalers = tuple(Scaler.fit(own, bins=self.options.bins, raw=self.raw) for own, _ in parts)

    def _fit_members(
        self, train: BatchSource, sample: Programs, valid: Programs | None, *, seed: int, progress: bool
    ) -> None:
        """Trains the networks.

        Args:
            train: What to learn from.
            sample: All or some programs of `train`, by which a checkpoint recognises the training run.
            valid: Programs of other workloads that decide when to stop.
            seed: As in `fit`.
            progress: Show a progress bar on a terminal.

        Raises:
            ModelError: The checkpoint belongs to another training run.
        """
        valid = valid if valid is not None and is_informative(valid) else None
        stop = Examples(valid, self.scalers) if valid is not None else None
        settings = {"arch": self.arch, "spec": self.feature_spec, "seed": seed, **asdict(self.options)}
        training = training_id(sample, valid, settings) if self.checkpoint is not None else ""
        self.networks = []
        epochs = self.options.epochs
        with bar(self.options.members * epochs, desc="training", unit="epoch", enabled=progress) as progress_bar:

            def show(done: int, valid_loss: float) -> None:
                if stop is not None:
                    progress_bar.set_postfix(valid=f"{valid_loss:.4f}", refresh=False)
                progress_bar.update(len(self.networks) * epochs + done - progress_bar.n)

            for number, drawn in enumerate(np.random.SeedSequence(seed).generate_state(self.options.members)):
                self.networks.append(self._fit_member(number, train, stop, int(drawn), training, show))

    def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
        """(n,) scores, see `CostModel.predict`."""
        rows = checked_rows(rows, counts, columns=self._columns())
        # In double precision, rounding that differs with the size of a block stays below 1e-12.
        networks = [copy.deepcopy(network).double() for network in self.networks]
        scores = np.zeros(len(counts))
        ends = np.cumsum(counts)
        first = 0
        with torch.inference_mode():
            while first < len(counts):
                start = int(ends[first] - counts[first])
                last = max(first + 1, int(np.searchsorted(ends, start + self.block_rows, side="right")))
                inputs = self._encoded(rows[start : ends[last - 1]], counts[first:last])
                block = torch.stack([network(*inputs) for network in networks]).mean(dim=0)
                scores[first:last] = block.numpy()
                first = last
        return scores

    def fine_tune(
        self,
        programs: Programs,
        *,
        epochs: int,
        learning_rate: float,
        seed: int,
        rule: StepRule | None = None,
    ) -> None:
        """Takes gradient steps from the current weights; the scalers stay the same.

        Args:
            programs: What to learn from; nothing happens unless two of one workload differ in latency.
            epochs: Passes over the programs.
            learning_rate: The highest rate of the schedule.
            seed: Orders the programs.
            rule: What else happens around the steps; plain ones by default.
        """
        checked_rows(programs.rows, programs.counts, columns=self._columns())
        if not len(programs.rows) or not is_informative(programs):
            return
        examples = Examples(programs, self.scalers)
        options = replace(self.options, epochs=epochs, learning_rate=learning_rate)
        for number, network in enumerate(self.networks):
            train_network(network, examples, None, options=options, seed=seed + number, rule=rule)

    def update(self, programs: Programs, *, seed: int) -> None:
        """Fine-tunes briefly: the more programs, the fewer passes, so that it takes less than a second."""
        rows = max(1, len(programs.rows) * len(self.networks))
        epochs = int(np.clip(self.update_rows // rows, 1, 20))
        self.fine_tune(programs, epochs=epochs, learning_rate=3e-4, seed=seed)

    def config(self) -> dict[str, Any]:
        """The width of the rows, before and after the scalers, and the options."""
        inputs = self._inputs()
        return {
            "columns": self._columns() if self.scalers else 0,
            # A number, as it has always been, if the feature spec has one part.
            "inputs": inputs if len(inputs) > 1 else sum(inputs),
            **asdict(self.options),
        }

    def save_weights(self, folder: Path) -> None:
        """Writes model.safetensors: the scalers and the weights of every member."""
        self._columns()  # refuses a model that was not fitted
        write_tensors(folder / WEIGHTS, _tensors(self.scalers, self.networks))

    def load_weights(self, folder: Path, config: Mapping[str, Any]) -> None:
        """Reads model.safetensors after checking the name, shape and dtype of every tensor.

        Raises:
            ModelError: `config` or the file is not what the code expects.
        """
        rest = dict(config)
        columns = check_width("columns", rest.pop("columns", None), arch=self.arch)
        widths = part_widths(self.feature_spec, columns)
        self._check_raw(widths)
        configured = rest.pop("inputs", None)
        options = parse_options(self.options_type, rest, arch=self.arch)
        inputs = self._checked_inputs(configured, widths, options.bins)
        form = type(self)(feature_spec=self.feature_spec, options=options)  # type: ignore[arg-type]
        networks = [form.build(inputs, None) for _ in range(options.members)]
        blank = [Scaler.blank(d, w - d, raw=self.raw) for d, w in zip(widths, inputs, strict=True)]
        tensors = read_tensors(folder / WEIGHTS, _tensors(blank, networks))
        names = _scaler_names(len(blank))
        scalers = [Scaler.of_tensors(with_prefix(f"{name}.", tensors), raw=self.raw) for name in names]
        if not all(((s.bin_column >= 0) & (s.bin_column < s.columns)).all() for s in scalers):
            raise ModelError(f"{folder / WEIGHTS} has bins of columns that do not exist. Fetch it again.")
        if not all((s.inverse_std >= 0).all() and (s.bin_inverse_width > 0).all() for s in scalers):
            raise ModelError(f"{folder / WEIGHTS} has a scaler that reverses a column. Fetch it again.")
        for number, network in enumerate(networks):
            network.load_state_dict(with_prefix(f"member_{number}.", tensors), assign=True)
            network.requires_grad_(True)
        self.options, self.networks, self.scalers = form.options, networks, tuple(scalers)

    def _fit_member(
        self,
        number: int,
        train: BatchSource,
        stop: Examples | None,
        seed: int,
        training: str,
        on_epoch: Callable[[int, float], object],
    ) -> nn.Module:
        """A member, trained from weights drawn by its seed."""
        network = self.build(self._inputs(), torch.Generator().manual_seed(seed))
        train_network(
            network,
            train,
            stop,
            options=self.options,
            seed=seed,
            on_epoch=on_epoch,
            checkpoint=Checkpoint(self.checkpoint / f"member_{number}.safetensors", training)
            if self.checkpoint is not None
            else None,
        )
        return network

    def _encoded(self, rows: FloatArray, counts: IntArray) -> list[Tensor]:
        """What a network is called with, in double precision."""
        inputs: list[Tensor] = []
        parts = parts_of(rows, counts, [scaler.columns for scaler in self.scalers])
        for (own, sizes), scaler in zip(parts, self.scalers, strict=True):
            inputs += [torch.from_numpy(scaler(own)).double(), torch.from_numpy(np.array(sizes, np.int64))]
        return inputs

    def _inputs(self) -> list[int]:
        return [scaler.width for scaler in self.scalers]

    def _columns(self) -> int:
        """Columns of a row; a composite spec has one more than its widest part."""
        if not self.scalers:
            raise not_fitted_error()
        widest = max(scaler.columns for scaler in self.scalers)
        return widest if len(self.scalers) == 1 else 1 + widest

    def _check_raw(self, widths: Sequence[int]) -> None:
        if max(self.raw, default=-1) >= min(widths):
            raise ModelError(
                f"A {self.arch} model needs all columns of {self.feature_spec}, got rows of {min(widths)}; "
                "compute the features again, or fetch the model again."
            )

    def _checked_inputs(self, configured: object, widths: Sequence[int], bins: int) -> list[int]:
        """`inputs` of an untrusted config.json: a number, or a list of them for a composite spec."""
        listed = configured if isinstance(configured, list) and len(widths) > 1 else [configured]
        if len(listed) != len(widths):
            raise ModelError(f"inputs of this {self.arch} model must be {len(widths)} numbers, got {configured!r}.")
        inputs = [check_width("inputs", width, arch=self.arch) for width in listed]
        for columns, width in zip(widths, inputs, strict=True):
            most = columns * (1 + bins)
            if not columns <= width <= most:
                raise ModelError(f"inputs of this {self.arch} model must be {columns} to {most}, got {width}.")
        return inputs


def _tensors(scalers: Sequence[Scaler], networks: Sequence[nn.Module]) -> dict[str, Tensor]:
    """Everything that is saved, under the name it is saved with."""
    tensors: dict[str, Tensor] = {}
    for prefix, scaler in zip(_scaler_names(len(scalers)), scalers, strict=True):
        tensors.update({f"{prefix}.{name}": tensor for name, tensor in scaler.tensors().items()})
    for number, network in enumerate(networks):
        tensors.update({f"member_{number}.{name}": tensor for name, tensor in network.state_dict().items()})
    return tensors


def _scaler_names(parts: int) -> list[str]:
    return ["scaler"] if parts == 1 else [f"scaler_{part}" for part in range(parts)]
