"""Schedules as text: replaying a trace gives the program it was taken from."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import tvm
from tvm import tirx

from costhub.collector.propose.sampler import Sampler
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.trace import (
    MAX_TRACE_CHARACTERS,
    before_postproc,
    brings_code,
    check_positions,
    decision_pairs,
    program_id,
    read_trace,
    replay,
    trace_to_json,
)
from costhub.dataset.workload import module_from_json, module_to_json
from costhub.errors import WorkloadError

TARGET = '{"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}'


@pytest.mark.parametrize("name", ["matmul.128x128x128", "softmax.64x1000", "depthwise.7x1024"])
def test_a_replayed_trace_gives_the_same_program(name: str) -> None:
    import tvm
    import tvm_ffi

    mod = find_workload(name).module()
    for program in Sampler(mod, TARGET, seed=1).random(3):
        again = replay(mod, program.trace)
        assert tvm_ffi.structural_equal(again.mod, tvm.ir.load_json(program.module_json))
        assert trace_to_json(again.trace) == program.trace
        assert module_to_json(again.mod)


def test_ids_tell_workloads_and_traces_apart() -> None:
    assert len({program_id("w", "t"), program_id("v", "t"), program_id("w", "u")}) == 3


@pytest.mark.parametrize("text", ["", "[]", "3", "[[], [], []]", '[[["GetBlock",[],["C","main"],["b0"]]],[]]'])
def test_a_trace_that_does_not_fit_is_a_sentence(text: str) -> None:
    with pytest.raises(WorkloadError, match="trace"):
        replay(find_workload("matmul.128x128x128").module(), text)


@pytest.mark.parametrize("number", [-1, 1, 10**6])
def test_a_decision_of_no_instruction_does_not_reach_tvm(number: int) -> None:
    text = f'[[["GetSBlock",[],["C","main"],["b0"]]],[[{number},0]]]'

    with pytest.raises(WorkloadError, match="decisions that belong to none of its instructions"):
        replay(find_workload("matmul.128x128x128").module(), text)


@pytest.mark.parametrize("tile", [0, -1, 2.5, None, [2]])
def test_a_tile_that_divides_nothing_does_not_reach_tvm(tile: Any) -> None:
    mod = find_workload("matmul.128x128x128").module()
    instructions, decisions = json.loads(Sampler(mod, TARGET, seed=1).random(1)[0].trace)
    at, tiles = next(decision for decision in decisions if isinstance(decision[1], list))
    spoiled = [[number, [tile, *tiles[1:]] if number == at else other] for number, other in decisions]

    with pytest.raises(WorkloadError, match="a tile that is not a positive whole number"):
        replay(mod, json.dumps([instructions, spoiled]))


@pytest.mark.parametrize(
    ("instructions", "is_refused"),
    [
        ([["GetLoops", [], [], []]] * 2000, False),
        ([["GetLoops", [], [], []]] * 2001, True),
        ([["Split", [], [], ["l1"] * 1000], ["Split", [], [], ["l1"] * 1000]], False),
        ([["Split", [], [], ["l1"] * 1000], ["Split", [], [], ["l1"] * 1001]], True),
        ([7, [], ["Split", [], []], ["Split", [], [], 7]], False),
    ],
)
def test_loops_by_the_thousand_do_not_reach_tvm(instructions: list[Any], is_refused: bool) -> None:
    if not is_refused:
        check_positions(instructions, [])
        return
    with pytest.raises(WorkloadError, match="more than 2,000 instructions or results of them"):
        check_positions(instructions, [])


def test_a_trace_is_its_instructions_and_its_decisions() -> None:
    instructions, decisions = [["GetLoops", ["b0"], [], ["l1"]]], [[0, [4, 8]]]
    assert read_trace(json.dumps([instructions, decisions])) == (instructions, decisions)


@pytest.mark.parametrize(
    "text",
    ["", "x", "[[]]", "[[],[],[]]", "[[],{}]", '{"0":[],"1":[]}', "[" * 100_000, " " * (MAX_TRACE_CHARACTERS + 1)],
    ids=["empty", "no JSON", "one list", "three lists", "an object within", "an object", "nested", "long"],
)
def test_any_other_text_is_none(text: str) -> None:
    assert read_trace(text) is None


@pytest.mark.parametrize("odd", [None, 3, "ab", [], [0], [0, 1, 2], ["0", 1], [True, 1], [0.0, 1], {"0": 1}])
def test_what_is_no_pair_of_a_number_and_a_decision_is_left_out(odd: Any) -> None:
    assert decision_pairs([[1, "a"], odd, [2, None]]) == [(1, "a"), (2, None)]


@pytest.mark.parametrize("odd", [None, 3, [], {}, "EnterPostproc", ["Enter"]])
def test_post_processing_begins_with_the_instruction_that_says_so(odd: Any) -> None:
    assert before_postproc([odd, ["EnterPostproc"], ["EnterPostproc"]]) == 1
    assert before_postproc([odd, odd]) == 2


def test_a_module_that_tvm_cannot_schedule_is_a_sentence() -> None:
    """Loops of 2^62 rounds: TVM refuses them only when a schedule is made."""
    graph = json.loads(module_to_json(find_workload("softmax.64x1000").module()))
    for node in graph["nodes"]:
        if node["type"] == "int" and node["data"] in (64, 1000):
            node["data"] = (1 << 62) - 1

    with pytest.raises(WorkloadError, match="does not fit"):
        replay(module_from_json(json.dumps(graph)), "[[],[]]")


@pytest.mark.parametrize("key", ["pragma_import_llvm", "pragma_import_c", "pragma_anything"])
def test_a_trace_that_brings_code_is_refused(key: str) -> None:
    """The compiler would link the code into the program."""
    mod = find_workload("matmul.128x128x128").module()
    (program,) = Sampler(mod, TARGET, seed=1).random(1)
    instructions, decisions = json.loads(program.trace)
    loop = next(i for i in instructions if i[0] == "GetLoops")[3][0]
    instructions.append(["Annotate", [loop, '"; ModuleID"'], [key], []])

    assert brings_code(instructions)
    with pytest.raises(WorkloadError, match="may bring code of its own"):
        replay(mod, json.dumps([instructions, decisions]))


def with_layout(index: Callable[..., Any], padding: Any) -> tuple[Any, str]:
    """A softmax, and a trace that changes the layout of its exponentials."""
    mod = find_workload("softmax.64x1000").module()
    schedule = tvm.s_tir.Schedule(mod)
    schedule.transform_layout(schedule.get_sblock("T_softmax_exp"), ("write", 0), index, pad_value=padding)
    return mod, trace_to_json(schedule.trace)


def system(*_: Any) -> Any:
    return tirx.call_extern("float32", "system", "touch canary")


def tiles(i: Any, j: Any) -> tuple[Any, ...]:
    return i, j // 16, j % 16


@pytest.mark.parametrize("padding", [0.0, lambda i, j, k: tirx.Select(k > 7, 1.0, 2.0) * 0.5])
def test_a_layout_of_arithmetic_is_replayed(padding: Any) -> None:
    mod, trace = with_layout(tiles, padding)

    assert "TransformLayout" in trace
    assert trace_to_json(replay(mod, trace).trace) == trace


@pytest.mark.parametrize("blank", ["", " ", "\n"])
def test_a_layout_that_calls_a_function_is_refused(blank: str) -> None:
    """The call would run with the program; TVM skips blanks before an object."""
    mod, trace = with_layout(tiles, system)
    instructions, decisions = json.loads(trace)
    change = next(each for each in instructions if each[0] == "TransformLayout")
    change[2] = [blank + value if isinstance(value, str) else value for value in change[2]]

    with pytest.raises(WorkloadError, match="may bring code of its own"):
        replay(mod, json.dumps([instructions, decisions]))


def test_a_type_that_is_written_twice_is_not_taken_for_the_harmless_one() -> None:
    graph = '{"root_index": 0, "nodes": [{"type": "ir.IntImm", "type": "ir.Call"}]}'
    assert brings_code([["TransformLayout", ["b0", graph], [0, 1, None, 0], []]])
    assert not brings_code(
        [["TransformLayout", ["b0", '{"root_index": 0, "nodes": [{"type": "ir.IntImm"}]}'], [0], []]]
    )


def test_a_call_is_found_however_deep_it_lies() -> None:
    call = '{"root_index": 0, "nodes": [{"type": "ir.Call"}]}'
    deep: Any = {"key": [call]}
    for _ in range(100_000):
        deep = [deep]

    assert brings_code([["TransformLayout", ["b0"], [0, 1, deep, 0], []]])


@pytest.mark.parametrize("kind", ["AnnotateBufferAccess", "UnsafeHideBufferAccess", "UnsafeSetDtype"])
def test_an_instruction_that_tvm_believes_anything_of_is_refused(kind: str) -> None:
    assert brings_code([[kind, ["b0"], [0], []]])


def test_the_annotations_of_metaschedule_import_nothing() -> None:
    mod = find_workload("softmax.64x1000").module()
    for program in Sampler(mod, TARGET, seed=1).random(4):
        assert "Annotate" in program.trace
        assert not brings_code(json.loads(program.trace)[0])
    assert not brings_code(None)


def test_a_trace_nested_too_deep_is_a_sentence() -> None:
    with pytest.raises(WorkloadError, match="not a JSON pair"):
        replay(None, "[" * 100_000)
