"""Register tiles: what they compute, which blocks get them, and that stock TVM replays their traces."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
import tvm
from torch import nn
from torch.nn import functional

from costhub.collector.device.local import local_target
from costhub.collector.propose.register_tiles import (
    CONVOLUTION,
    DEPTHWISE,
    FEW_SUMS,
    MOST_BLOCKS,
    MOST_PLACES,
    MOST_SUMS,
    NORM,
    PAIR_CONVOLUTION,
    PAIR_PRODUCT,
    PRODUCT,
    RegisterTile,
    is_blocked,
    most_sums,
)
from costhub.collector.propose.sampler import open_design_space
from costhub.collector.propose.spaces import BLOCKED, DEFAULT, DesignSpace, best_space, find_space
from costhub.collector.workloads.bfloat16_pairs import pair_product
from costhub.collector.workloads.relax_import import fuse, import_network
from costhub.dataset.intrinsics import names_intrinsics
from costhub.dataset.trace import replay, trace_to_json
from costhub.dataset.workload import argument_shapes

VECTORIZED = tvm.tirx.ForKind.VECTORIZED
TARGET = '{"kind": "llvm", "num-cores": 2}'
LANES = 8
NAMES = ("conv2d", "matmul", "norm", "softmax")


class Layer(nn.Module):
    """A convolution, and what networks compute of its outputs: one number by one, or by two ways that meet again."""

    def __init__(self, layer: nn.Module, then: str = "") -> None:
        super().__init__()
        self.layer, self.then = layer, then

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.layer(x.mean((2, 3), keepdim=True) if self.then == "gate" else x)
        follow = {
            "": lambda: found,
            "relu": lambda: functional.relu(found + found.mean()),
            "silu": lambda: functional.silu(found),
            "gate": lambda: functional.sigmoid(found) * x,
            "heads": lambda: found.reshape(1, -1, 4, 8).permute(0, 2, 1, 3),
        }
        return follow[self.then]()


def kernel(
    layer: nn.Module, example: torch.Tensor, lanes: int = LANES, *, bf16_unit: str = "", fast_math: bool = False
) -> Any:
    """The kernel of a layer: the one that does most."""
    target = tvm.target.Target(json.loads(TARGET))
    mod, _ = import_network(layer.eval(), (example,), lanes=lanes, bf16_unit=bf16_unit)
    kernels = fuse(mod, target, fast_math=fast_math).functions
    found = [f for g, f in kernels.items() if any(n in g.name_hint for n in NAMES)]
    return tvm.IRModule({"main": found[0].with_attr("global_symbol", "main")})


def convolution(size: int, stride: int, then: str, outputs: int = 32, groups: int = 1, width: int = 14) -> Any:
    layer = nn.Conv2d(16, outputs, size, stride, size // 2, groups=groups, bias=bool(then))
    return kernel(Layer(layer, then), torch.rand(1, 16, 10, width))


def dense(rows: int, then: str) -> Any:
    return kernel(Layer(nn.Linear(24, 32, bias=bool(then)), then), torch.rand(1, rows, 24))


WORKLOADS = {
    "3x3, relu": lambda: convolution(3, 1, "relu"),
    "1x1, relu": lambda: convolution(1, 1, "relu"),
    "3x3": lambda: convolution(3, 2, ""),
    "1x1": lambda: convolution(1, 2, ""),
    "3x3, silu": lambda: convolution(3, 1, "silu"),
    "1x1, gate": lambda: convolution(1, 1, "gate", 16),
    "depthwise": lambda: convolution(5, 1, "", 16, 16),
    "depthwise, silu": lambda: convolution(3, 2, "silu", 16, 16),
    "dense": lambda: dense(20, ""),
    "dense, silu": lambda: dense(20, "silu"),
    "dense, an odd number of rows": lambda: dense(37, "silu"),
    "dense, heads": lambda: dense(20, "heads"),
    "dense, a row": lambda: dense(1, "silu"),
    "normalisation": lambda: kernel(Layer(nn.LayerNorm(24)), torch.rand(1, 20, 24)),
    "softmax": lambda: kernel(nn.Softmax(-1), torch.rand(2, 3, 20, 24), fast_math=True),
    "softmax, part of a vector": lambda: kernel(nn.Softmax(-1), torch.rand(2, 20, 29), fast_math=True),
    "softmax, exact": lambda: kernel(nn.Softmax(-1), torch.rand(20, 29)),
}


@cache
def workload(name: str) -> Any:
    return WORKLOADS[name]()


def outputs(mod: Any, inputs: list[np.ndarray]) -> np.ndarray:
    tensors = [tvm.runtime.tensor(value) for value in inputs]
    tvm.compile(mod, target=tvm.target.Target(json.loads(TARGET)))(*tensors)
    return tensors[-1].numpy()


def sums_in_tile(schedule: Any) -> int:
    tile = RegisterTile.of(schedule.trace)
    assert tile is not None
    return tile.blocks * tile.places


def programs(mod: Any, target: str, count: int) -> list[Any]:
    """Programs of the design space; drawn decisions that it refuses are left out."""
    draw = np.random.default_rng(0)
    space = DesignSpace(*open_design_space(mod, target, find_space(BLOCKED), 0))
    tried = (space.finish(space.random(draw), int(draw.integers(1, 2**30))) for _ in range(8 * count))
    found = list(islice((schedule for schedule in tried if schedule is not None), count))
    assert len(found) == count
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_whatever_the_tiles_the_outputs_are_the_same(name: str) -> None:
    mod = workload(name)
    draw = np.random.default_rng(0)
    inputs = [draw.standard_normal(shape).astype(np.float32) for _, shape in argument_shapes(mod)]
    expected = outputs(mod, [value.copy() for value in inputs])

    for schedule in programs(mod, TARGET, 8):
        np.testing.assert_allclose(outputs(schedule.mod, [v.copy() for v in inputs]), expected, atol=1e-4)
        tiles = [[int(n) for n in drawn] for drawn in schedule.trace.decisions.values() if hasattr(drawn, "__len__")]
        if name.startswith(("normalisation", "softmax")):
            continue
        blocks, places = [1, tiles[0][1]] if "depthwise" in name else [tiles[0][1], tiles[1][1]]
        assert blocks <= MOST_BLOCKS
        assert places <= MOST_PLACES


WIDE = {
    CONVOLUTION: lambda: convolution(3, 1, "", width=28),
    DEPTHWISE: lambda: convolution(3, 1, "", 16, 16, width=28),
    PRODUCT: lambda: dense(28, ""),
}


@pytest.mark.parametrize(("mcpu", "most"), [("haswell", FEW_SUMS), ("skylake-avx512", MOST_SUMS)])
@pytest.mark.parametrize("name", WIDE)
def test_the_registers_of_the_cpu_hold_the_sums_of_a_tile(name: str, mcpu: str, most: int) -> None:
    target = json.dumps({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": mcpu, "num-cores": 2})

    schedules = programs(WIDE[name](), target, 32)

    assert max(sums_in_tile(schedule) for schedule in schedules) == most
    for schedule in schedules:
        loops = schedule.get_loops(schedule.get_sblock(f"{name}_update"))
        extents = [int(schedule.get(loop).extent) for loop in loops]
        # A depthwise convolution may be one vector inside the loops over its filter of 3 x 3.
        tile = extents[extents.index(3) + 2 :] if name == DEPTHWISE else extents[-3:]
        assert sums_in_tile(schedule) == math.prod(tile) // LANES


def test_kernels_without_a_register_tile_are_proposed_as_before() -> None:
    x, y = (tvm.te.placeholder((32, 32), name=name) for name in "xy")
    mod = tvm.IRModule({"main": tvm.te.create_prim_func([x, y, tvm.topi.matmul(x, y)])})

    assert [RegisterTile.of(schedule.trace) for schedule in programs(mod, TARGET, 2)] == [None, None]


@pytest.mark.parametrize("triple", ["aarch64-linux-gnu", "arm64-apple-macos"])
def test_arm_has_as_many_registers_as_avx512(triple: str) -> None:
    assert most_sums(tvm.target.Target({"kind": "llvm", "mtriple": triple, "num-cores": 2})) == MOST_SUMS


def test_rows_or_channels_come_first() -> None:
    _, sketches = open_design_space(workload("3x3, relu"), TARGET, find_space(BLOCKED), 0)

    assert len(sketches) == 2
    assert str(sketches[0].trace) != str(sketches[1].trace)


@pytest.mark.parametrize(
    ("name", "block"),
    [
        ("3x3, relu", CONVOLUTION),
        ("3x3, silu", CONVOLUTION),
        ("depthwise, silu", DEPTHWISE),
        ("dense, silu", PRODUCT),
        ("dense, a row", PRODUCT),
    ],
)
def test_what_follows_is_computed_on_the_tile(name: str, block: str) -> None:
    _, (schedule, _) = open_design_space(workload(name), TARGET, find_space(BLOCKED), 0)

    (last,) = schedule.get_consumers(schedule.get_sblock(block))
    own, its = (schedule.get_loops(one) for one in (schedule.get_sblock(block), last))
    outer = len(its) - (2 if block == DEPTHWISE else 3)
    shared = [schedule.get(one).same_as(schedule.get(other)) for one, other in zip(own, its, strict=False)]
    assert shared[:outer] == [True] * outer


def test_what_is_larger_is_computed_apart() -> None:
    """A gate of one number a channel is not computed again for every place of the image that it scales."""
    _, (schedule, *_) = open_design_space(workload("1x1, gate"), TARGET, find_space(BLOCKED), 0)

    block = schedule.get_sblock(CONVOLUTION)
    first = [schedule.get(schedule.get_loops(one)[0]) for one in (block, *schedule.get_consumers(block))]
    assert not any(first[0].same_as(loop) for loop in first[1:])


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name.startswith("softmax")])
def test_a_softmax_goes_through_a_row_at_once_in_vectors(name: str) -> None:
    _, (schedule, *others) = open_design_space(workload(name), TARGET, find_space(BLOCKED), 0)

    assert others == []
    rank = len(argument_shapes(workload(name))[0][1])
    script = schedule.mod.script()
    assert "below" not in script
    blocks = [
        each for each in ("top_lanes", "top", "T_fast_exp", "power", "total_lanes", "total") if has(schedule, each)
    ]
    assert len(blocks) == 5
    for block in blocks:
        loops = schedule.get_loops(schedule.get_sblock(block))
        assert len(loops) > rank - 1
        kinds = [schedule.get(loop).kind for loop in loops]
        assert (VECTORIZED in kinds) == (block not in ("top", "total")), block


def has(schedule: Any, block: str) -> bool:
    return f'sblock("{block}")' in schedule.mod.script()


def test_a_row_is_normalised_at_once() -> None:
    _, (schedule, *others) = open_design_space(workload("normalisation"), TARGET, find_space(BLOCKED), 0)

    loops = [schedule.get_loops(schedule.get_sblock(name)) for name in (NORM, "spread", "total_lanes")]
    assert all(schedule.get(own[0]).same_as(schedule.get(loops[0][0])) for own in loops)
    assert [str(schedule.get(own[-1]).kind) for own in (loops[0], loops[2])] == [str(VECTORIZED)] * 2
    assert not others


def test_a_search_takes_the_space_for_blocked_convolutions_only() -> None:
    plain = kernel(Layer(nn.Conv2d(16, 32, 3), "relu"), torch.rand(1, 16, 10, 14), lanes=0)

    assert [is_blocked(workload(name)) for name in WORKLOADS] == [True] * len(WORKLOADS)
    assert not is_blocked(plain)
    assert [best_space(mod).name for mod in (workload("1x1, relu"), plain)] == [BLOCKED, DEFAULT]


def test_stock_tvm_replays_the_trace() -> None:
    from tvm.s_tir.schedule import Trace

    mod = workload("3x3, relu")
    context, sketches = open_design_space(mod, TARGET, find_space(BLOCKED), 0)
    space = DesignSpace(context, sketches)
    schedule = space.finish(space.random(np.random.default_rng(1)), 3)
    assert schedule is not None

    again = tvm.s_tir.Schedule(mod)
    Trace.apply_json_to_schedule(schedule.trace.as_json(), again)

    tvm.ir.assert_structural_equal(again.mod, schedule.mod)


WITH_BF16 = '{"kind": "llvm", "mcpu": "znver4", "num-cores": 2}'
PAIRS = {
    "3x3, relu": lambda: kernel(
        Layer(nn.Conv2d(16, 32, 3), "relu"), torch.rand(1, 16, 10, 14), 16, bf16_unit="vectors"
    ),
    "3x3": lambda: kernel(Layer(nn.Conv2d(16, 32, 3, 2, 1)), torch.rand(1, 16, 10, 14), 16, bf16_unit="vectors"),
    "1x1, 8 lanes": lambda: kernel(
        Layer(nn.Conv2d(16, 24, 1), "silu"), torch.rand(1, 16, 10, 14), 16, bf16_unit="vectors"
    ),
    "1x3, 4 lanes": lambda: kernel(Layer(nn.Conv2d(8, 12, (1, 3))), torch.rand(1, 8, 10, 14), 16, bf16_unit="vectors"),
    "dense, silu": lambda: kernel(Layer(nn.Linear(24, 32), "silu"), torch.rand(1, 20, 24), 16, bf16_unit="vectors"),
    "dense, an odd number of rows": lambda: kernel(
        Layer(nn.Linear(24, 48)), torch.rand(1, 37, 24), 16, bf16_unit="vectors"
    ),
    "heads": lambda: tvm.IRModule(
        {"main": pair_product((1, 3, 20, 32), (20, 32), 12, 16).with_attr("global_symbol", "main")}
    ),
}


def drawn(name: str, count: int) -> list[Any]:
    return programs(PAIRS[name](), WITH_BF16, count)


def pairs(draw: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
    """Two different numbers in each."""
    low, high = (draw.standard_normal(shape).astype(np.float32).view(np.uint32) >> 16 for _ in range(2))
    return (low | (high << 16)).view(np.float32)


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_are_multiplied_by_the_cpus_instruction_and_nothing_else(name: str) -> None:
    target = tvm.target.Target(json.loads(WITH_BF16))

    for schedule in drawn(name, 3):
        assembly = tvm.compile(schedule.mod, target=target).mod.inspect_source("s")
        _, lanes = name.split(", ") if "lanes" in name else ("", "16 lanes")
        register = {"16 lanes": "%zmm", "8 lanes": "%ymm", "4 lanes": "%xmm"}[lanes]
        dots = [line for line in assembly.splitlines() if "vdpbf16ps" in line]
        assert dots
        assert all(register in line for line in dots)
        assert "vfmadd" not in assembly or "silu" in name  # the exponential function has some


@pytest.mark.parametrize("name", PAIRS)
def test_whatever_the_tiles_the_sums_of_pairs_are_the_same(name: str) -> None:
    if not tvm.target.codegen.target_has_features("avx512bf16", tvm.target.Target(local_target())):
        pytest.skip("this CPU has no AVX512-BF16")
    mod, draw = PAIRS[name](), np.random.default_rng(0)
    values = [pairs(draw, shape) for _, shape in argument_shapes(mod)]
    expected = outputs(mod, [value.copy() for value in values])

    for schedule in drawn(name, 6):
        tensors = [tvm.runtime.tensor(value.copy()) for value in values]
        tvm.compile(schedule.mod, target=tvm.target.Target(json.loads(WITH_BF16)))(*tensors)
        np.testing.assert_allclose(tensors[-1].numpy(), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_a_trace_with_pairs_is_replayed_where_the_intrinsics_are_loaded() -> None:
    mod, (schedule, *_) = PAIRS["3x3, relu"](), drawn("3x3, relu", 1)
    text = trace_to_json(schedule.trace)

    assert names_intrinsics(text)
    tvm.ir.assert_structural_equal(replay(mod, text).mod, schedule.mod)
    assert is_blocked(mod)
    for name, block in (("3x3", PAIR_CONVOLUTION), ("dense, silu", PAIR_PRODUCT)):
        assert tvm.s_tir.Schedule(PAIRS[name]()).get_sblock(block) is not None
