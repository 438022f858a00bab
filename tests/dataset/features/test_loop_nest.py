"""What loops touch, on programs small enough to count it by hand."""

from __future__ import annotations

from typing import Any

import pytest

from costhub.dataset.features import loop_nest as nest_module
from costhub.dataset.features.loop_nest import LoopNest, Node, loop_nest
from costhub.dataset.workload import module_from_json


def touched(nest: LoopNest, node: Node) -> dict[str, tuple[int, int, int]]:
    """(elements, uses, stride) by the name of the buffer."""
    return {nest.buffers[b].name: (t.elements, t.uses, t.stride) for b, t in node.touches.items()}


@pytest.fixture
def schedule(tiny_matmul: Any) -> Any:
    import tvm

    return tvm.s_tir.Schedule(module_from_json(tiny_matmul.module_json))


def test_a_matmul_touches_what_one_counts_by_hand(schedule: Any) -> None:
    nest = loop_nest(schedule.mod)
    root, i, j, k, statement = nest.nodes

    assert [n.kind for n in nest.nodes] == ["root", "serial", "serial", "serial", "statement"]
    assert [n.parent for n in nest.nodes] == [-1, 0, 1, 2, 3]
    assert [(n.extent, n.top_down, n.bottom_up) for n in (i, j, k)] == [
        (16, 1, 4096),
        (16, 16, 256),
        (16, 256, 16),
    ]
    # C[i, j] += A[i, k] * B[k, j], all 16 x 16; a whole run of each loop:
    assert touched(nest, i) == {"C": (256, 4096, 16), "A": (256, 4096, 16), "B": (256, 4096, 0)}
    assert touched(nest, j) == {"C": (16, 256, 1), "A": (16, 256, 0), "B": (256, 256, 1)}
    assert touched(nest, k) == {"C": (1, 16, 0), "A": (16, 16, 1), "B": (16, 16, 16)}
    assert touched(nest, statement) == {"C": (1, 1, 0), "A": (1, 1, 0), "B": (1, 1, 0)}
    assert touched(nest, root) == {"C": (256, 4096, 0), "A": (256, 4096, 0), "B": (256, 4096, 0)}
    by_name = {nest.buffers[b].name: t for b, t in root.touches.items()}
    assert {name: (t.reads, t.writes) for name, t in by_name.items()} == {
        "C": (True, True),
        "A": (True, False),
        "B": (True, False),
    }
    assert statement.is_reduction
    assert (statement.operations.add_sub, statement.operations.mul) == (1, 1)


def test_a_fused_loop_is_seen_through_its_quotients_and_remainders(schedule: Any) -> None:
    i, j, _ = schedule.get_loops(schedule.get_sblock("C"))
    schedule.parallel(schedule.fuse(i, j))

    nest = loop_nest(schedule.mod)
    _, fused, k, _ = nest.nodes

    assert (fused.kind, fused.extent) == ("parallel", 256)
    assert touched(nest, fused) == {"C": (256, 4096, 1), "A": (256, 4096, 0), "B": (256, 4096, 1)}
    assert touched(nest, k) == {"C": (1, 16, 0), "A": (16, 16, 1), "B": (16, 16, 16)}


def test_tiles_touch_their_part_and_annotations_are_kept(schedule: Any) -> None:
    i, j, _ = schedule.get_loops(schedule.get_sblock("C"))
    i0, i1 = schedule.split(i, [4, 4])
    j0, j1 = schedule.split(j, [2, 8])
    schedule.reorder(i0, j0, i1, j1)
    schedule.annotate(i0, "pragma_auto_unroll_max_step", 64)
    schedule.unroll(i1)
    schedule.vectorize(j1)

    nest = loop_nest(schedule.mod)
    loops = nest.nodes[1:-1]

    assert [(n.kind, n.extent) for n in loops] == [
        ("serial", 4),
        ("serial", 2),
        ("unrolled", 4),
        ("vectorized", 8),
        ("serial", 16),
    ]
    assert [n.unroll_steps for n in loops] == [64, 0, 0, 0, 0]
    # A tile of 4 x 8 of C needs 4 rows of A and 8 columns of B.
    assert touched(nest, loops[2]) == {"C": (32, 512, 16), "A": (64, 512, 16), "B": (128, 512, 0)}


def test_loops_of_length_one_are_left_out(schedule: Any) -> None:
    i, j, _ = schedule.get_loops(schedule.get_sblock("C"))
    schedule.split(i, [1, 16])
    schedule.annotate(schedule.split(j, [1, 16])[0], "software_pipeline_stage", [0])

    kinds = [(n.extent, n.pipelined) for n in loop_nest(schedule.mod).nodes[1:-1]]

    assert kinds == [(16, False), (1, True), (16, False), (16, False)]


