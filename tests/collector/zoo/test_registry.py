"""The zoo as a whole: every network builds, has its published size and takes its example."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
import torch

from costhub.collector.zoo.registry import NETWORKS, find_network
from costhub.errors import UnknownNameError


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_has_its_parameters_and_answers_its_example(name: str) -> None:
    network = NETWORKS[name]
    module = network.build(device="meta")

    with torch.no_grad():
        answer = module(network.example(device="meta"))

    assert sum(parameter.numel() for parameter in module.parameters()) == network.parameters
    assert not module.training
    assert all(output.shape[0] == 1 for output in (answer if isinstance(answer, tuple) else [answer]))


def test_names_and_labels_are_unique_and_every_kind_of_network_is_there() -> None:
    assert len({network.label for network in NETWORKS.values()}) == len(NETWORKS) >= 16
    kinds = {network.module for network in NETWORKS.values()}
    assert len(kinds) >= 3
    for kind in kinds:
        assert importlib.import_module(kind).__doc__


def test_weights_and_examples_follow_their_seeds_and_leave_torch_alone() -> None:
    network = NETWORKS["bert_tiny"]
    state = torch.random.get_rng_state()

    first, again, other = (network.build(seed=seed).pooler.weight for seed in (1, 1, 2))

    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(network.example(seed=3), network.example(seed=3))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_an_unknown_network_lists_the_close_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"network named 'resnet51'.*resnet50"):
        find_network("resnet51")


def test_the_names_are_listed_without_torch() -> None:
    code = "import sys, costhub.collector.network; print('torch' in sys.modules, 'tvm' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["False", "False"]
