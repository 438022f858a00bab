"""Kernels that fetch the weights of their next tile: which lines, when, and that they compute the same."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx

from costhub.collector.propose.sampler import open_design_space
from costhub.collector.propose.spaces import BLOCKED, DEFAULT, DesignSpace, find_space
from costhub.collector.workloads.packed_products import packed_product
from costhub.dataset.workload import argument_shapes
from costhub.search.whole_network.default_schedules import SCHEDULED
from costhub.search.whole_network.prefetch import _at, _find_sums, _next_tile, prefetch_weights
from tests.collector.propose.test_register_tiles import convolution, dense

CPU = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "haswell", "num-cores": 2}
KERNELS = {
    "dense": lambda: dense(20, "silu"),
    "dense, an odd number of rows": lambda: dense(37, ""),
}


def schedules(mod: Any, count: int, cpu: dict[str, Any] = CPU, own: str = BLOCKED) -> list[Any]:
    """Random programs of the design space of a kernel."""
    draw = np.random.default_rng(0)
    space = DesignSpace(*open_design_space(mod, json.dumps(cpu), find_space(own), 0))
    found = [space.finish(space.random(draw), seed) for seed in range(1, count + 1)]
    return [schedule.mod for schedule in found if schedule is not None]


def scheduled(mod: Any) -> Any:
    """A module as TVM leaves it after it has applied a schedule."""
    return tvm.IRModule({"main": mod["main"].with_attr(SCHEDULED, True)})


def outputs(mod: Any) -> np.ndarray:
    draw = np.random.default_rng(1)
    shapes = [shape for _, shape in argument_shapes(mod)]
    tensors = [tvm.runtime.tensor(draw.standard_normal(shape).astype(np.float32)) for shape in shapes]
    built = tvm.compile(mod, target=tvm.target.Target({"kind": "llvm", "num-cores": 2}))
    built["main"](*tensors)
    return tensors[-1].numpy()


def code(mod: Any, cpu: dict[str, Any] = CPU) -> str:
    return str(tvm.compile(mod, target=tvm.target.Target(cpu)).mod.inspect_source("asm"))


@pytest.mark.parametrize("name", KERNELS)
def test_each_line_of_the_next_tile_is_fetched_and_no_other(name: str) -> None:
    """Played step by step, for every program that fetches."""
    played = 0
    for mod in schedules(KERNELS[name](), 24):
        loops, sums = _find_sums(mod["main"].body)  # type: ignore[misc]
        tile = _next_tile(loops, sums, 16)
        if tile is None:
            continue
        played += 1
        stepping = [loop for loop in loops if loop.kind in (tirx.ForKind.SERIAL, tirx.ForKind.PARALLEL)]
        assert tile.loop.same_as(stepping[-1])
        fetched: dict[int, set[int]] = {}
        places = [statement.body.value.args[1].args[0] for statement in tile.statements()]
        for numbers in itertools.product(*(range(int(loop.extent)) for loop in stepping)):
            values = [(loop.loop_var, number) for loop, number in zip(stepping, numbers, strict=True)]
            start = int(_at(tile.start, values))
            lines = {int(_at(place.indices[-1], values)) * 4 // 64 for place in places}
            fetched.setdefault(start, set()).update(lines)
        # The last step may fetch a few lines more, if lines are not a multiple of the steps.
        for lines in fetched.values():
            assert lines >= set(range(tile.lines))
            assert max(lines) < tile.lines + len(places)
    assert played >= 3


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_the_same_is_computed_with_instructions_that_fetch(name: str) -> None:
    changed = 0
    for mod in map(scheduled, schedules(KERNELS[name](), 12)):
        fetching, count = prefetch_weights(mod, tvm.target.Target(CPU))
        if count and changed < 2:
            changed += 1
            np.testing.assert_array_equal(outputs(fetching), outputs(mod))
            assert "prefetcht1" in code(fetching)
            assert "prefetch" not in code(mod)
    assert changed


AVX512 = {**CPU, "mcpu": "skylake-avx512"}


def tiled_product(rows: int, blocks: int) -> Any:
    """A product of a few tiles of rows by 192, and 192 x 768, in tiles of some rows by some blocks of 16 columns."""
    product = packed_product(4 * rows, 768, 192, 16).with_attr("global_symbol", "main").with_attr(SCHEDULED, True)
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": product}))
    block = schedule.get_sblock("matmul_packed")
    copied = schedule.cache_write(block, 0, "global")
    row, column, depth = schedule.get_loops(block)
    chunk, lane = schedule.split(column, [None, 16])
    (chunks, few_chunks), (tiles, few_rows) = schedule.split(chunk, [None, blocks]), schedule.split(row, [None, rows])
    schedule.reorder(chunks, tiles, depth, few_rows, few_chunks, lane)
    schedule.reverse_compute_at(copied, tiles)
    for loop in (few_rows, few_chunks):
        schedule.unroll(loop)
    schedule.vectorize(lane)
    schedule.parallel(chunks)
    schedule.decompose_reduction(block, depth)
    return schedule.mod


def test_sums_stay_in_registers() -> None:
    """A fetch that might touch memory would have each sum stored before it, if TVM keeps them off the stack."""
    fetching, count = prefetch_weights(tiled_product(8, 3), tvm.target.Target(AVX512))

    assert count == 1
    (steps,) = [block for block in re.split(r"\n(?=\.LBB)", code(fetching, AVX512)) if "prefetcht1" in block]
    loop = steps[: steps.index("\tj")]
    assert loop.count("vfmadd") == 24
    assert re.findall(r"\tvmov\w+\t%zmm\d+, [^%\n]*\(", loop) == []


@pytest.mark.parametrize(
    ("rows", "blocks", "cpu", "count"), [(7, 4, AVX512, 0), (14, 2, AVX512, 1), (7, 2, CPU, 0), (4, 3, CPU, 1)]
)
def test_tiles_that_leave_no_register_are_left_alone(rows: int, blocks: int, cpu: dict[str, Any], count: int) -> None:
    assert prefetch_weights(tiled_product(rows, blocks), tvm.target.Target(cpu))[1] == count


def test_what_reads_its_weights_once_is_left_alone() -> None:
    row = tvm.IRModule({"main": packed_product(1, 64, 256, 8).with_attr("global_symbol", "main")})
    for mod in map(scheduled, schedules(row, 8)):
        assert prefetch_weights(mod, tvm.target.Target(CPU)) == (mod, 0)


def test_convolutions_are_left_alone() -> None:
    for mod in map(scheduled, schedules(convolution(1, 2, "", 64), 8)):
        assert prefetch_weights(mod, tvm.target.Target(CPU)) == (mod, 0)


def test_only_schedules_for_cpus_are_changed() -> None:
    (mod, *_) = [
        mod for mod in map(scheduled, schedules(dense(20, ""), 24)) if prefetch_weights(mod, tvm.target.Target(CPU))[1]
    ]
    gpu = tvm.target.Target({"kind": "cuda", "arch": "sm_80"})
    unscheduled = tvm.IRModule({"main": mod["main"].without_attr(SCHEDULED)})

    assert prefetch_weights(mod, gpu)[1] == 0
    assert prefetch_weights(unscheduled, tvm.target.Target(CPU))[1] == 0


@pytest.mark.parametrize("name", KERNELS)
def test_schedules_of_tvms_own_space_are_left_alone(name: str) -> None:
    """They have other loops around the same block of sums, fused ones among them."""
    found = [scheduled(mod) for mod in schedules(KERNELS[name](), 4, own=DEFAULT)]

    assert found
    assert [prefetch_weights(mod, tvm.target.Target(CPU)) for mod in found] == [(mod, 0) for mod in found]


def test_sums_in_a_block_within_another_are_left_alone() -> None:
    schedule = tvm.s_tir.Schedule(tiled_product(8, 3))
    schedule.blockize(schedule.get_loops(schedule.get_sblock("matmul_packed_update"))[-3])

    assert prefetch_weights(schedule.mod, tvm.target.Target(AVX512))[1] == 0
