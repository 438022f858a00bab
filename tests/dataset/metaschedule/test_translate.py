from __future__ import annotations

import base64
import json
from types import ModuleType
from typing import Any

import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from tvm import te

from costhub.dataset.intrinsics import load_intrinsics
from costhub.dataset.metaschedule.translate import read_workload, translate_target, translate_trace
from costhub.dataset.trace import replay, trace_to_json
from costhub.dataset.workload import module_from_json, workload_id
from costhub.errors import WorkloadError


def matmul() -> Any:
    a, b = te.placeholder((32, 32), name="A"), te.placeholder((32, 32), name="B")
    k = te.reduce_axis((0, 32), name="k")
    first = te.compute((32, 32), lambda i, j: a[i, j] + 1.0, name="P")
    product = te.compute((32, 32), lambda i, j: te.sum(first[i, k] * b[k, j], axis=k), name="C")
    last = te.compute((32, 32), lambda i, j: product[i, j] * 2.0, name="D")
    return te.create_prim_func([a, b, last])


def dot() -> Any:
    a, b = te.placeholder((16, 64), "uint8", name="A"), te.placeholder((16, 64), "int8", name="B")
    k = te.reduce_axis((0, 64), name="k")
    product = lambda i, j: te.sum(a[i, k].astype("int32") * b[j, k].astype("int32"), axis=k)  # noqa: E731
    return te.create_prim_func([a, b, te.compute((16, 16), product, name="C")])


def padded() -> Any:
    a = te.placeholder((16,), name="A")
    inside = lambda i: tvm.tirx.if_then_else(tvm.tirx.all(i >= 2, i < 18), a[i - 2], 0.0)  # noqa: E731
    pad = te.compute((20,), inside, name="P")
    return te.create_prim_func([a, te.compute((20,), lambda i: pad[i] * 2.0, name="D")])


def tile(s: Any) -> None:
    i, j, k = s.get_loops("C")
    factors = s.sample_perfect_tile(i, 3, max_innermost_factor=8)
    outer = s.split(i, factors)
    s.split(k, s.sample_partitioned_tile(k, 2, 1, 4))
    block = s.get_sblock("C")
    s.annotate(block, "unroll", s.sample_categorical([1, 2], [0.5, 0.5]))
    s.reorder(j, outer[2])
    s.parallel(s.fuse(*outer[:2]))
    s.unroll(outer[2])
    s.annotate(block, "all", {"a": [1, "two", 0.5]})
    s.unannotate(block, "all")


def move(s: Any) -> None:
    s.compute_at("P", s.sample_compute_location("P", decision=0))
    s.cache_read("C", 1, "shared")
    s.reverse_compute_at(s.cache_write("C", 0, "local"), s.get_loops("C")[0])
    s.reverse_compute_inline("D")
    s.storage_align("P", 0, axis=-2, factor=32, offset=8)
    s.set_scope("P", 0, "shared")
    s.get_output_blocks(s.get_sblock("root"))
    s.add_unit_loop(s.get_sblock("C"))


def reduce(s: Any) -> None:
    loop = s.get_loops("C")[2]
    outer, _ = s.split(loop, [None, 4])
    partial = s.rfactor(outer, 0)
    s.decompose_reduction(partial, s.get_loops(partial)[0])


