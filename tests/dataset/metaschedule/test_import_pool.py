from __future__ import annotations

import json
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import tvm
from tvm.s_tir import meta_schedule as ms

from costhub.dataset.intrinsics import load_intrinsics
from costhub.dataset.metaschedule.import_pool import (
    ImportPool,
    LoadedWorkload,
    ReplayCall,
    ReplayedTrace,
    ReplayedTraces,
    load_workload,
    replay_all,
    replay_recorded,
)
from costhub.dataset.trace import replay, trace_to_json
from costhub.dataset.workload import module_from_json
from costhub.errors import WorkloadError

# Of the right form; TVM 0.27 reads its null as a pointer.
CRASHING = '[[["GetSBlock",[],["C","main"],["b0"]]],[[0,null]]]'
TARGET = '{"kind":"llvm","num-cores":2}'


@pytest.fixture(scope="module")
def schedule(tiny_matmul: Any) -> Any:
    """A program of TVM's own design space, post-processed."""
    load_intrinsics("llvm")
    context = ms.TuneContext(
        module_from_json(tiny_matmul.module_json),
        target=tvm.target.Target(json.loads(TARGET)),
        space_generator="post-order-apply",
        rand_state=3,
    )
    found = context.generate_design_space()[0]
    found.enter_postproc()
    assert all(postproc.apply(found) for postproc in context.space_generator.postprocs)
    return found


def test_an_old_trace_gives_the_program_it_gave(tiny_matmul: Any, old_format: ModuleType, schedule: Any) -> None:
    trace = json.dumps(old_format.old_trace(schedule))

    found = replay_recorded(tiny_matmul.module_json, trace, TARGET)

    assert not found.redone
    assert found.trace == trace_to_json(schedule.trace)
    again = replay(module_from_json(tiny_matmul.module_json), found.trace)
    tvm.ir.assert_structural_equal(again.mod, schedule.mod)


def test_post_processing_that_does_not_replay_is_redone(
    tiny_matmul: Any, old_format: ModuleType, schedule: Any
) -> None:
    instructions, decisions = old_format.old_trace(schedule)
    after = [kind for kind, *_ in instructions].index("EnterPostproc") + 1
    instructions[after:] = [["Unroll", ["l999"], [], []]]

    found = replay_recorded(tiny_matmul.module_json, json.dumps([instructions, decisions]), TARGET)

    assert found.redone
    again = replay(module_from_json(tiny_matmul.module_json), found.trace)
    tvm.ir.assert_structural_equal(again.mod, schedule.mod)


@pytest.mark.parametrize(
    ("trace", "why"),
    [
        ([[["GetBlock", [], ["nothing", "main"], ["b0"]]], []], "does not fit the workload"),
        (
            [[["GetBlock", [], ["nothing", "main"], ["b0"]], ["EnterPostproc", [], [], []]], []],
            "does not fit",
        ),
        ([[["NoSuchKind", [], [], []]], []], "does not fit the workload"),
        ([["GetBlock"], []], "does not consist of instructions and decisions"),
        ([[7], []], "does not consist of instructions and decisions"),
        ([[["GetBlock", [], []]], []], "does not consist of instructions and decisions"),
        ([[["GetBlock", [], ["C", "main"], ["b0"]]], [[7, 0]]], "decisions that belong to none"),
        ([[["GetBlock", [], ["C", "main"], ["b0"]]], [[-1, 0]]], "decisions that belong to none"),
        ([[["GetBlock", [], ["C", "main"], ["b0"]]], [7]], "does not consist of instructions and decisions"),
    ],
)
def test_a_trace_that_cannot_be_replayed_is_refused(tiny_matmul: Any, trace: Any, why: str) -> None:
    with pytest.raises(WorkloadError, match=why):
        replay_recorded(tiny_matmul.module_json, json.dumps(trace), TARGET)


def test_a_decision_that_tvm_replaces_is_refused(tiny_matmul: Any, schedule: Any) -> None:
    instructions, decisions = json.loads(trace_to_json(schedule.trace))
    number, tile = next(each for each in decisions if isinstance(each[1], list))
    other = [*tile[:-1], 7]  # which divides no loop of the workload
    changed = [[number, other] if each[0] == number else each for each in decisions]

    with pytest.raises(WorkloadError, match="replaces its decision"):
        replay_recorded(tiny_matmul.module_json, json.dumps([instructions, changed]), TARGET)


def test_workloads_are_read_and_traces_replayed(tiny_matmul: Any, old_format: ModuleType) -> None:
    line = old_format.workload_line(tiny_matmul.module_json)
    good, bad = tiny_matmul.traces[1], tiny_matmul.bad_trace
    loaded, torn = load_workload(line), load_workload(line[:-5])
    reply = replay_all(tiny_matmul.module_json, json.dumps("llvm -num-cores 2"), (good, bad))
    no_target = replay_all(tiny_matmul.module_json, "null", (good,))

    assert isinstance(loaded, LoadedWorkload)
    assert loaded.row["workload_id"] == tiny_matmul.workload_id
    assert (loaded.row["name"], loaded.row["operator"]) == ("", "matmul")
    assert "cut off" in torn
    assert isinstance(reply, ReplayedTraces)
    assert (reply.target, reply.device_kind) == ('{"kind":"llvm","num-cores":2}', "cpu")
    assert reply.programs[0] == ReplayedTrace(good, False)
    assert "does not fit the workload" in reply.programs[1]
    assert "neither an object nor a string" in no_target


@pytest.fixture(scope="module")
def one_child() -> Iterator[ImportPool]:
    with ImportPool(workers=1) as started:
        yield started


def request(tiny: Any, *traces: str, module_json: str | None = None) -> ReplayCall:
    return (module_json or tiny.module_json, tiny.target, traces)


def test_answers_come_in_order(one_child: ImportPool, tiny_matmul: Any, old_format: ModuleType) -> None:
    line = old_format.workload_line(tiny_matmul.module_json)

    first, second = one_child.load([line, b"nonsense"])
    replies = list(one_child.replay([request(tiny_matmul, trace) for trace in tiny_matmul.traces]))

    assert isinstance(first, LoadedWorkload)
    assert isinstance(second, str)
    found = [reply.programs for reply in replies if isinstance(reply, ReplayedTraces)]
    assert found == [(ReplayedTrace(trace, False),) for trace in tiny_matmul.traces]


@pytest.mark.slow
def test_a_trace_that_brings_tvm_down_costs_only_itself(one_child: ImportPool, tiny_matmul: Any) -> None:
    good = tiny_matmul.traces

    [reply] = one_child.replay([request(tiny_matmul, good[0], CRASHING, good[1])])

    assert isinstance(reply, ReplayedTraces)
    assert reply.programs == (ReplayedTrace(good[0], False), "TVM crashed on it", ReplayedTrace(good[1], False))
    [alone] = one_child.replay([request(tiny_matmul, CRASHING)])
    assert alone == "TVM crashed on it"


@pytest.mark.slow
def test_leaving_does_not_wait_for_what_was_asked(tiny_matmul: Any) -> None:
    with ImportPool(workers=1) as children:
        replies = children.replay([request(tiny_matmul, *tiny_matmul.traces)] * 50)
        next(replies)
    assert sum(isinstance(reply, ReplayedTraces) for reply in replies) < 40
