from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from costhub.dataset.metaschedule.children import Children
from costhub.dataset.metaschedule.replay import Replayed
from costhub.dataset.metaschedule.service import LoadedWorkload, ReplayReply, ReplayRequest

# Of the right form; TVM 0.27 reads its null as a pointer.
CRASHING = '[[["GetSBlock",[],["C","main"],["b0"]]],[[0,null]]]'


@pytest.fixture(scope="module")
def one_child() -> Iterator[Children]:
    with Children(workers=1) as started:
        yield started


def request(tiny: Any, *traces: str, module_json: str | None = None) -> ReplayRequest:
    return ReplayRequest(module_json or tiny.module_json, tiny.target, traces)


def test_answers_come_in_order(one_child: Children, tiny_matmul: Any, old_format: ModuleType) -> None:
    line = old_format.workload_line(tiny_matmul.module_json)

    first, second = one_child.load([line, b"nonsense"])
    replies = list(one_child.replay([request(tiny_matmul, trace) for trace in tiny_matmul.traces]))

    assert isinstance(first, LoadedWorkload)
    assert isinstance(second, str)
    found = [reply.programs for reply in replies if isinstance(reply, ReplayReply)]
    assert found == [(Replayed(trace, False),) for trace in tiny_matmul.traces]


def test_a_trace_that_brings_tvm_down_costs_only_itself(one_child: Children, tiny_matmul: Any) -> None:
    good = tiny_matmul.traces

    [reply] = one_child.replay([request(tiny_matmul, good[0], CRASHING, good[1])])

    assert isinstance(reply, ReplayReply)
    assert reply.programs == (Replayed(good[0], False), "TVM crashed on it", Replayed(good[1], False))
    [alone] = one_child.replay([request(tiny_matmul, CRASHING)])
    assert alone == "TVM crashed on it"


def test_leaving_does_not_wait_for_what_was_asked(tiny_matmul: Any) -> None:
    with Children(workers=1) as children:
        replies = children.replay([request(tiny_matmul, *tiny_matmul.traces)] * 50)
        next(replies)
    assert isinstance(next(replies, "nothing more"), str | ReplayReply)
