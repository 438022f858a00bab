"""Register tiles: what they compute, which blocks get them, and that stock TVM replays their traces."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import tvm
from torch import nn
from torch.nn import functional

from costhub.collector.propose.register_tiles import CONVOLUTION, MOST_BLOCKS, MOST_PLACES, is_blocked
from costhub.collector.propose.sampler import open_design_space
from costhub.collector.propose.spaces import BLOCKED, DEFAULT, DesignSpace, best_space, find_space
from costhub.collector.workloads.relax_import import fuse, import_network
from costhub.dataset.workload import argument_shapes

TARGET = '{"kind": "llvm", "num-cores": 2}'
LANES = 8


class Layer(nn.Module):
    """A convolution, and what a residual network computes of its outputs."""

    def __init__(self, inputs: int, outputs: int, size: int, stride: int, *, alone: bool = False) -> None:
        super().__init__()
        self.layer = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=not alone)
        self.alone = alone

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.layer(x)
        return found if self.alone else functional.relu(found + found.mean())


def kernel(layer: nn.Module, example: torch.Tensor, lanes: int = LANES) -> Any:
    """The kernel of the convolution of a layer."""
    target = tvm.target.Target(json.loads(TARGET))
    mod, _ = import_network(layer.eval(), (example,), lanes=lanes)
    found = [f for g, f in fuse(mod, target).functions.items() if "conv2d" in g.name_hint]
    return tvm.IRModule({"main": found[0].with_attr("global_symbol", "main")})


@cache
def workload(size: int, stride: int, alone: bool) -> Any:
    return kernel(Layer(16, 32, size, stride, alone=alone), torch.rand(1, 16, 10, 14))


def outputs(mod: Any, inputs: list[np.ndarray]) -> np.ndarray:
    tensors = [tvm.runtime.tensor(value) for value in inputs]
    tvm.compile(mod, target=tvm.target.Target(json.loads(TARGET)))(*tensors)
    return tensors[-1].numpy()


@pytest.mark.parametrize(("size", "stride", "alone"), [(3, 1, False), (1, 1, False), (3, 2, True), (1, 2, True)])
def test_whatever_the_tiles_the_outputs_are_the_same(size: int, stride: int, alone: bool) -> None:
    mod = workload(size, stride, alone)
    draw = np.random.default_rng(0)
    inputs = [draw.standard_normal(shape).astype(np.float32) for _, shape in argument_shapes(mod)]
    expected = outputs(mod, [value.copy() for value in inputs])
    context, sketches = open_design_space(mod, TARGET, find_space(BLOCKED), 0)
    space = DesignSpace(context, sketches)

    found = [space.finish(lambda: space.random(draw), seed) for seed in range(1, 9)]

    schedules = [schedule for schedule in found if schedule is not None]
    assert len(schedules) >= 6
    for schedule in schedules:
        np.testing.assert_allclose(outputs(schedule.mod, [v.copy() for v in inputs]), expected, atol=1e-4)
        tiles = [[int(n) for n in drawn] for drawn in schedule.trace.decisions.values() if hasattr(drawn, "__len__")]
        assert tiles[0][1] <= MOST_BLOCKS
        assert tiles[1][1] <= MOST_PLACES


def test_rows_or_channels_come_first() -> None:
    _, sketches = open_design_space(workload(3, 1, False), TARGET, find_space(BLOCKED), 0)

    assert len(sketches) == 2
    assert str(sketches[0].trace) != str(sketches[1].trace)


def test_what_follows_is_computed_on_the_tile() -> None:
    _, (schedule, _) = open_design_space(workload(3, 1, False), TARGET, find_space(BLOCKED), 0)

    (last,) = schedule.get_consumers(schedule.get_sblock(CONVOLUTION))
    own, its = (schedule.get_loops(block) for block in (schedule.get_sblock(CONVOLUTION), last))
    shared = [schedule.get(one).same_as(schedule.get(other)) for one, other in zip(own, its, strict=False)]
    assert shared[:4] == [True] * 4


def test_a_search_takes_the_space_for_blocked_convolutions_only() -> None:
    plain = kernel(Layer(16, 32, 3, 1), torch.rand(1, 16, 10, 14), lanes=0)

    assert (is_blocked(workload(3, 1, False)), is_blocked(plain)) == (True, False)
    assert [best_space(mod).name for mod in (workload(1, 1, False), plain)] == [BLOCKED, DEFAULT]


def test_stock_tvm_replays_the_trace() -> None:
    from tvm.s_tir.schedule import Trace

    mod = workload(3, 1, False)
    context, sketches = open_design_space(mod, TARGET, find_space(BLOCKED), 0)
    space = DesignSpace(context, sketches)
    schedule = space.finish(lambda: space.random(np.random.default_rng(1)), 3)
    assert schedule is not None

    again = tvm.s_tir.Schedule(mod)
    Trace.apply_json_to_schedule(schedule.trace.as_json(), again)

    tvm.ir.assert_structural_equal(again.mod, schedule.mod)
