"""Provides the checks that every model makes of its input: rows, programs to learn from, files of weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from costhub.dataset.programs import FloatArray, IntArray, Programs
from costhub.errors import DataError, ModelError


def not_fitted_error() -> ModelError:
    """The error of a model that has no weights yet."""
    return ModelError("The model has no weights yet; fit it on measured programs or load a model folder.")


def checked_rows(rows: FloatArray, counts: IntArray, *, columns: int) -> FloatArray:
    """Refuses input that a model cannot score, and returns the rows of what it can.

    Args:
        rows: (r, d) feature rows.
        counts: (n,) number of rows of each program.
        columns: The width the model reads.

    Returns:
        (r, columns) rows; an empty array of any width is given the right one.

    Raises:
        ModelError: The rows have another width.
        ValueError: The counts do not add up to the rows.
    """
    if len(rows) and rows.shape[1] != columns:
        raise ModelError(
            f"The model reads feature rows of {columns} columns, got {rows.shape[1]}; compute the features "
            "with the feature spec that its config.json names."
        )
    if int(np.sum(counts)) != len(rows):
        raise ValueError(f"counts must add up to the {len(rows)} rows, got {int(np.sum(counts))}.")
    return rows if len(rows) else np.zeros((0, columns), np.float32)


def check_training(train: Programs) -> None:
    """Refuses programs that hold nothing to learn.

    Raises:
        DataError: No workload has two programs of different latency.
    """
    if not is_informative(train):
        raise nothing_to_learn_error(train.n)


def nothing_to_learn_error(count: int, what: str = "programs") -> DataError:
    """The error of programs of which no two of one workload differ in latency; `count` says how many there are."""
    return DataError(
        f"There is nothing to learn from {count} {what}: some workload needs two programs whose "
        "latencies differ. Measure more programs."
    )


def is_informative(programs: Programs) -> bool:
    """Whether two programs of one workload differ in latency.

    Example:
        >>> pair = Programs.from_list([np.ones((1, 2))] * 2, np.array([0, 0]), ("w",), np.array([1e-3, 2e-3]))
        >>> is_informative(pair), is_informative(pair.select(np.array([0])))
        (True, False)
    """
    return bool(programs.n) and bool((programs.throughput() < 1.0).any())


MAX_WEIGHTS_BYTES = 1 << 30
"""A cost model has a few MB; nothing larger is read."""


def check_weights_file(path: Path, what: str) -> None:
    """Refuses a file that is not there or too large.

    Args:
        path: In a model folder.
        what: What it should hold, for example ``the trees``.

    Raises:
        ModelError: It is one of these.
    """
    if not path.is_file():
        raise ModelError(f"{path.parent} lacks {path.name}, {what} of the model. Fetch the folder again.")
    if path.stat().st_size > MAX_WEIGHTS_BYTES:
        raise ModelError(f"{path} has more than {MAX_WEIGHTS_BYTES} bytes, so it is not a cost model.")
