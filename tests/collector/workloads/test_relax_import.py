"""Networks as relax modules: imported, fused, and with polynomials for exp, tanh and erf."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import tvm
from torch import nn
from torch.nn import functional
from tvm import relax

from costhub.collector.workloads.relax_import import FAST_MATH, TRANSFORM_PARAMS, fuse, import_network
from costhub.collector.workloads.zoo.diffusion import DownBlock
from costhub.collector.workloads.zoo.language_models import LanguageModel, LanguageModelSize
from costhub.collector.workloads.zoo.networks import NETWORKS
from costhub.collector.workloads.zoo.other_tasks import GruCell, Recurrent
from costhub.collector.workloads.zoo.transformers import Bert, SentenceEmbedding, SpeechEncoder

LLVM = tvm.target.Target({"kind": "llvm", "num-cores": 1})
VALUES = np.concatenate(
    [
        np.linspace(-12.0, 12.0, 4801),
        np.random.default_rng(0).normal(0.0, 1e-3, 200),
        [0.0, -0.0, -50.0, 50.0, -88.0, 88.0],
    ]
)
TORCH: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "relax.exp": (relax.op.exp, torch.exp),
    "relax.tanh": (relax.op.tanh, torch.tanh),
    "relax.erf": (relax.op.erf, torch.erf),
    "relax.sigmoid": (relax.op.sigmoid, torch.sigmoid),
    "relax.nn.silu": (relax.op.nn.silu, functional.silu),
    "relax.nn.gelu": (relax.op.nn.gelu, functional.gelu),
    "relax.nn.gelu_tanh": (relax.op.nn.gelu_tanh, lambda x: functional.gelu(x, approximate="tanh")),
    "relax.nn.softmax": (lambda x: relax.op.nn.softmax(x, -1), lambda x: torch.softmax(x, -1)),
}


def module(operator: Callable[[Any], Any], shape: tuple[int, ...], dtype: str = "float32") -> Any:
    """A relax module of one operator."""
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType(shape, dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            output = builder.emit_output(operator(x))
        builder.emit_func_output(output)
    return builder.get()


def run(mod: Any, values: np.ndarray) -> np.ndarray:
    machine = relax.VirtualMachine(tvm.compile(mod, LLVM), tvm.cpu())
    return np.asarray(machine["main"](tvm.runtime.tensor(values)).numpy())


def test_every_operator_is_looked_at() -> None:
    assert TORCH.keys() == FAST_MATH.keys()


@pytest.mark.parametrize("name", sorted(FAST_MATH))
def test_values_are_those_of_torch(name: str) -> None:
    operator, of_torch = TORCH[name]
    values = VALUES.astype(np.float32).reshape(1, -1)
    wanted = of_torch(torch.from_numpy(values.astype(np.float64))).numpy()

    found = run(fuse(module(operator, values.shape), LLVM, fast_math=True), values)

    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", sorted(FAST_MATH))
def test_no_element_is_a_call_of_the_c_library(name: str) -> None:
    operator, _ = TORCH[name]

    def calls(*, fast_math: bool) -> set[str]:
        mod = fuse(module(operator, (8, 64)), LLVM, fast_math=fast_math)
        (kernel,) = (f for f in mod.functions.values() if not isinstance(f, relax.Function))
        alone = tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})
        assembly = tvm.compile(alone, LLVM).mod.inspect_source("asm")
        return {word for word in ("expf", "erff", "tanhf") if word in assembly}

    assert calls(fast_math=True) == set()
    assert calls(fast_math=False) != set()


def test_numbers_without_end_stay_what_they_are() -> None:
    values = np.array([[math.inf, 200.0, -200.0, -math.inf]], np.float32)

    found = run(fuse(module(relax.op.exp, values.shape), LLVM, fast_math=True), values)[0]

    np.testing.assert_array_equal(found, [math.inf, math.inf, 0.0, 0.0])


def test_masked_places_of_a_softmax_get_no_share() -> None:
    values = np.array([[1.0, -math.inf, 2.0, -1e9]], np.float32)

    found = run(fuse(module(TORCH["relax.nn.softmax"][0], values.shape), LLVM, fast_math=True), values)

    np.testing.assert_allclose(found, torch.softmax(torch.from_numpy(values), -1).numpy(), atol=1e-7)


@pytest.mark.parametrize("name", sorted(FAST_MATH))
def test_other_types_are_computed_as_always(name: str) -> None:
    operator, _ = TORCH[name]
    values = np.linspace(-3.0, 3.0, 64).reshape(1, -1)

    fast, plain = (
        run(fuse(module(operator, values.shape, "float64"), LLVM, fast_math=on), values) for on in (True, False)
    )

    np.testing.assert_allclose(fast, plain, rtol=1e-14)


TARGET = tvm.target.Target("llvm")


def as_tvm(tensor: torch.Tensor) -> Any:
    return tvm.runtime.tensor(tensor.detach().numpy())


def check_equal(network: nn.Module, *examples: torch.Tensor) -> None:
    """Compiles the network's kernels and compares its outputs with torch's."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for name, value in [*network.named_parameters(), *network.named_buffers()]:
            if value.dtype == torch.float32 and value.dim() == 1:
                # As they come, normalisation does nothing that a wrong formula would not do too.
                value.data.uniform_(0.5, 1.5) if "weight" in name or "var" in name else value.data.normal_()
    with torch.no_grad():
        expected = network.eval()(*examples)
    mod, tensors = import_network(network, examples)
    machine = relax.VirtualMachine(tvm.compile(fuse(mod, TARGET), TARGET), tvm.cpu())

    found = machine["main"](*map(as_tvm, examples), *machine[TRANSFORM_PARAMS]([as_tvm(t) for t in tensors]))

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


