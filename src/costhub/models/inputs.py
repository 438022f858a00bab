"""Provides the checks that every model makes on its input: rows, programs to learn from, files of weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from costhub.dataset.programs import FloatArray, IntArray, Programs
from costhub.errors import DataError, ModelError
from costhub.files import read_regular
from costhub.terminal_text import counted

MOST_WEIGHT = 1e6
"""The largest magnitude of a network's weight or a leaf. In all models that costhub ships, the largest weight is 0.65
and the largest leaf 0.52: labels are normalised, so a sound model stays within a few powers of ten of these."""
MOST_FEATURE = 1e12
"""The largest magnitude of a number that a feature is compared with or shifted by. In the models that costhub ships,
whose features are mostly logarithms, the largest threshold is 254 and the largest mean 64; a model of features in bytes
or operations may need 1e9. A model beyond this limit was made to overflow."""


def not_fitted_error() -> ModelError:
    """The error for a model that has no weights yet."""
    return ModelError("The model has no weights yet; fit it on measured programs or load a model folder.")


def checked_rows(rows: FloatArray, counts: IntArray, *, columns: int) -> FloatArray:
    """Refuses input that a model cannot score; otherwise returns its rows.

    Args:
        rows: (r, d) feature rows.
        counts: (n,) number of rows of each program.
        columns: The width that the model reads.

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
        DataError: No workload has two programs with different latencies.
    """
    if not is_informative(train):
        raise nothing_to_learn_error(train.n)


def nothing_to_learn_error(count: int, what: str = "program") -> DataError:
    """The error for `count` programs, or trials, of which no two of one workload differ in latency."""
    if not count and what == "program":
        return no_programs_error("learn from")
    return DataError(
        f"There is nothing to learn from {counted(count, what)}: some workload needs two programs whose "
        "latencies differ. Measure more programs."
    )


def no_programs_error(purpose: str) -> DataError:
    """The error for data without a single program that ran and has features.

    Example:
        >>> str(no_programs_error("learn from"))[:38]
        'There is no program to learn from: non'
    """
    return DataError(
        f"There is no program to {purpose}: none ran (`costhub stats DATA` counts them), or no module or trace could "
        "be read (`costhub check --deep DATA` names them), or the feature spec failed on all of them."
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


def read_weights(path: Path, what: str, *, limit: int = MAX_WEIGHTS_BYTES) -> bytes:
    """The bytes of a file of weights, read once, so that what is checked is what is used.

    Args:
        path: The file, in a model folder.
        what: What it should hold, for example ``the trees``.
        limit: The most bytes it may have.

    Raises:
        ModelError: It does not exist, is not a regular file, or is too large.
    """
    if not path.exists():
        raise ModelError(f"{path.parent} lacks {path.name}, {what} of the model. Fetch the folder again.")
    return read_regular(path, limit=limit, error=ModelError)
