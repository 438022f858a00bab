"""Data and a model that tests of several functions use, made without TVM."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

_measured = runpy.run_path(str(Path(__file__).parents[1] / "cli/measured_folder.py"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder of six workloads on one device, with features in the cache."""
    folder: Path = _measured["build_data"](tmp_path_factory.mktemp("measured") / "data")
    return folder


@pytest.fixture(scope="module")
def model(data: Path) -> Path:
    """A model that has learned from all workloads of the data but conv2d0 and matmul0."""
    folder: Path = _measured["train_model"](data, data.parent)
    return folder
