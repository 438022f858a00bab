from __future__ import annotations

from typing import Any

import pytest

from costhub.dataset.check.traces import bad_targets, bad_traces, foreign_targets


@pytest.mark.parametrize(
    "trace",
    [
        "{",
        "",
        "[[]]",
        '{"insts": []}',
        '[[["GetSBlock",[],["C","main"],["b0"]]],[[0,null]]]',
        '[[["GetSBlock",[],["C","main"],["b0"]]],[[1,[4]]]]',
        '[[["GetSBlock",[],["C","main"],["b0"]]],[[true,[4]]]]',
        '[[["GetSBlock",[],["C","main"],["b0"]]],[[0.0,[4]]]]',
        '[[["GetSBlock",[],[null,"main"],["b0"]]],[]]',
        '[[["GetSBlock",[]]],[]]',
        "[[null],[]]",
        "[" * 100_000,
    ],
)
def test_a_trace_of_another_form(batch: Any, trace: str) -> None:
    [(_, mask)] = bad_traces(batch(trace=["[[],[]]", trace]))

    assert mask.tolist() == [False, True]


@pytest.mark.parametrize("target", ["llvm -mcpu=znver4", "[]", '{"mcpu": "znver4"}', '{"kind": 1}', ""])
def test_a_target_of_another_form(batch: Any, target: str) -> None:
    rows = batch(target=['{"kind":"llvm"}', target])
    [(_, mask)] = bad_targets(rows)

    assert mask.tolist() == [False, True]
    # What is no target is of no kind.
    assert not next(foreign_targets(rows))[1].any()


@pytest.mark.parametrize(
    ("kind", "target", "foreign"),
    [
        ("cpu", "llvm", False),
        ("cpu", "c", False),
        ("cpu", "cuda", True),
        ("cuda", "cuda", False),
        ("cuda", "llvm", True),
    ],
)
def test_a_target_of_another_kind_of_device(batch: Any, kind: str, target: str, foreign: bool) -> None:
    [(_, mask)] = foreign_targets(batch(target=[f'{{"kind":"{target}"}}'], devices={"kind": kind}))

    assert mask.tolist() == [foreign]
