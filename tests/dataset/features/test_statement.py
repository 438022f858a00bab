"""Statements of a nest made by hand: C[i, j] += A[i, k] * B[k, j], i parallel, then k, then j in lanes."""

from __future__ import annotations

import pytest

from costhub.dataset.features.loop_nest import Buffer, LoopNest, Node, Touch
from costhub.dataset.features.statement import Statement, Tile, statements
from costhub.dataset.features.tir_expressions import Operations

C, A, B = range(3)
BUFFERS = [
    Buffer("C", (4, 16), 4, "global"),
    Buffer("A", (4, 8), 4, "global"),
    Buffer("B", (8, 16), 4, "shared"),
]


def touches(c: tuple[int, int], a: tuple[int, int], b: tuple[int, int]) -> dict[int, Touch]:
    """(elements, stride) of each buffer, all of whose elements lie side by side."""
    found = {number: Touch(n, n, n, stride) for number, (n, stride) in ((C, c), (A, a), (B, b))}
    found[C].writes = True
    return found


@pytest.fixture
def nest() -> LoopNest:
    loops = [
        Node("root", -1, touches=touches((64, 0), (32, 0), (128, 0))),
        Node("parallel", 0, 4, touches=touches((64, 16), (32, 8), (128, 0)), unroll_steps=8),
        Node("serial", 1, 8, top_down=4, touches=touches((16, 0), (8, 1), (128, 16))),
        Node("vectorized", 2, 16, top_down=32, touches=touches((16, 1), (1, 0), (16, 1))),
    ]
    store = Node("statement", 3, top_down=512, is_reduction=True, touches=touches((1, 0), (1, 0), (1, 0)))
    store.operations = Operations(add_sub=1, mul=1)
    return LoopNest([*loops, store], BUFFERS)


def test_the_loops_are_told_apart_by_whether_they_reduce(nest: LoopNest) -> None:
    [statement] = statements(nest)

    assert statement.chain == [3, 2, 1]
    assert [statement.is_reduced_over(loop) for loop in statement.chain] == [False, True, False]
    assert statement.loop_runs(4) == [(16, 3), (8, 2), (4, 1), (1, 1)]
    assert (statement.work, statement.scope, statement.lane_loop) == (1024, "global", 3)


def test_a_tile_is_read_contiguously_or_by_broadcast(nest: LoopNest) -> None:
    statement = Statement(nest, 4)

    assert statement.tile(3) == Tile(accumulators=16, contiguous=16, broadcast=1, strided=0, bytes=4 * 33)
    assert statement.side_by_side(3) == (16, [1, 16])
    assert (statement.bytes_read("global"), statement.bytes_read("shared")) == (4 * 32, 4 * 128)


@pytest.mark.parametrize(("steps", "expected"), [(0, (1, 3, 2)), (8, (8, 2, 1)), (32, (32, 1, None))])
def test_loops_are_unrolled_as_far_as_the_pragma_reaches(
    steps: int, expected: tuple[int, int, int | None], nest: LoopNest
) -> None:
    nest.nodes[1].unroll_steps = steps

    assert Statement(nest, 4).unrolled_body() == expected


def test_what_a_cache_does_not_hold_is_fetched_every_time(nest: LoopNest) -> None:
    # The statement's 3 elements fit 16 bytes, the lanes' 33 fit 256, a row's 152 fit 1024, all 224 fit too.
    assert Statement(nest, 4).traffic([4, 8, 10]) == [12 * 512, 4 * 33 * 32, 4 * 224]


def test_a_statement_without_loops_has_a_tile_of_itself() -> None:
    store = Node("statement", 0, touches={0: Touch(1, 1, 1, writes=True)})
    [statement] = statements(LoopNest([Node("root", -1), store], BUFFERS[:1]))

    assert (statement.chain, statement.lane_loop, statement.unrolled_body()) == ([], None, (1, None, None))
    assert statement.tile(None).bytes == 4
    assert statement.traffic([12]) == [4]
