"""Tiles for matrix units: what they compute, that wasteful ones are refused, and that databases bring their own."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import tvm
from torch import nn

from costhub.collector.device.local import local_target
from costhub.collector.propose.matrix_tiles import SHAPES
from costhub.collector.propose.sampler import open_design_space
from costhub.collector.propose.spaces import BLOCKED, DesignSpace, find_space
from costhub.collector.workloads.bfloat16_pairs import pair_product
from costhub.dataset.tile_intrinsics import has_matrix_units
from costhub.dataset.trace import replay, trace_to_json
from costhub.dataset.workload import argument_shapes
from costhub.search.database import SearchDatabase
from tests.collector.propose.test_register_tiles import Layer, kernel, outputs, pairs

XEON = '{"kind": "llvm", "mcpu": "sapphirerapids", "num-cores": 2}'


def convolution(layer: nn.Module, then: str, height: int, width: int, channels: int = 32) -> Any:
    return kernel(Layer(layer, then), torch.rand(1, channels, height, width), 16, bf16_unit="matrices")


class Scores(nn.Module):
    """The first product of attention, with each head in a batch of its own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ (x + 1.0).transpose(1, 2) / 8.0


def heads(shape: tuple[int, ...], most: tuple[int, int], stored: int) -> Any:
    return tvm.IRModule({"main": pair_product(shape, most, stored, 16).with_attr("global_symbol", "main")})


WORKLOADS = {
    "image": lambda: convolution(nn.Conv2d(32, 32, 3, padding=1), "relu", 18, 18),
    "image, stride 2": lambda: convolution(nn.Conv2d(32, 32, 3, 2, 1), "", 30, 32),
    "image, an odd number of blocks": lambda: convolution(nn.Conv2d(48, 32, 1), "silu", 16, 28, 48),
    "flat": lambda: convolution(nn.Conv2d(32, 32, 3, padding=1), "relu", 9, 7),
    "flat, 1x1": lambda: convolution(nn.Conv2d(32, 64, 1), "silu", 7, 7),
    "flat, two rows in a tile": lambda: convolution(nn.Conv2d(32, 64, 1), "relu", 10, 14),
    "image, blocks of 8": lambda: convolution(nn.Conv2d(24, 24, 1), "", 16, 28, 24),
    "flat, rows that no tile may split": lambda: convolution(nn.Conv2d(32, 64, 1), "relu", 13, 6),
    "image, dilation": lambda: convolution(nn.Conv2d(32, 32, 3, padding=2, dilation=2), "", 16, 18),
    "image, two of them": lambda: kernel(
        Layer(nn.Conv2d(32, 32, 1), "silu"), torch.rand(2, 32, 16, 16), 16, bf16_unit="matrices"
    ),
    "line, wide steps": lambda: convolution(nn.Conv2d(1, 16, (2, 40), (1, 40)), "", 4, 640, 1),
    "line": lambda: convolution(nn.Conv2d(3, 32, 7, 2, 3), "relu", 28, 30, 3),
    "line, patches": lambda: convolution(nn.Conv2d(3, 16, 4, 4), "", 32, 56, 3),
    "dense": lambda: kernel(Layer(nn.Linear(64, 48), "silu"), torch.rand(1, 32, 64), 16, bf16_unit="matrices"),
    "dense, padded rows": lambda: kernel(Layer(nn.Linear(64, 48)), torch.rand(1, 37, 64), 16, bf16_unit="matrices"),
    "dense, an odd number of pairs": lambda: kernel(
        Layer(nn.Linear(34, 48), "silu"), torch.rand(1, 32, 34), 16, bf16_unit="matrices"
    ),
    "heads": lambda: heads((1, 3, 32, 48), (32, 48), 32),
    "heads, divided": lambda: kernel(Scores(), torch.rand(2, 32, 64), 16, bf16_unit="matrices"),
    "heads, sums left out": lambda: heads((2, 37, 37), (48, 48), 32),
    "dense, a row": lambda: kernel(Layer(nn.Linear(64, 64)), torch.rand(1, 1, 64), 16, bf16_unit="matrices"),
}


@cache
def workload(name: str) -> Any:
    return WORKLOADS[name]()


def drawn(name: str, count: int) -> list[Any]:
    context, sketches = open_design_space(workload(name), XEON, find_space(BLOCKED), 0)
    assert len(sketches) == 2 * len(SHAPES)
    space, draw = DesignSpace(context, sketches), np.random.default_rng(0)
    found = [space.finish(space.random(draw), seed) for seed in range(1, 1 + 4 * count)]
    return [schedule for schedule in found if schedule is not None][:count]


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_products_are_computed_by_matrix_units_and_replayed(name: str) -> None:
    schedules = drawn(name, 4)

    assert len(schedules) == 4
    for schedule in schedules:
        assembly = tvm.compile(schedule.mod, target=tvm.target.Target(json.loads(XEON))).mod.inspect_source("s")
        assert "tdpbf16ps" in assembly
        assert "vdpbf16ps" not in assembly
        tvm.ir.assert_structural_equal(replay(workload(name), trace_to_json(schedule.trace)).mod, schedule.mod)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_whatever_the_tiles_the_sums_are_the_same(name: str) -> None:
    target = tvm.target.Target(local_target())
    if not has_matrix_units(target):
        pytest.skip("this CPU has no matrix units")
    mod, draw = workload(name), np.random.default_rng(0)
    values = [pairs(draw, shape) for _, shape in argument_shapes(mod)]
    expected = outputs(mod, [value.copy() for value in values])

    for schedule in drawn(name, 6):
        tensors = [tvm.runtime.tensor(value.copy()) for value in values]
        tvm.compile(schedule.mod, target=target)(*tensors)
        np.testing.assert_allclose(tensors[-1].numpy(), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("name", "fewest"), [("image", 9), ("flat", 8), ("dense", 8), ("heads", 8)])
def test_tiles_of_few_rows_are_refused_where_others_fit(name: str, fewest: int) -> None:
    names = [
        str(instruction.attrs[0])
        for schedule in drawn(name, 6)
        for instruction in schedule.trace.insts
        if instruction.kind.name == "Tensorize"
    ]
    places = {int(found.rsplit("_", 2)[1].split("x")[1]) for found in names if "_add_" in found}
    assert places
    assert min(places) >= fewest


@pytest.mark.slow
def test_a_database_brings_the_intrinsics_of_its_traces(tmp_path: Path) -> None:
    mod, target = workload("flat"), tvm.target.Target(json.loads(XEON))
    (schedule,) = drawn("flat", 1)

    class Candidate:
        sch, args_info = schedule, tvm.s_tir.meta_schedule.arg_info.ArgInfo.from_entry_func(mod, remove_preproc=True)

    SearchDatabase(tmp_path).add(mod, Candidate, [1e-3], target)
    code = (
        "import sys; from pathlib import Path\nfrom costhub.search.database import open_database\n"
        "from costhub.dataset.intrinsics import load_intrinsics\nload_intrinsics('llvm')\n"
        "print(len(open_database(Path(sys.argv[1]))))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1"]
