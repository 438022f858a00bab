"""Provides Resumable: a cost model whose training can be interrupted and taken up again."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable


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
