"""Kernels that no search sees: one pass through memory, one start of the threads, and the same numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, topi

from costhub.dataset.workload import argument_shapes, parse_target
from costhub.search.whole_network.default_schedules import schedule_untuned
from costhub.search.whole_network.one_pass import in_one_pass, in_one_region


def kernel(*tensors: Any) -> Any:
    return tvm.IRModule({"main": te.create_prim_func(list(tensors))})


def image(*shape: int, name: str = "x", dtype: str = "float32") -> Any:
    return te.placeholder(shape, dtype=dtype, name=name)


def blocked(x: Any, lanes: int = 16) -> Any:
    """An image in NCHW[lanes]c."""
    n, channels, rows, columns = (int(extent) for extent in x.shape)
    return te.compute(
        (n, channels // lanes, rows, columns, lanes), lambda n, c, h, w, i: x[n, c * lanes + i, h, w], name="blocked"
    )


def rows_of_tokens() -> Any:
    """A blocked image as rows of tokens, as ConvNeXt and ViT have it."""
    x = image(1, 4, 6, 10, 16)
    plain = te.compute((1, 64, 6, 10), lambda n, c, h, w: x[n, c // 16, h, w, c % 16], name="plain")
    return kernel(x, topi.reshape(topi.transpose(plain, (0, 2, 3, 1)), (60, 64)))


def blocked_sum() -> Any:
    """The way back, plus the image that goes around."""
    x, skip = image(60, 64), image(1, 4, 6, 10, 16, name="skip")
    back = topi.transpose(topi.reshape(x, (1, 6, 10, 64)), (0, 3, 1, 2))
    return kernel(x, skip, topi.add(skip, blocked(back)))


def split() -> Any:
    """Three outputs from one input."""
    x = image(20, 96)
    parts = topi.split(topi.reshape(x, (1, 20, 96)), 3, axis=2)
    return kernel(x, *parts)


def padded() -> Any:
    x = image(1, 32, 7, 9)
    return kernel(x, blocked(topi.nn.pad(x, (0, 0, 1, 1))))


def scaled(dtype: str) -> Any:
    """Computed once, for one reader."""
    x = image(33, 48, dtype=dtype)
    return kernel(x, topi.transpose(topi.add(x, x)))


ONE_PASS: dict[str, Callable[[], Any]] = {
    "rows of tokens": rows_of_tokens,
    "blocked sum": blocked_sum,
    "split": split,
    "padded": padded,
    "transposed": lambda: kernel(x := image(35, 49), topi.transpose(x)),
    "a prime": lambda: kernel(x := image(31, 37), topi.transpose(x)),
    "scaled": lambda: scaled("float32"),
    "scaled integers": lambda: scaled("int32"),
    "scaled bytes": lambda: scaled("int8"),
}


def gate(size: int = 9) -> Any:
    """Squeeze-and-excitation: a few sums, their sigmoid, and an image that is multiplied by it."""
    few, weights, x = image(1, 8, name="few"), image(4, 8, 16, name="weights"), image(1, 4, size, size, 16)
    k = te.reduce_axis((0, 8), "k")
    sums = te.compute((1, 4, 1, 1, 16), lambda n, c, h, w, i: te.sum(few[n, k] * weights[c, k, i], k), name="sums")
    return kernel(few, weights, x, topi.multiply(x, topi.sigmoid(sums)))


def run(mod: Any) -> list[np.ndarray]:
    draw = np.random.default_rng(0)
    tensors = [tvm.runtime.tensor((8 * draw.standard_normal(s)).astype(d)) for d, s in argument_shapes(mod)]
    tvm.compile(mod, tvm.target.Target({"kind": "llvm", "num-cores": 2}))["main"](*tensors)
    return [tensor.numpy() for tensor in tensors]


def blocks(mod: Any) -> int:
    schedule = tvm.s_tir.Schedule(mod)
    return len(schedule.get_child_blocks(schedule.get_sblock("root")))


@pytest.mark.parametrize("name", ONE_PASS)
def test_numbers_move_once_on_all_cores_and_are_the_same(name: str) -> None:
    mod = ONE_PASS[name]()

    found = in_one_pass(mod, 2)

    assert found is not None
    once = tvm.IRModule({"main": found})
    assert blocks(once) == (3 if name == "split" else 1)
    assert "T.parallel" in once.script()
    assert "T.vectorized" in once.script()
    for one, other in zip(run(once), run(mod), strict=True):
        np.testing.assert_array_equal(one, other)


def test_neighbours_are_read_and_written_side_by_side() -> None:
    found = in_one_pass(rows_of_tokens(), 2)
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": found}))
    (block,) = schedule.get_child_blocks(schedule.get_sblock("root"))

    loops = [schedule.get(loop) for loop in schedule.get_loops(block)]

    assert loops[-1].kind == tvm.tirx.ForKind.VECTORIZED
    assert int(loops[-1].extent) == 16
    target = tvm.target.Target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 2})
    code = str(tvm.compile(schedule.mod, target=target).mod.inspect_source("asm"))
    assert "%zmm" in code
    assert re.findall(r"gather|insertps|unpck", code) == []


def test_a_transpose_goes_through_small_blocks() -> None:
    found = in_one_pass(kernel(x := image(64, 96), topi.transpose(x)), 2)
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": found}))
    (block,) = schedule.get_child_blocks(schedule.get_sblock("root"))

    assert [int(schedule.get(loop).extent) for loop in schedule.get_loops(block)][-2:] == [16, 16]


def test_what_is_computed_for_several_readers_is_computed_once() -> None:
    x = image(40, 50)
    shared = topi.exp(x)
    readers = topi.add(topi.transpose(shared), topi.transpose(topi.multiply(shared, shared)))
    row = topi.exp(y := image(50, name="y"))

    assert in_one_pass(kernel(x, readers), 2) is None
    assert in_one_pass(kernel(x, topi.multiply(shared, shared)), 2) is None
    assert in_one_pass(kernel(x, y, topi.multiply(x, row)), 2) is None
    # Nor where a copy of it is spread.
    assert in_one_pass(kernel(x, y, topi.multiply(x, topi.reshape(row, (1, 50)))), 2) is None


def test_sums_and_what_is_in_order_already_are_left_to_other_rules() -> None:
    x = image(300, 200)

    for y in (topi.sum(x, axis=1), topi.nn.softmax(x), topi.exp(x)):
        assert in_one_pass(kernel(x, y), 2) is None


def test_small_steps_before_a_large_one_share_its_threads() -> None:
    mod = gate()

    found = in_one_region(mod, 2)

    assert found is not None
    one = tvm.IRModule({"main": found})
    assert one.script().count("T.parallel") == 1
    for one_value, other in zip(run(one), run(mod), strict=True):
        np.testing.assert_allclose(one_value, other, rtol=1e-6)


def test_cores_share_the_four_rounds_of_a_gate_evenly() -> None:
    taken = [cores for cores in range(1, 9) if in_one_region(gate(70), cores) is not None]

    assert taken == [1, 2, 4, 5]
    assert in_one_region(gate(), 8) is not None, "it is little work, however it is shared"


def test_other_kernels_with_sums_are_left_to_other_rules() -> None:
    x, weights, few = image(64, 64), image(64, 48, name="weights"), image(7, 192, 192)
    over_rows = topi.sum(few, axis=0)  # for each of 7 rounds anew, if it were computed inside

    for tensors in (
        (x, weights, topi.nn.relu(topi.matmul(x, weights))),
        (x, topi.exp(x)),
        (x, topi.sum(x, axis=1)),
        (few, topi.subtract(few, over_rows)),
    ):
        assert in_one_region(kernel(*tensors), 2) is None


@pytest.mark.parametrize(("lanes", "is_taken"), [(16, True), (1, False)])
def test_a_mean_is_taken_if_channels_lie_side_by_side(lanes: int, is_taken: bool) -> None:
    x, rows = image(1, 64 // lanes, 60, 60, lanes), te.reduce_axis((0, 60), "rows")
    columns = te.reduce_axis((0, 60), "columns")
    sums = te.compute((1, 64 // lanes, lanes), lambda n, c, i: te.sum(x[n, c, rows, columns, i], (rows, columns)))
    mod = kernel(x, topi.divide(sums, 3600.0))

    found = in_one_region(mod, 2)

    assert (found is not None) == is_taken
    if found is not None:
        for one, other in zip(run(tvm.IRModule({"main": found})), run(mod), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)


def test_a_little_work_shares_its_threads_whatever_it_is() -> None:
    x, weights = image(32, 64), image(64, 48, name="weights")
    mod = kernel(x, weights, topi.nn.relu(topi.matmul(x, weights)))

    found = in_one_region(mod, 2)

    assert found is not None
    for one, other in zip(run(tvm.IRModule({"main": found})), run(mod), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_sums_along_a_row_are_left_to_other_rules() -> None:
    x = image(8, 32, 64)

    assert in_one_region(kernel(x, topi.subtract(x, topi.max(x, axis=2, keepdims=True))), 2) is None


def test_a_small_operand_does_not_decide_the_order() -> None:
    x, bias = image(1, 64, 28, 28), image(64, 1, 1, name="bias")

    assert in_one_pass(kernel(x, bias, topi.add(x, bias)), 2) is None


@pytest.mark.parametrize(("cores", "starts"), [(4, 1), (6, 2)])
def test_a_network_gets_these_schedules(cores: int, starts: int) -> None:
    target = tvm.target.Target({"kind": "llvm", "num-cores": cores})
    x = image(1, 4, 70, 70, 16)
    plain = te.compute((1, 64, 70, 70), lambda n, c, h, w: x[n, c // 16, h, w, c % 16], name="plain")

    moved, _ = schedule_untuned(kernel(x, topi.transpose(plain, (0, 2, 3, 1))), target)
    gated, _ = schedule_untuned(gate(70), target)

    assert blocks(moved) == 1
    assert min(gated.script().count("T.parallel"), 2) == starts


def test_vectors_have_at_most_64_lanes() -> None:
    x = image(4, 8, 3001)

    found = in_one_region(kernel(x, topi.divide(topi.sum(x, axis=1), 8.0)), 2)

    assert found is not None
    lanes = re.findall(r"T\.vectorized\((?:T\.int64\()?(\d+)", tvm.IRModule({"main": found}).script())
    assert lanes
    assert all(int(each) <= 64 for each in lanes)


def test_a_scalar_from_a_large_argument_is_scheduled_as_before(target: str) -> None:
    x = image(20_000)
    mod = kernel(x, te.compute((), lambda: x[3], name="third"))

    scheduled, _ = schedule_untuned(mod, parse_target(target))

    np.testing.assert_array_equal(run(scheduled)[-1], run(mod)[-1])


def test_open_sizes_do_no_harm(target: str) -> None:
    x = te.placeholder((te.var("n"), 512), name="x")
    mod = kernel(x, topi.transpose(topi.exp(x)))

    assert in_one_pass(mod, 2) is None
    assert in_one_region(mod, 2) is None
    assert schedule_untuned(mod, parse_target(target)) == (mod, 0)
