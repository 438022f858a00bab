"""Intrinsics for matrix units: what they are described as, what they become, and that a trace brings its own."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import tvm
from tvm.s_tir import TensorIntrin

from costhub.dataset import tile_intrinsics
from costhub.dataset.tile_intrinsics import has_matrix_units, register_tile, register_tiles
from costhub.dataset.tile_ir import ADD, FLAT, IMAGE, LINE, ROWS, STEPS, STORE, ZERO, TileShape
from costhub.errors import WorkloadError

XEON = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "sapphirerapids"}
SHAPES = [
    TileShape(IMAGE, 2, 28, 16, 16, 1),
    TileShape(IMAGE, 1, 14, 8, 16, 2),
    TileShape(IMAGE, 4, 1, 16, 16, 1),
    TileShape(FLAT, 1, 61, 16, 16, 1),
    TileShape(LINE, 2, 14, 11, 16, 6),
    TileShape(LINE, 1, 1, 9, 16, 1),
    TileShape(ROWS, 2, 32, 16, 16, 1),
    TileShape(ROWS, 1, 5, 12, 16, 1),
    TileShape(ROWS, 3, 1, 16, 16, 1),
    TileShape(IMAGE, 3, 14, 16, 8, 1),
    TileShape(ROWS, 2, 8, 4, 8, 1),
]


def pairs(draw: np.random.Generator, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of bfloat16 as float32, and both numbers of each."""
    low, high = (draw.standard_normal(shape).astype(np.float32).view(np.uint32) & 0xFFFF0000 for _ in range(2))
    return ((low >> 16) | high).view(np.float32), low.view(np.float32), high.view(np.float32)


def extents(shape: TileShape) -> dict[str, tuple[int, ...]]:
    last = (shape.places - 1) * shape.stride
    weights, sums = (shape.pairs, shape.lanes), (shape.places, shape.lanes)
    return {
        IMAGE: ((last + 1, shape.pairs), (shape.blocks, 1, 1, 1, *weights), (shape.blocks, 1, *sums)),
        FLAT: ((last + 1, shape.pairs), (shape.blocks, 1, 1, 1, *weights), (shape.blocks, *sums)),
        LINE: ((last + shape.pairs,), (shape.blocks, 1, *weights), (shape.blocks, 1, *sums)),
        ROWS: ((last + 1, shape.pairs), (shape.blocks, *weights), (shape.places, shape.blocks * shape.lanes)),
    }[shape.form]


