"""Networks as kernels: what they compute is what torch computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import tvm
from torch import nn
from tvm import relax

from costhub.collector.relax_import import TRANSFORM_PARAMS, fuse, import_network
from costhub.collector.zoo.recurrent import GruCell, Recurrent
from costhub.collector.zoo.registry import NETWORKS
from costhub.collector.zoo.transformer import Bert

TARGET = tvm.target.Target("llvm")


def as_tvm(tensor: torch.Tensor) -> Any:
    return tvm.runtime.tensor(tensor.detach().numpy())


def check_equal(network: nn.Module, example: torch.Tensor) -> None:
    """Compiles the network's kernels and compares its outputs with torch's."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for name, value in [*network.named_parameters(), *network.named_buffers()]:
            if value.dtype == torch.float32 and value.dim() == 1:
                # As they come, normalisation does nothing that a wrong formula would not do too.
                value.data.uniform_(0.5, 1.5) if "weight" in name or "var" in name else value.data.normal_()
    with torch.no_grad():
        expected = network.eval()(example)
    mod, tensors = import_network(network, (example,))
    machine = relax.VirtualMachine(tvm.compile(fuse(mod, TARGET), TARGET), tvm.cpu())

    found = machine["main"](as_tvm(example), *machine[TRANSFORM_PARAMS]([as_tvm(t) for t in tensors]))

    outputs = expected if isinstance(expected, tuple) else (expected,)
    for one, other in zip(outputs, found, strict=True):
        scale = float(one.abs().max())
        assert scale > 0
        np.testing.assert_allclose(other.numpy(), one.numpy(), atol=1e-5 * scale)


class Normalised(nn.Module):
    """Normalisation after every kind of layer that it may or may not go into."""

    def __init__(self) -> None:
        super().__init__()
        self.plain, self.grouped = nn.Conv2d(3, 4, 3, bias=False), nn.Conv2d(4, 4, 3, groups=2, bias=False)
        self.biased, self.up = nn.Conv2d(4, 4, 1), nn.ConvTranspose2d(4, 6, 2, 2, bias=False)
        self.shared = nn.Conv2d(6, 6, 1, bias=False)
        self.grouped_up = nn.ConvTranspose2d(6, 6, 2, groups=3, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(n) for n in (4, 4, 4, 6, 6, 6))
        self.bare = nn.BatchNorm2d(3, affine=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, 3, height, width) to another image."""
        x = self.bare(x)
        layers = (self.plain, self.grouped, self.biased, self.up)
        for layer, norm in zip(layers, self.norms, strict=False):
            x = torch.relu(norm(layer(x)))
        shared = self.shared(x)
        return self.norms[5](self.grouped_up(self.norms[4](shared) + shared))


@pytest.mark.parametrize(
    ("network", "example"),
    [
        (Normalised(), torch.randn(1, 3, 8, 8)),
        (Bert(1, 8, 2), torch.randint(1000, (1, 5))),
        pytest.param(
            Recurrent([GruCell(3, 4)], states=1, outputs=5), torch.randn(1, 2, 3), marks=pytest.mark.slow
        ),
    ],
    ids=["normalised", "bert", "gru"],
)
def test_the_kernels_compute_what_torch_computes(network: nn.Module, example: torch.Tensor) -> None:
    check_equal(network, example)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "densenet121", "unet", "ssd", "yolo"])
def test_whole_networks_compute_what_torch_computes(name: str) -> None:
    check_equal(NETWORKS[name].build(), torch.randn(1, 3, 64, 64))


def test_weights_need_no_values_and_normalisation_costs_one_addition() -> None:
    with torch.device("meta"):
        network = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU())
        mod, tensors = import_network(network.eval(), (torch.empty(1, 3, 8, 8),))
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    del mod[TRANSFORM_PARAMS]

    (kernel,) = (g.name_hint for g in fuse(mod, TARGET).get_global_vars() if g.name_hint != "main")

    assert kernel == "fused_conv2d_add_relu"
