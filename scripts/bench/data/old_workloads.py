"""Checks workloads rebuilt from databases of old TVM against PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
import torch.nn.functional as F
import tvm
from tvm.topi.nn import winograd_util

from costhub.dataset.metaschedule.lines import read_lines
from costhub.dataset.metaschedule.translate import read_workload
from costhub.dataset.operator_class import classify
from costhub.dataset.workload import argument_shapes

TOLERANCE = 1e-3
"""Relative to the largest value of the output."""


def reference(family: str, blocks: list[str], arrays: list[Any], out: tuple[int, ...]) -> Any:
    """The expected output of a workload; for winograd it replaces the weights by transformed ones."""
    x, rest = torch.from_numpy(arrays[0]), [torch.from_numpy(array) for array in arrays[1:]]
    if family == "pool":
        return F.max_pool2d(x, 3, 2, 1) if "pool_max" in blocks else x.mean((2, 3), keepdim=True)
    if not rest:
        return torch.softmax(x, -1) if family == "softmax" else x.reshape(out)
    weights, extra = rest[0], sum(rest[1:])
    if family == "matmul":
        return x @ weights.T + extra
    if family == "winograd":
        tile, (inputs, outputs) = len(weights) - 2, weights.shape[2:]
        points = winograd_util._interpolation_points(tile + 1)
        transform = torch.from_numpy(winograd_util._cook_toom_convolution(points, tile, 3)[2]).float()
        weights = torch.rand(outputs, inputs, 3, 3, generator=torch.manual_seed(0)) - 0.5
        arrays[1][...] = torch.einsum("ia,jb,ocab->ijco", transform, transform, weights)
    y = F.conv2d(x, weights, stride=round(x.shape[2] / out[2]), padding=weights.shape[2] // 2) + extra
    return F.relu(y) if "T_relu" in blocks else y


def largest_error(mod: Any) -> float:
    """The largest error of a workload, relative to its largest value."""
    *shapes, out = [shape for _, shape in argument_shapes(mod)]
    schedule, family, rng = tvm.s_tir.Schedule(mod), classify(mod), np.random.default_rng(0)
    blocks = [schedule.get(b).name_hint for b in schedule.get_child_blocks(schedule.get_sblock("root"))]
    arrays = [rng.uniform(-0.5, 0.5, shape).astype("float32") for shape in shapes]
    expected = reference(family, blocks, arrays, out).numpy()
    computed = tvm.runtime.tensor(np.zeros(out, "float32"))
    tvm.compile(mod, target={"kind": "llvm"})(*map(tvm.runtime.tensor, arrays), computed)
    error = float(np.abs(computed.numpy() - expected).max() / np.abs(expected).max())
    click.echo(f"{family:12} {error:.1e}")
    return error


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
def main(folder: Path) -> None:
    """Compares the workloads of the gzipped database in FOLDER with PyTorch; exits with 1 if one differs."""
    lines = read_lines(folder / "database_workload.json.gz", most_bytes=64 << 20)
    errors = [largest_error(read_workload(line.text)[0]) for line in lines]
    # Not the maximum: one that computes NaN is no better than another.
    raise SystemExit(not errors or not all(error <= TOLERANCE for error in errors))