def expected(shape: TileShape, image: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The products of one number of each pair, as (blocks, places, lanes)."""
    first = np.arange(shape.places) * shape.stride
    rows = image[first[:, None] + np.arange(shape.pairs)] if shape.form == LINE else image[first]
    return np.einsum("pk,bkl->bpl", rows, weights.reshape(shape.blocks, shape.pairs, shape.lanes))


def by_block(shape: TileShape, sums: np.ndarray) -> np.ndarray:
    if shape.form == ROWS:
        return sums.reshape(shape.places, shape.blocks, shape.lanes).transpose(1, 0, 2)
    return sums.reshape(shape.blocks, shape.places, shape.lanes)


def built(function: Any, target: Any = "llvm") -> Any:
    return tvm.compile(tvm.IRModule({"main": function.with_attr("global_symbol", "main")}), target=target)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_description_adds_the_products_of_both_numbers(shape: TileShape) -> None:
    draw = np.random.default_rng(0)
    of_image, of_weights, of_sums = extents(shape)
    (image, *images), (weights, *both) = pairs(draw, of_image), pairs(draw, of_weights)
    sums = tvm.runtime.tensor(np.ones(of_sums, np.float32))

    built(TensorIntrin.get(register_tile(ADD, shape)).desc)(
        tvm.runtime.tensor(image), tvm.runtime.tensor(weights), sums
    )

    found = by_block(shape, sums.numpy())
    products = sum(expected(shape, one, other) for one, other in zip(images, both, strict=True))
    np.testing.assert_allclose(found, 1 + products, rtol=1e-4, atol=1e-4)


def kernel(shape: TileShape) -> Any:
    """A function of all three steps, as they stand in a schedule: pairs, pairs, sums."""
    from tvm.script.ir_builder import IRBuilder
    from tvm.tirx.script.builder import ir as T

    functions = {step: TensorIntrin.get(register_tile(step, shape)).impl for step in STEPS}
    of_image, of_weights, of_sums = extents(shape)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        image = T.arg("image", T.buffer(of_image, "float32"))
        weights = T.arg("weights", T.buffer(of_weights, "float32"))
        out = T.arg("out", T.buffer(of_sums, "float32"))
        distances = {
            ZERO: [],
            ADD: [
                image,
                shape.stride if shape.form == LINE else shape.pairs * shape.stride,
                weights,
                shape.pairs * shape.lanes,
            ],
            STORE: [
                out,
                *((of_sums[-1], shape.lanes) if shape.form == ROWS else (shape.lanes, shape.places * shape.lanes)),
            ],
        }
        for step in STEPS:
            given = [
                value.access_ptr("rw") if isinstance(value, tvm.tirx.Buffer) else T.int64(value)
                for value in distances[step]
            ]
            (linked,) = (
                node.value
                for node in nodes(functions[step])
                if isinstance(node, tvm.tirx.AttrStmt) and node.attr_key == "pragma_import_llvm"
            )
            with T.attr(T.int32(0), "pragma_import_llvm", linked):
                T.evaluate(T.call_extern("int32", f"costhub_{shape.name(step)}", *given))
    return builder.get()


def nodes(function: Any) -> list[Any]:
    from tvm_ffi import structural_walk

    found: list[Any] = []
    structural_walk(function.body, (tvm.tirx.Stmt, found.append))
    return found


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_becomes_one_instruction_for_each_pair_of_tiles(shape: TileShape) -> None:
    assembly = built(kernel(shape), tvm.target.Target(XEON)).mod.inspect_source("s")

    assert assembly.count("tdpbf16ps") == assembly.count("tilestored") == shape.tiles * shape.blocks
    assert assembly.count("tileload") == shape.tiles + shape.blocks
    assert not re.search(r"call\w*\s+costhub_amx", assembly)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_matrix_units_compute_what_the_description_says(shape: TileShape) -> None:
    from costhub.collector.device.local import local_target

    target = tvm.target.Target(local_target())
    if not has_matrix_units(target):
        pytest.skip("this CPU has no matrix units")
    draw = np.random.default_rng(1)
    of_image, of_weights, of_sums = extents(shape)
    (image, *images), (weights, *both) = pairs(draw, of_image), pairs(draw, of_weights)
    out = tvm.runtime.tensor(np.full(of_sums, np.nan, np.float32))
    function = built(kernel(shape), target)

    for _ in range(2):  # the second call finds the registers configured
        function(tvm.runtime.tensor(image), tvm.runtime.tensor(weights), out)

        products = sum(expected(shape, one, other) for one, other in zip(images, both, strict=True))
        np.testing.assert_allclose(by_block(shape, out.numpy()), products, rtol=1e-4, atol=1e-4)


def test_a_trace_names_what_it_needs() -> None:
    name = TileShape(FLAT, 1, 37, 16, 16, 1).name(STORE)
    code = (
        "from costhub.dataset.tile_intrinsics import register_tiles\nfrom tvm.s_tir import TensorIntrin\n"
        f"print(TensorIntrin.get({name!r}, allow_missing=True) is None)\n"
        f'register_tiles(\'[["Tensorize", ["b1", "{name}"]]]\')\n'
        f"print(TensorIntrin.get({name!r}, allow_missing=True) is None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


@pytest.mark.parametrize("shape", [*SHAPES, TileShape(LINE, 1, 14, 16, 16, 160)], ids=str)
def test_a_name_is_read_as_it_was_written(shape: TileShape) -> None:
    TensorIntrin.get(register_tile(STORE, shape))
    tile_intrinsics._registered.cache_clear()

    register_tiles(f'"{shape.name(STORE)}"')

    assert tile_intrinsics._registered.cache_info().currsize == 1
    register_tile(STORE, shape)
    assert tile_intrinsics._registered.cache_info().currsize == 1


def test_a_text_of_impossible_tiles_is_a_sentence() -> None:
    with pytest.raises(WorkloadError, match="eight registers"):
        register_tiles('"amx_bf16_add_rows_9x16x16x16_by1"')


@pytest.mark.parametrize(("mcpu", "expected"), [("sapphirerapids", True), ("znver4", False), ("icelake-server", False)])
def test_which_targets_have_matrix_units(mcpu: str, *, expected: bool) -> None:
    assert has_matrix_units(tvm.target.Target({**XEON, "mcpu": mcpu})) == expected
