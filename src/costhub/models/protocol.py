"""Provides CostModel: what every cost model can do, and the only seam between models and searches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from costhub.dataset.programs import FloatArray, IntArray, Programs

Scores = npt.NDArray[np.float64]


class CostModel(Protocol):
    """Ranks programs of one workload by how fast they will run.

    A copy made with `copy.deepcopy` is independent: updating it leaves the original as it was.
    """

    @property
    def arch(self) -> str:
        """Name of the architecture, a key of `ARCHITECTURES`."""

    @property
    def feature_spec(self) -> str:
        """Name and version of the feature layout it reads."""

    def fit(self, train: Programs, valid: Programs | None, *, seed: int, progress: bool = True) -> None:
        """Learns from scratch; `valid`, of other workloads, tells when to stop."""

    def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
        """Scores programs.

        Args:
            rows: (r, d) feature rows of all programs, programs in order.
            counts: (n,) number of rows of each program; may be 0.

        Returns:
            (n,) finite scores, higher is faster, comparable within one workload only. The score of a program
            does not depend on the others.

        Raises:
            ModelError: The model was neither fitted nor loaded, or reads rows of another width.
        """

    def update(self, programs: Programs, *, seed: int) -> None:
        """Learns a little more from new measurements, in under a second for 500 programs of one workload.

        Nothing happens unless two programs of one workload differ in latency.
        """

    def config(self) -> dict[str, Any]:
        """What `load_weights` needs besides the files, as JSON values."""

    def save_weights(self, folder: Path) -> None:
        """Writes the weights into an existing folder."""

    def load_weights(self, folder: Path, config: Mapping[str, Any]) -> None:
        """Reads what `save_weights` wrote.

        Raises:
            ModelError: A file is missing, damaged, or not what `config` and the code expect.
        """


@runtime_checkable
class Resumable(Protocol):
    """What a model has beside `CostModel` if its `fit` keeps its progress.

    `fit` with equal programs, options and seed goes on from what an interrupted one has left, and ends with
    the model that it would have reached without the break; progress of another training is refused with a
    ModelError.

    Example:
        >>> from costhub.models.architectures import new_model
        >>> isinstance(new_model("mlp", feature_spec="per_store@1"), Resumable)
        True
    """

    checkpoint: Path | None
    """Folder for the progress, made when there is some; None keeps none."""


@runtime_checkable
class SubModels(Protocol):
    """A model that scores by others, which can learn in its place."""

    def inner(self, programs: Programs) -> list[tuple[CostModel, Programs]]:
        """The models it is made of, each with these programs as that model reads them.

        Raises:
            ModelError: It was neither fitted nor loaded, or reads rows of another width.
        """


def sub_models(model: CostModel, programs: Programs) -> Iterator[tuple[CostModel, Programs]]:
    """The networks and trees of a model, down through compounds of compounds; of a simple one, itself.

    Args:
        model: Any model.
        programs: As it reads them.

    Yields:
        Each with the programs as it reads them.
    """
    if not isinstance(model, SubModels):
        yield model, programs
        return
    for part, own in model.inner(programs):
        yield from sub_models(part, own)


def update_sub_models(model: SubModels, programs: Programs, *, seed: int) -> None:
    """Every model that this one is made of learns a little more."""
    for number, (part, own) in enumerate(model.inner(programs)):
        part.update(own, seed=seed + number)
