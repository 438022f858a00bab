"""Tiles: which places they cover, and what an interpreter of their code computes, on whatever CPU."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.tile_ir import ADD, FLAT, IMAGE, REGISTERS, ROWS, STORE, ZERO, TileShape, tile_ir
from costhub.errors import WorkloadError


@given(st.integers(1, 96), st.integers(1, 8))
def test_tiles_cover_all_places_or_are_refused(places: int, blocks: int) -> None:
    try:
        shape = TileShape(FLAT, blocks, places, 16, 16, 1)
    except WorkloadError:
        assert blocks * -(-places // 16) > 3
        return
    covered = set(itertools.chain.from_iterable(range(start, start + shape.rows) for start in shape.starts))
    assert covered == set(range(places))
    assert shape.rows <= 16
    assert shape.sums + min(shape.tiles, 2) < REGISTERS


@pytest.mark.parametrize(
    "sizes",
    [
        (0, 16, 16, 16),
        (1, 0, 16, 16),
        (1, 16, 0, 16),
        (1, 16, 17, 16),
        (1, 16, 16, 17),
        (8, 16, 16, 8),
        (3, 32, 16, 16),
    ],
)
def test_tiles_that_do_not_fit_are_a_sentence(sizes: tuple[int, int, int, int]) -> None:
    with pytest.raises(WorkloadError, match=r"eight registers|1 to 16 columns"):
        TileShape(ROWS, *sizes, stride=1)


def configuration(shape: TileShape) -> tuple[list[int], list[int]]:
    """The bytes of a row, and the rows, of each register."""
    (text,) = re.findall(r'constant \[64 x i8\] c"([^"]*)"', tile_ir(ZERO, shape))
    data = bytes.fromhex(text.replace("\\", ""))
    assert (len(data), data[0]) == (64, 1)
    return [int.from_bytes(data[16 + 2 * i : 18 + 2 * i], "little") for i in range(16)], list(data[48:])


def run(step: str, shape: TileShape, pointers: dict[str, int], strides: dict[str, int]) -> list[tuple[str, list[int]]]:
    """The instructions on tiles, each with its registers, or with its register, first byte and bytes between rows."""
    values = {f"%{name}": value for name, value in (pointers | strides).items()}
    found = []
    for line in tile_ir(step, shape).splitlines():
        if match := re.match(r"  (%\w+) = (mul i64|shl i64) (%\w+), (\d+)", line):
            name, operation, left, right = match.groups()
            values[name] = values[left] * int(right) if operation == "mul i64" else values[left] << int(right)
        elif match := re.match(r"  (%\w+) = getelementptr (i8|float), ptr (%\w+), i64 (%\w+)", line):
            name, kind, base, offset = match.groups()
            values[name] = values[base] + values[offset] * (4 if kind == "float" else 1)
        elif match := re.match(r"  call void @llvm\.x86\.(tile\w+|tdpbf16ps)\((.*)\)", line):
            operands = [word.split()[-1] for word in match[2].split(",")]
            found.append((match[1], [values[o] if o.startswith("%") else int(o) for o in operands]))
    return found


@given(st.integers(1, 4), st.integers(1, 64), st.integers(1, 16), st.sampled_from([4, 8, 16]), st.integers(1, 3))
def test_the_code_multiplies_each_tile_with_each(blocks: int, places: int, pairs: int, lanes: int, stride: int) -> None:
    try:
        shape = TileShape(IMAGE, blocks, places, pairs, lanes, stride)
    except WorkloadError:
        return
    row_bytes, rows = configuration(shape)
    draw = np.random.default_rng(0)
    image = draw.integers(-4, 5, ((places - 1) * stride + 1) * pairs).astype(float)
    weights = draw.integers(-4, 5, blocks * pairs * lanes).astype(float)
    tiles: dict[int, np.ndarray] = {n: np.zeros((rows[n], row_bytes[n] // 4)) for n in range(REGISTERS)}

    def at(memory: np.ndarray, base: int, register: int, first: int, between: int) -> np.ndarray:
        begins = (first - base) // 4 + np.arange(rows[register]) * (between // 4)
        places = begins[:, None] + np.arange(row_bytes[register] // 4)
        assert places.min() >= 0
        assert places.max() < len(memory), "a tile reaches beyond its buffer"
        return places

    cleared = [operands[0] for name, operands in run(ZERO, shape, {}, {}) if name == "tilezero"]
    assert cleared == list(range(shape.sums))
    far = 1 << 20
    for name, operands in run(ADD, shape, {"a": 0, "b": far}, {"by": pairs * stride, "step": pairs * lanes}):
        if name == "tileloadd64":
            memory, base = (image, 0) if operands[1] < far else (weights, far)
            tiles[operands[0]] = memory[at(memory, base, *operands)]
        else:
            sums, a, b = operands
            assert (rows[sums], rows[b]) == (rows[a], row_bytes[a] // 4)
            tiles[sums] = tiles[sums] + tiles[a] @ tiles[b]
    out = np.full(blocks * places * lanes, np.nan)
    for _, operands in run(STORE, shape, {"out": 0}, {"by": lanes, "step": places * lanes}):
        out[at(out, 0, *operands)] = tiles[operands[0]]

    expected = np.einsum("pk,bkl->bpl", image.reshape(-1, pairs)[::stride], weights.reshape(blocks, pairs, lanes))
    np.testing.assert_array_equal(out.reshape(expected.shape), expected)
