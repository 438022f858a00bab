"""The child that times one form of a network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from costhub.search.whole_network.time_service import (
    LoadedNetwork,
    LoadLibrary,
    LoadTorch,
    TimeCalls,
    flatten_outputs,
    handle,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec:FutureWarning")


def test_torch_is_loaded_called_and_timed(files: tuple[Path, Path]) -> None:
    value = np.ones((1, 3, 32, 32), np.float32)
    first, second = (handle(LoadTorch(str(path), (value,), 1, False)) for path in files)

    assert isinstance(first, LoadedNetwork)
    assert isinstance(second, LoadedNetwork)
    assert first.outputs[0].shape == (1, 10)
    assert not np.allclose(first.outputs[0], second.outputs[0])
    taken = handle(TimeCalls(0.0))
    assert isinstance(taken, list)
    assert len(taken) == 1
    assert taken[0] > 0


def test_what_is_no_library_is_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "not.so"
    path.write_text("not")

    # No CPUs: the process of the tests is to keep its own.
    assert isinstance(handle(LoadLibrary(str(path), (), ())), str)


def test_outputs_with_names_are_flattened_as_tuples_are() -> None:
    import torch

    best = torch.topk(torch.tensor([1.0, 3.0, 2.0]), 2)  # has `values`, which is a tensor

    values, places = flatten_outputs(best)
    assert (values.tolist(), places.tolist()) == ([3.0, 2.0], [1, 2])
    assert [each.tolist() for each in flatten_outputs({"a": torch.ones(1), "b": (None, torch.zeros(1))})] == [
        [1.0],
        [0.0],
    ]
