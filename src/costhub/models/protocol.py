"""Provides CostModel: what every cost model can do, and the only seam between models and searches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from costhub.dataset.features.specs import DEFAULT_SPEC
from costhub.dataset.programs import FloatArray, IntArray, Programs
from costhub.errors import ModelError
from costhub.terminal_text import counted

if TYPE_CHECKING:
    from costhub.models.info import ModelInfo

Scores = npt.NDArray[np.float64]


class LatencyInterval(Protocol):
    """A latency with an interval that covers it; `float` gives the latency and `print` shows a table."""

    @property
    def latency_us(self) -> float:
        """The likeliest value."""

    @property
    def low_us(self) -> float:
        """The lower end of the interval."""

    @property
    def high_us(self) -> float:
        """The upper end of the interval."""

    def __float__(self) -> float:
        """The likeliest value in microseconds."""


class CostModel(ABC):
    """Ranks programs of one workload by how fast they will run.

    A model of your own derives from this class and defines the abstract methods; the others have defaults
    that suit most models. A copy made with `copy.deepcopy` must be independent: updating it leaves the
    original unchanged.
    """

    arch: ClassVar[str]
    """Name of the architecture, a key of `ARCHITECTURES`."""
    default_spec: ClassVar[str] = DEFAULT_SPEC
    """The feature spec that the architecture reads if no other is named."""
    feature_spec: str
    """Name and version of the feature layout that the model reads."""
    checkpoint: Path | None = None
    """Folder in which `fit` keeps its progress; with None it keeps none, and some architectures never do.

    Calling `fit` with equal programs, options and seed then resumes an interrupted run, and ends with the
    model that it would have reached without the break. The progress of another training run is refused with a
    ModelError."""
    name: str = ""
    """What a hub calls the model; `costhub.load_model` sets it."""
    info: ModelInfo | None = None
    """Where the model comes from and how good it is; `costhub.load_model` sets it."""
    estimator: Callable[..., LatencyInterval] | None = None
    """`costhub.estimate` for the device that the model was loaded for; `costhub.load_model` sets it."""

    def __str__(self) -> str:
        """Two lines: what the model is, and what it learned from, with its figures."""
        what = f"{self.arch} model on {self.feature_spec}"
        if self.info is None:
            return f"{self.name}: {what}" if self.name else what
        learned = f"{counted(self.info.data_rows, 'program')} of {counted(len(self.info.train_workloads), 'workload')}"
        text = f"{self.name or 'A model'}: {what} for {self.info.device_id}\nlearned from {learned}"
        if not self.info.metrics:
            return f"{text}; not evaluated"
        figures = ", ".join(f"{name} {value:.3f}" for name, value in self.info.metrics.items())
        return f"{text}; on {len(self.info.test_workloads)} held-out workloads: {figures}"

    @abstractmethod
    def fit(self, train: Programs, valid: Programs | None, *, seed: int, progress: bool = True) -> None:
        """Learns from scratch; `valid`, of other workloads, decides when to stop."""

    @abstractmethod
    def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
        """Scores programs.

        Args:
            rows: (r, d) feature rows of all programs, programs in order.
            counts: (n,) number of rows of each program; may be 0.

        Returns:
            (n,) finite scores; higher is faster. They are comparable only within one workload, and the score of a
            program does not depend on the others.

        Raises:
            ModelError: The model was neither fitted nor loaded, or reads rows of another width.
        """

    @abstractmethod
    def update(self, programs: Programs, *, seed: int) -> None:
        """Learns a little more from new measurements, in less than a second for 500 programs of one workload.

        Nothing happens unless two programs of one workload differ in latency.
        """

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """What `load_weights` needs besides the files, as JSON values."""

    @abstractmethod
    def save_weights(self, folder: Path) -> None:
        """Writes the weights into an existing folder."""

    @abstractmethod
    def load_weights(self, folder: Path, config: Mapping[str, Any]) -> None:
        """Reads what `save_weights` wrote.

        Raises:
            ModelError: A file is missing, damaged, or not what `config` and the code expect.
        """

    def fit_blocks(
        self, blocks: Sequence[Programs], valid: Programs | None, *, seed: int, progress: bool = True
    ) -> None:
        """Learns from scratch as `fit` does, with a few blocks in memory at a time.

        Args:
            blocks: Blocks of whole groups, such as `ProgramBlocks`.
            valid: Programs of other workloads that decide when to stop; they are in memory.
            seed: Equal seeds give equal models on one machine.
            progress: Show a progress bar on a terminal.

        Raises:
            DataError: No workload has two programs with different latencies.
            ModelError: The architecture learns only from programs in memory.
        """
        raise _in_memory_only(self.arch)

    def check_learns_from_blocks(self) -> None:
        """Refuses to go on with a model that has no `fit_blocks`, before anything is read for it.

        Raises:
            ModelError: The architecture learns only from programs in memory.
        """
        if type(self).fit_blocks is CostModel.fit_blocks:
            raise _in_memory_only(self.arch)

    def predict_programs(self, programs: Programs) -> Scores:
        """(n,) scores of programs of one or more devices, each for its own device; see `predict`."""
        return self.predict(programs.rows, programs.counts)

    def add_devices(self, devices: Mapping[str, Mapping[str, Any]]) -> None:  # noqa: B027
        """Adds rows of the `devices` table, by id, to a model whose scores depend on the device; others ignore them."""

    def bind(self, device: Mapping[str, Any]) -> CostModel:
        """The model for one device; the model itself if its scores do not depend on the device.

        Args:
            device: A row of the `devices` table.

        Raises:
            ModelError: The model cannot score for such a device.
        """
        return self

    def latency_us(
        self,
        what: Any,
        *,
        trials: int = 64,
        interval: float = 0.9,
        data: Sequence[str | Path] = (),
        progress: bool = True,
    ) -> LatencyInterval:
        """How long a workload or a network takes on the model's device after a search; nothing is measured.

        The scores of a model order the programs of a workload and have no unit. So the figure is that of
        `costhub.estimate`: the best program that a hub has measured on the device, or a prediction.

        Args:
            what: A workload or a network, as for `costhub.tune`.
            trials: How many programs the search measures, as assumed for predicted kernels.
            interval: The share of figures that should lie between `low_us` and `high_us`.
            data: Measurements of your own, in addition to those of the hubs on this machine.
            progress: Show a progress bar on a terminal.

        Returns:
            The latency, of which `float` gives the likeliest value in microseconds. It is an `Estimate`.

        Raises:
            ModelError: The model does not know its device, because `costhub.load_model` did not load it, or because it
                was bound to another one since.
            CosthubError: As for `costhub.estimate`.
        """
        if self.estimator is None:
            raise ModelError(
                f"This {self.arch} model does not know which device it scores for. Load it with costhub.load_model, "
                "which takes the folder of a model too, or name the device: costhub.estimate(what, device)."
            )
        return self.estimator(what, trials=trials, interval=interval, data=data, progress=progress)

    def sub_models(self, programs: Programs) -> list[tuple[CostModel, Programs]]:
        """The networks and trees that the model is made of; for a simple model, itself.

        Args:
            programs: Programs as this model reads them.

        Returns:
            Each sub-model, with the programs as it reads them.

        Raises:
            ModelError: A compound model was neither fitted nor loaded, or reads rows of another width.
        """
        return [(self, programs)]


def _in_memory_only(arch: str) -> ModelError:
    return ModelError(
        f"A model of the architecture {arch} learns from programs in memory only; train trees (gbt) or a network from "
        "blocks, or this one without streaming."
    )
