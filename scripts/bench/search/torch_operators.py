"""PyTorch's own kernels for the twelve operators of the suite `metaschedule`, and their latencies.

python -m scripts.bench.search.torch_operators WORKLOAD
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import click
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from costhub.collector.device.cpu_state import core_count
from costhub.collector.run.evaluator import on_host
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.workload import argument_shapes

Array = npt.NDArray[np.float32]
FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}
LEAST_S = 0.02
"""A repeat calls for so long between two readings of the clock, as `remeasure` does."""
REPEATS = 5


@dataclass(frozen=True)
class TorchForm:
    """An operator, ready to run."""

    run: Callable[[], Tensor]
    to_workload: Callable[[Tensor], Tensor]
    """Puts its result into the layout of the workload's output."""

    def output(self) -> Array:
        """The expected output of the workload."""
        array: Array = self.to_workload(self.run()).contiguous().numpy()
        return array


def references(name: str, arrays: list[Array]) -> list[TorchForm]:
    """PyTorch's forms of an operator: two for convolutions, with channels first and last, otherwise one.

    A normalisation behind a convolution has forms of its own, where it is folded into the convolution. Data
    and weights are laid out beforehand, which is not timed.

    Args:
        name: The name of the workload.
        arrays: Its inputs, in its layout.
    """
    tensors = [torch.from_numpy(array) for array in arrays]
    if name in CONVOLUTIONS:
        return list(_convolutions(name, *tensors))
    return [_OTHERS[name](*tensors)]


CONVOLUTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "metaschedule.c1d": lambda x, w: functional.conv1d(x, w, stride=2, padding=1),
    "metaschedule.c2d": lambda x, w: functional.conv2d(x, w, stride=2, padding=3),
    "metaschedule.c3d": lambda x, w: functional.conv3d(x, w, stride=2, padding=3),
    "metaschedule.dep": lambda x, w: functional.conv2d(x, w, padding=1, groups=x.shape[1]),
    "metaschedule.dil": lambda x, w: functional.conv2d(x, w, stride=2, padding=3, dilation=2),
    "metaschedule.grp": lambda x, w: functional.conv2d(x, w, stride=2, padding=1, groups=4),
    "metaschedule.t2d": lambda x, w: functional.conv_transpose2d(x, w, stride=2, padding=1),
    "metaschedule.cbr": lambda x, w: functional.conv2d(x, w, stride=2, padding=3),
}


def _convolutions(name: str, data: Tensor, weight: Tensor, *rest: Tensor) -> list[TorchForm]:
    """Channels are last in the workloads, and weights have theirs last as well."""
    x, w = data.movedim(-1, 1).contiguous(), _torch_weight(name, weight).contiguous()
    convolve = CONVOLUTIONS[name]
    layouts = [(x, w)]
    if x.dim() in FORMATS:
        layouts.append((x.to(memory_format=FORMATS[x.dim()]), w.to(memory_format=FORMATS[x.dim()])))
    forms = []
    for own_x, own_w in layouts:
        runs = (
            (_with_norm(own_x, own_w, *rest), _folded(own_x, own_w, *rest))
            if rest
            else (partial(convolve, own_x, own_w),)
        )
        forms += [TorchForm(run, lambda out: out.movedim(1, -1)) for run in runs]
    return forms


def _torch_weight(name: str, weight: Tensor) -> Tensor:
    """Channels out, channels in, then the window; of a transposed convolution in before out."""
    if name.endswith("dep"):
        return weight.permute(3, 0, 1, 2)
    window = range(weight.dim() - 2)
    order = (-2, -1) if name.endswith("t2d") else (-1, -2)
    return weight.permute(*order, *window)


def _with_norm(x: Tensor, w: Tensor, bias: Tensor, offset: Tensor, scale: Tensor) -> Callable[[], Tensor]:
    """Convolution, bias, normalisation as in inference, rectifier."""
    mean, variance = torch.zeros_like(bias), torch.ones_like(bias)

    def run() -> Tensor:
        out = functional.conv2d(x, w, bias, stride=2, padding=3)
        return functional.batch_norm(out, mean, variance, scale, offset, eps=0.0).relu_()

    return run


def _folded(x: Tensor, w: Tensor, bias: Tensor, offset: Tensor, scale: Tensor) -> Callable[[], Tensor]:
    """The same with the normalisation in weights and bias, as `torch.compile` freezes it for inference."""
    own_w = w * scale.flatten().view(-1, 1, 1, 1)  # in the layout of `w`
    own_bias = bias * scale.flatten() + offset.flatten()
    return lambda: functional.conv2d(x, own_w, own_bias, stride=2, padding=3).relu_()


_OTHERS: dict[str, Callable[..., TorchForm]] = {
    "metaschedule.gmm": lambda x, y: TorchForm(lambda: torch.bmm(x, y), _as_it_is),
    "metaschedule.tbg": lambda q, v: TorchForm(
        lambda: torch.matmul(q.permute(0, 2, 1, 3), v.permute(0, 2, 3, 1)), _as_it_is
    ),
    "metaschedule.nrm": lambda a: TorchForm(lambda: torch.linalg.vector_norm(a, dim=(1, 2)), _as_it_is),
    "metaschedule.sfm": lambda a: TorchForm(lambda: torch.softmax(a, dim=1), _as_it_is),
}


def _as_it_is(out: Tensor) -> Tensor:
    return out


def timed(call: Callable[[], object]) -> float:
    """Mean seconds per call, over calls that take `LEAST_S` together."""
    calls, began = 0, time.perf_counter()
    while (passed := time.perf_counter() - began) < LEAST_S or not calls:
        call()
        calls += 1
    return passed / calls


@click.command()
@click.argument("workload")
def main(workload: str) -> None:
    """Prints the median latency in us of the fastest form."""
    torch.set_num_threads(core_count())
    arrays = on_host(argument_shapes(find_workload(workload).module()))
    medians = []
    with torch.inference_mode():
        for form in references(workload, arrays[:-1]):
            form.run()
            medians.append(statistics.median(timed(form.run) for _ in range(REPEATS)))
    click.echo(json.dumps(min(medians) * 1e6))


if __name__ == "__main__":
    main()