def layout(s: Any) -> None:
    s.transform_layout("C", ("write", 0), lambda i, j: (i // 4, j, i % 4))
    s.transform_block_layout("P", lambda i, j: (i * 32 + j,))
    s.reindex("D", ("read", 0))


def pad(s: Any) -> None:
    s.reindex("C", ("read", 0))
    s.pad_einsum("C", [5, 1, 1])


def blocks(s: Any) -> None:
    s.blockize(s.get_loops("C")[1])
    s.transform_layout("P", ("write", 0), lambda i, j: (i // 5, j, i % 5), pad_value=0.0)


def tensorize(s: Any) -> None:
    i, j, k = s.get_loops("C")
    outer, inner = s.split(k, [None, 4])
    s.reorder(i, outer, j, inner)
    s.decompose_reduction("C", outer)
    s.tensorize(j, "dot_16x4_vnni")


def decompose(s: Any) -> None:
    s.decompose_padding("P", s.get_loops("P")[0])


CASES = [(f, matmul) for f in (tile, move, reduce, layout, pad, blocks)] + [
    (tensorize, dot),
    (decompose, padded),
]


@pytest.mark.parametrize("dialect", ["0.16", "0.21", "0.23"])
@pytest.mark.parametrize(("schedule_it", "make"), CASES)
def test_an_old_trace_makes_the_program_it_made(
    old_format: ModuleType, schedule_it: Any, make: Any, dialect: str
) -> None:
    load_intrinsics("llvm")
    mod = tvm.IRModule({"main": make().with_attr("global_symbol", "main")})
    schedule = tvm.s_tir.Schedule(mod, seed=1)
    schedule_it(schedule)
    instructions, decisions = old_format.old_trace(schedule, dialect)
    assert any(kind == "GetBlock" for kind, *_ in instructions)

    again = replay(mod, json.dumps([translate_trace(instructions), decisions]))

    tvm.ir.assert_structural_equal(again.mod, schedule.mod)
    assert len(again.trace.insts) == len(schedule.trace.insts)
    # What is stored is the trace of the replayed schedule, and it makes the same program once more.
    tvm.ir.assert_structural_equal(replay(mod, trace_to_json(again.trace)).mod, schedule.mod)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["Fuse", ["l0", "l1"], [], ["l2"]], ["Fuse", ["l0", "l1"], [1], ["l2"]]),
        (["Split", ["l0", 2, 4], [], ["l1", "l2"]], ["Split", ["l0", 2, 4], [1, 0], ["l1", "l2"]]),
        (["Split", ["l0", 2, 4], [0], ["l1", "l2"]], ["Split", ["l0", 2, 4], [0, 0], ["l1", "l2"]]),
        (["ComputeAt", ["b0", "l0"], [0], []], ["ComputeAt", ["b0", "l0"], [0, -1], []]),
        (["Tensorize", ["b0"], ["vnni"], []], ["Tensorize", ["b0"], ["vnni", 1], []]),
        (["Blockize", ["l0"], [], ["b1"]], ["Blockize", ["l0"], [1], ["b1"]]),
        (["CacheRead", ["b0"], [0, "x"], ["b1"]], ["CacheRead", ["b0", []], [0, "x"], ["b1"]]),
        (["CacheWrite", ["b0", ["b1"]], [0, "x"], ["b2"]], ["CacheWrite", ["b0", ["b1"]], [0, "x"], ["b2"]]),
        (["TransformLayout", ["b0"], [0, 1, "m"], []], ["TransformLayout", ["b0", "m"], [0, 1, None, 0], []]),
        (
            ["TransformLayout", ["b0"], [0, 1, "m", "pad"], []],
            ["TransformLayout", ["b0", "m"], [0, 1, "pad", 0], []],
        ),
        (["Annotate", ["b0", '"{}"'], ["x"], []], ["Annotate", ["b0", '"{}"'], ["x"], []]),
        (["Annotate", ["b0", "{x"], ["x"], []], ["Annotate", ["b0", "{x"], ["x"], []]),
    ],
)
def test_attributes_that_came_later_say_what_was_done_before(old: list[Any], new: list[Any]) -> None:
    assert translate_trace([old]) == [new]
    assert translate_trace([new]) == [new]


def test_an_object_that_cannot_be_rebuilt_is_refused() -> None:
    graph = json.dumps({"root": 0, "nodes": [{"type_key": "tir.Nonsense"}]})

    with pytest.raises(WorkloadError, match=r"tir\.Nonsense"):
        translate_trace([["TransformLayout", ["b0", graph], [0, 1, None, 0], []]])


@pytest.mark.parametrize(
    ("old", "new", "device"),
    [
        ("llvm", {"kind": "llvm"}, "cpu"),
        ("llvm -mcpu=znver4 -num-cores 2", {"kind": "llvm", "mcpu": "znver4", "num-cores": 2}, "cpu"),
        (
            " llvm -keys=arm_cpu,cpu -mattr=+neon,+v8.2a -mtriple=aarch64-linux-gnu ",
            {"kind": "llvm", "keys": ["arm_cpu", "cpu"], "mattr": ["+neon", "+v8.2a"], "mtriple": "aarch64-linux-gnu"},
            "cpu",
        ),
        (
            "cuda -arch=sm_80 -max_threads_per_block=1024 -host=llvm",
            {"kind": "cuda", "arch": "sm_80", "max_threads_per_block": 1024, "host": {"kind": "llvm"}},
            "cuda",
        ),
        ({"kind": "cuda", "arch": "sm_80", "tag": "", "libs": []}, {"kind": "cuda", "arch": "sm_80"}, "cuda"),
        ({"kind": "llvm", "no-such": 1, "mcpu": "znver4"}, {"kind": "llvm", "mcpu": "znver4"}, "cpu"),
        ({"kind": "llvm", "num-cores": "four"}, {"kind": "llvm"}, "cpu"),
    ],
)
def test_a_target_keeps_what_it_says(old: object, new: object, device: str) -> None:
    text, kind = translate_target(json.dumps(old))

    assert (json.loads(text), kind) == (new, device)
    assert translate_target(text) == (text, kind)


@pytest.mark.parametrize("tag", ['"nvidia/nvidia-a100"', '{"tag": "nvidia/nvidia-a100"}'])
def test_a_tag_becomes_what_it_stands_for(tag: str) -> None:
    text, kind = translate_target(tag)

    assert json.loads(text)["arch"] == "sm_80"
    assert json.loads(text)["kind"] == kind == "cuda"


@pytest.mark.parametrize("target", ["null", "[]", "7", '""', '"nonsense -x=1"', '{"kind": 3}', "{}", '{"tag": "x/y"}'])
def test_other_targets_are_refused(target: str) -> None:
    with pytest.raises(WorkloadError):
        translate_target(target)


@pytest.mark.parametrize("dialect", ["0.16", "0.18", "0.21", "0.23"])
def test_a_module_of_old_tvm_is_read(old_format: ModuleType, tiny_matmul: Any, dialect: str) -> None:
    graph = old_format.old_graph(module_from_json(tiny_matmul.module_json), dialect)

    mod, version = read_workload(old_format.workload_line(json.dumps(graph)))

    assert (workload_id(mod), version) == (tiny_matmul.workload_id, f"{dialect}.0")


def test_a_module_of_todays_tvm_is_read(old_format: ModuleType, tiny_matmul: Any) -> None:
    mod, version = read_workload(old_format.workload_line(tiny_matmul.module_json))

    assert workload_id(mod) == tiny_matmul.workload_id
    assert version is not None
    assert version.startswith("0.27")


@pytest.mark.parametrize("odd", ["9" * 41, "0.18\x1b[2J", "0.18 of mine", 18, ["0.18"], ""])
def test_a_version_that_none_can_be_is_not_kept(old_format: ModuleType, tiny_matmul: Any, odd: Any) -> None:
    graph = old_format.old_graph(module_from_json(tiny_matmul.module_json), "0.18")
    (graph.get("metadata") or graph["attrs"])["tvm_version"] = odd

    mod, version = read_workload(old_format.workload_line(json.dumps(graph)))

    assert (workload_id(mod), version) == (tiny_matmul.workload_id, None)


def encoded(blob: bytes) -> bytes:
    return json.dumps(["1", base64.b64encode(blob).decode()]).encode()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'["1","aGV', "perhaps it was cut off"),
        (b'["1","*"]', "perhaps it was cut off"),
        (b'["1",3]', "perhaps it was cut off"),
        (b'[0,[[[],[]],[0.001],{"kind":"llvm"},[]]]', "perhaps it was cut off"),
        (b"\xff", "perhaps it was cut off"),
        (encoded(b""), "should have 0 bytes"),
        (encoded((9).to_bytes(8, "little") + b"{}"), "should have 9 bytes and has 2"),
        (encoded((1).to_bytes(8, "little") + b"\xff"), "is not text"),
        (encoded((2).to_bytes(8, "little") + b"[]"), "is not a graph in JSON"),
        (encoded((1).to_bytes(8, "little") + b"{"), "is not a graph in JSON"),
        (encoded((2).to_bytes(8, "little") + b"{}"), "not a TVM module"),
    ],
)
def test_other_lines_are_refused(line: bytes, why: str) -> None:
    with pytest.raises(WorkloadError, match=why):
        read_workload(line)


@given(st.binary(max_size=80))
def test_no_line_raises_anything_else(line: bytes) -> None:
    with pytest.raises(WorkloadError):
        read_workload(line)