def test_windows_that_overlap_are_not_counted_twice_and_strides_skip_elements() -> None:
    import tvm
    from tvm import te

    data, weight = te.placeholder((20,), name="D"), te.placeholder((3,), name="W")
    r = te.reduce_axis((0, 3), name="r")
    window = te.compute((8,), lambda i: te.sum(data[i * 2 + r] * weight[r], axis=r), name="O")
    every_other = te.compute((8,), lambda i: data[i * 2], name="E")
    diagonal_of = te.placeholder((8, 8), name="M")
    diagonal = te.compute((8,), lambda i: diagonal_of[i, i], name="G")
    function = te.create_prim_func([data, weight, diagonal_of, window, every_other, diagonal])

    nest = loop_nest(tvm.IRModule({"main": function}))

    outer = [n for n in nest.nodes if n.parent == 0]
    assert touched(nest, outer[0])["D"] == (17, 24, 2)
    assert touched(nest, outer[1])["D"] == (8, 8, 2)
    assert touched(nest, outer[2])["M"] == (8, 8, 9)
    # The root sees the most that any statement touches, and all uses.
    assert touched(nest, nest.nodes[0])["D"] == (17, 32, 0)
    assert nest.nodes[0].bottom_up == 24


def test_an_index_that_cannot_be_read_counts_as_its_whole_dimension() -> None:
    import tvm
    from tvm import te

    table, index = te.placeholder((100,), name="T"), te.placeholder((8,), "int32", name="I")
    gathered = te.compute((8,), lambda i: table[index[i]], name="G")

    nest = loop_nest(tvm.IRModule({"main": te.create_prim_func([table, index, gathered])}))

    assert touched(nest, nest.nodes[1])["T"] == (100, 8, 0)
    assert touched(nest, nest.nodes[1])["I"] == (8, 8, 1)


def test_threads_and_scopes_of_a_gpu_are_told(schedule: Any) -> None:
    block = schedule.get_sblock("C")
    i, j, k = schedule.get_loops(block)
    schedule.bind(i, "blockIdx.x")
    schedule.bind(j, "threadIdx.x")
    schedule.reverse_compute_at(schedule.cache_write(block, 0, "local"), j)
    schedule.compute_at(schedule.cache_read(block, 0, "shared.dyn"), k)

    nest = loop_nest(schedule.mod)

    assert [n.kind for n in nest.nodes[1:3]] == ["block", "thread"]
    assert {b.scope for b in nest.buffers} == {"global", "local", "shared"}
    assert {b.element_bytes for b in nest.buffers} == {4}


def test_threads_that_fetch_together_are_those_around_them(schedule: Any) -> None:
    block = schedule.get_sblock("C")
    i, j, k = schedule.get_loops(block)
    schedule.bind(i, "blockIdx.x")
    schedule.bind(j, "threadIdx.x")
    k0, _ = schedule.split(k, [2, 8])
    fetch = schedule.cache_read(block, 1, "shared")
    schedule.compute_at(fetch, k0)
    # The 8 x 16 elements of B that a step of k0 needs, by 16 threads.
    fused = schedule.fuse(*schedule.get_loops(fetch)[-2:])
    _, lanes = schedule.split(fused, [8, 16])
    schedule.bind(lanes, "threadIdx.x")

    nest = loop_nest(schedule.mod)
    root, blocks, threads, steps, rows = nest.nodes[:5]

    assert [n.kind for n in nest.nodes[1:5]] == ["block", "thread", "serial", "serial"]
    assert [n.extent for n in nest.nodes[1:5]] == [16, 16, 2, 8]
    # One of 16 threads fetches 8 elements a step; all of them, in 2 steps, the whole of B: once per block.
    assert touched(nest, rows)["B"] == (8, 8, 16)
    assert touched(nest, steps)["B"] == (16, 16, 128)
    assert touched(nest, threads)["B"] == (256, 256, 1)
    assert touched(nest, blocks)["B"] == touched(nest, root)["B"] == (256, 4096, 0)


def test_a_program_of_too_many_loops_is_cut(schedule: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nest_module, "MAX_NODES", 3)

    nest = loop_nest(schedule.mod)

    assert [n.kind for n in nest.nodes] == ["root", "serial", "serial"]


def test_functions_are_read_in_the_order_of_their_names() -> None:
    import tvm
    from tvm import te

    def copies(*shape: int) -> Any:
        source = te.placeholder(shape, name="S")
        return te.create_prim_func([source, te.compute(shape, lambda *i: source[i], name="D")])

    # Of one, two and three loops, put in backwards.
    functions = {name: copies(*[4] * count) for name, count in (("c", 3), ("b", 2), ("a", 1))}

    nest = loop_nest(tvm.IRModule(functions))

    assert [n.parent for n in nest.nodes] == [-1, 0, 1, 0, 3, 4, 0, 6, 7, 8]


def test_elements_side_by_side_end_where_a_row_is_not_touched_whole(schedule: Any) -> None:
    _, j, _ = schedule.get_loops(schedule.get_sblock("C"))
    schedule.split(j, [None, 4])

    nest = loop_nest(schedule.mod)
    _, i, outer, inner, k, statement = nest.nodes

    def runs(node: Node) -> dict[str, int]:
        return {nest.buffers[b].name: t.run for b, t in node.touches.items()}

    # All of B lies in one piece; 4 columns of it do not, and k alone walks down a column.
    assert runs(i) == {"C": 256, "A": 256, "B": 256}
    assert runs(outer) == {"C": 16, "A": 16, "B": 256}
    assert runs(inner) == {"C": 4, "A": 16, "B": 4}
    assert runs(k) == {"C": 1, "A": 16, "B": 1}
    assert runs(statement) == {"C": 1, "A": 1, "B": 1}