class Last(nn.Module):
    """Places of axes that are counted from the end, as the last token of a text."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, -1] * x[-2] + x.select(2, -3)[:, :1]


@pytest.mark.parametrize(
    ("network", "example"),
    [
        (Normalised(), torch.randn(1, 3, 8, 8)),
        (Last(), torch.randn(4, 4, 4)),
        (Bert(1, 8, 2), torch.randint(1000, (1, 5))),
        pytest.param(Recurrent([GruCell(3, 4)], states=1, outputs=5), torch.randn(1, 2, 3), marks=pytest.mark.slow),
    ],
    ids=["normalised", "last", "bert", "gru"],
)
def test_the_kernels_compute_what_torch_computes(network: nn.Module, example: torch.Tensor) -> None:
    check_equal(network, example)


SMALL = LanguageModelSize(2, 24, 6, 2, 20, 50, base=100.0, epsilon=1e-5, biased=True)


@pytest.mark.parametrize(
    ("network", "examples"),
    [
        (
            LanguageModel(SMALL, tokens=1, earlier=5),
            (torch.randint(50, (1, 1)), *(torch.randn(1, 2, 5, 4) for _ in range(4))),
        ),
        pytest.param(LanguageModel(SMALL, tokens=5), (torch.randint(50, (1, 5)),), marks=pytest.mark.slow),
        pytest.param(SentenceEmbedding(1, 8, 2), (torch.randint(1000, (3, 5)),), marks=pytest.mark.slow),
        pytest.param(SpeechEncoder(1, 8, 2, bands=4, tokens=6), (torch.randn(1, 4, 12),), marks=pytest.mark.slow),
        (
            DownBlock(32, 2, time=8, text=6),
            (torch.randn(1, 32, 8, 8), torch.randn(1, 8), torch.randn(1, 5, 6)),
        ),
    ],
    ids=["decode", "prefill", "embedding", "speech", "diffusion"],
)
def test_parts_of_large_networks_compute_what_torch_computes(
    network: nn.Module, examples: tuple[torch.Tensor, ...]
) -> None:
    check_equal(network, *examples)


WHOLE = ["resnet18", "mobilenet_v3_small", "densenet121", "unet", "ssd", "yolo", "yolov8n", "segformer_b0"]


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_whole_networks_compute_what_torch_computes(name: str) -> None:
    check_equal(NETWORKS[name].build(), torch.randn(1, 3, 64, 64))


@pytest.mark.slow
@pytest.mark.parametrize("bias", [False, True])
def test_weights_need_no_values_and_normalisation_costs_one_addition(*, bias: bool) -> None:
    with torch.device("meta"):
        network = nn.Sequential(nn.Conv2d(3, 4, 3, bias=bias), nn.BatchNorm2d(4), nn.ReLU())
        mod, tensors = import_network(network.eval(), (torch.empty(1, 3, 8, 8),))
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    del mod[TRANSFORM_PARAMS]

    (kernel,) = (g.name_hint for g in fuse(mod, TARGET).get_global_vars() if g.name_hint != "main")

    assert kernel == "fused_conv2d_add_relu"
