from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from costhub.models.networks.processes import (
    all_gather,
    all_mean,
    all_min,
    data_parallel,
    joined_processes,
    process_count,
)

# Two processes are tested where they train: tests/models/networks/test_neural.py.


@pytest.fixture
def group_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A real process group, of this process only."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def test_a_process_alone_hears_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    network, array = nn.Linear(2, 1), np.arange(3)

    with joined_processes() as place:
        assert place == (0, 1)
        assert not distributed.is_initialized()
        assert (process_count(), all_min(7), all_mean(0.1)) == (1, 7, 0.1)
        assert all_gather(array) is array
        assert data_parallel(network) is network


@pytest.mark.usefixtures("group_of_one")
def test_a_group_of_one_hears_itself_too() -> None:
    assert (process_count(), all_min(7), all_mean(0.1)) == (1, 7, 0.1)
    assert all_gather(np.zeros((0, 3), np.float32)).shape == (0, 3)
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(all_gather(rows), rows)


@pytest.mark.usefixtures("group_of_one")
def test_a_wrapped_network_shares_its_weights_and_its_gradients() -> None:
    network = nn.Linear(2, 1)

    wrapped = data_parallel(network)
    wrapped(torch.ones(1, 2)).sum().backward()

    assert isinstance(wrapped, DistributedDataParallel)
    assert network.weight.grad is not None
    assert network.weight.grad.tolist() == [[1.0, 1.0]]


def test_one_process_started_by_torchrun_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")

    with joined_processes() as place:
        assert place == (0, 1)
