"""Convolutions in blocked layouts: the same outputs, every convolution that can, and no conversion in between."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
import tvm
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from tvm import relax

from costhub.collector.workloads.blocked_layouts import block_size, vector_lanes
from costhub.collector.workloads.kernel_extraction import KernelBounds, extract_kernels
from costhub.collector.workloads.network_source import Lowering
from costhub.collector.workloads.relax_import import TRANSFORM_PARAMS, fuse, import_network

TARGET = tvm.target.Target({"kind": "llvm", "num-cores": 1})
X86 = '{"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "%s", "num-cores": 2}'


class Residual(nn.Module):
    """A picture's three channels, strides, padding, depthwise, a residual, activations, pooling, concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 24, 3, 2, 1, bias=False)
        self.norm = nn.BatchNorm2d(24)
        self.apart = nn.Conv2d(24, 24, 5, 1, 2, groups=24)
        self.dilated = nn.Conv2d(24, 24, 3, 1, (2, 2), dilation=2)
        self.narrow = nn.Conv2d(24, 32, (1, 3), (2, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu6(self.norm(self.stem(x)))
        x = x + functional.leaky_relu(self.apart(x), 0.1)
        x = functional.max_pool2d(functional.silu(self.dilated(x)), 2)
        return torch.cat([self.narrow(x), self.narrow(x)], 1)


class Grouped(nn.Module):
    """Two convolutions around one whose groups have several channels."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.grouped = nn.Conv2d(8, 16, 1), nn.Conv2d(16, 16, 3, padding=1, groups=4)
        self.last = nn.Conv2d(16, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.grouped(self.first(x)))


class Embedded(nn.Module):
    """Convolutions around a broadcast between ranks, at which ConvertLayout fails."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(16, 32, 3, padding=1), nn.Conv2d(32, 16, 1)
        self.shift = nn.Parameter(torch.randn(32, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(functional.relu(self.first(x) + self.shift))


class GroupNormalised(nn.Module):
    """Convolutions around a group normalisation, which ConvertLayout would give channels in blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(16, 32, 3, padding=1), nn.Conv2d(32, 16, 1)
        self.norm = nn.GroupNorm(4, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(functional.silu(self.norm(self.first(x))))


class Attending(nn.Module):
    """Convolutions in front of torch's attention, at whose operators ConvertLayout fails, and behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(16, 32, 3, padding=1), nn.Conv2d(32, 16, 1)
        self.between = nn.Conv2d(32, 32, 1)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        images = self.between(functional.relu6(self.first(x)))
        tokens = functional.silu(images).flatten(2).transpose(1, 2)
        mixed, _ = self.attention(tokens, tokens, tokens, need_weights=False)
        return self.last(mixed.transpose(1, 2).reshape(1, 32, 8, 8)).clamp(0, 6)


def kernels(mod: Any) -> Counter[str]:
    """How often ``main`` calls each kernel, without TVM's numbers."""
    names: Counter[str] = Counter()
    for block in mod["main"].body.blocks:
        for binding in block.bindings:
            (called, *_) = getattr(binding.value, "args", None) or (None,)
            if isinstance(called, tvm.ir.GlobalVar):
                names[called.name_hint.rstrip("0123456789")] += 1
    return names


def outputs(network: nn.Module, example: torch.Tensor, lanes: int) -> tuple[np.ndarray, Counter[str]]:
    mod, tensors = import_network(network.eval(), (example,), lanes=lanes)
    fused = fuse(mod, TARGET)
    machine = relax.VirtualMachine(tvm.compile(fused, TARGET), tvm.cpu())
    given = [tvm.runtime.tensor(each.detach().numpy()) for each in tensors]
    found = machine["main"](tvm.runtime.tensor(example.numpy()), *machine[TRANSFORM_PARAMS](given))
    return found[0].numpy(), kernels(fused)


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_outputs_are_torchs_and_layouts_carry_on(lanes: int) -> None:
    torch.manual_seed(0)
    network = Residual()
    network.norm.running_mean.normal_()
    network.norm.running_var.uniform_(0.5, 2.0)
    example = torch.rand(2, 3, 20, 23)

    found, called = outputs(network, example, lanes)

    with torch.no_grad():
        np.testing.assert_allclose(found, network(example).numpy(), atol=1e-5)
    convolutions = {name: times for name, times in called.items() if "conv2d" in name}
    assert sum(convolutions.values()) == 5
    assert all("NCHWc" in name for name in convolutions)
    # The picture's channels are one block, and the output leaves in the plain layout.
    assert sum(times for name, times in called.items() if "layout_transform" in name) == 2


@pytest.mark.parametrize(("make", "blocked"), [(Embedded, 2), (GroupNormalised, 2), (Attending, 3)])
def test_an_operator_that_tvm_cannot_convert_leaves_the_convolutions_around_it_blocked(make: Any, blocked: int) -> None:
    torch.manual_seed(0)
    network, example = make(), torch.randn(1, 16, 8, 8)

    found, called = outputs(network, example, 16)

    np.testing.assert_allclose(found, network(example).detach().numpy(), rtol=1e-4, atol=1e-5)
    assert sum(times for name, times in called.items() if "conv2d_NCHWc" in name) == blocked, called
    assert any("clip" in name for name in called if "conv2d_NCHWc" in name) == (make is Attending), called
    assert not any("hidden" in name for name in called)


def test_groups_of_several_channels_stay_plain_and_right() -> None:
    torch.manual_seed(0)
    network, example = Grouped(), torch.rand(1, 8, 6, 6)

    found, called = outputs(network, example, 8)

    with torch.no_grad():
        np.testing.assert_allclose(found, network(example).numpy(), atol=1e-5)
    assert sum(times for name, times in called.items() if "conv2d_NCHWc" in name) == 2
    assert sum(times for name, times in called.items() if "conv2d" in name and "NCHWc" not in name) == 1


def test_without_lanes_nothing_changes() -> None:
    _, called = outputs(Grouped(), torch.rand(1, 8, 6, 6), 0)

    assert not any("NCHWc" in name or "layout" in name for name in called)


@given(st.integers(1, 4096), st.sampled_from([4, 8, 16]))
def test_a_block_divides_the_channels_and_no_larger_one_does(channels: int, lanes: int) -> None:
    size = block_size(channels, lanes)

    assert channels % size == 0
    assert size <= lanes
    assert size == lanes or channels % (2 * size)


@pytest.mark.parametrize(
    ("mcpu", "lanes"), [("nehalem", 4), ("haswell", 8), ("skylake-avx512", 16), ("znver4", 16), ("znver3", 8)]
)
def test_a_block_fills_a_vector_register(mcpu: str, lanes: int) -> None:
    assert Lowering(layout="blocked").lanes(X86 % mcpu) == lanes


def test_other_targets_and_layouts_have_no_blocks() -> None:
    assert vector_lanes(tvm.target.Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72"})) == 4
    assert Lowering().lanes(X86 % "znver4") == 0
    assert Lowering(layout="blocked").lanes('{"kind": "cuda", "arch": "sm_80"}') == 0


@pytest.mark.slow
def test_kernels_of_a_network_to_tune_are_blocked() -> None:
    bounds = KernelBounds(0, 0, 1e9)
    found, plain = (
        extract_kernels("mobilenet_v2", X86 % "znver4", bounds, Lowering(layout=layout)).tasks
        for layout in ("blocked", "plain")
    )

    blocked = [task for task in found if "NCHWc" in task.name]
    assert len(blocked) == len([task for task in plain if "conv2d" in task.name]) > 20
    assert not any("layout" in task.name for task in found)
    assert sum(task.flop * task.weight for task in found) == pytest.approx(
        sum(task.flop * task.weight for task in plain), rel=0.05
    )


def test_a_module_keeps_layouts_of_its_own() -> None:
    """As TVM's importer of TFLite writes them."""
    x, w = (
        relax.Var("x", relax.TensorType((1, 8, 8, 4), "float32")),
        relax.Var("w", relax.TensorType((8, 3, 3, 4), "float32")),
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.nn.conv2d(x, w, padding=1, data_layout="NHWC", kernel_layout="OHWI"))
        builder.emit_func_output(out)
    target = tvm.target.Target({"kind": "llvm", "num-cores": 1})
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(shape).astype(np.float32) for shape in ((1, 8, 8, 4), (8, 3, 3, 4))]

    machine = relax.VirtualMachine(tvm.compile(fuse(builder.get(), target), target=target), tvm.cpu())
    found = machine["main"](*map(tvm.runtime.tensor, given)).numpy()

    data, weights = (torch.from_numpy(each).permute(0, 3, 1, 2) for each in given)
    expected = functional.conv2d(data, weights, padding=1).permute(0, 2, 3, 1).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
