from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from costhub.dataset.check.identities import (
    bad_targets,
    bad_traces,
    foreign_targets,
    misplaced,
    repeated_records,
    repeated_runs,
    unknown_devices,
    unknown_workloads,
    wrong_programs,
)
from costhub.dataset.check.measurements import CheckContext
from costhub.dataset.trace import program_id


def only(found: Any) -> list[int]:
    [(_, mask)] = found
    return np.flatnonzero(mask).tolist()


def test_all_but_the_first_of_a_record_are_found(ledger: Any) -> None:
    made = ledger(5, record=[7, 8, 7, 9, 7], file=[0, 0, 0, 1, 1])

    assert only(repeated_records(made, CheckContext())) == [2, 4]


def test_a_journal_may_hold_what_a_shard_has(ledger: Any) -> None:
    made = ledger(2, record=7)
    made.in_journal[1] = True

    assert only(repeated_records(made, CheckContext())) == []


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ({"program": 1, "run": 5}, [1, 2]),
        ({"program": 1, "run": [5, 6, 7]}, []),
        ({"program": [1, 2, 3], "run": 5}, []),
        ({"program": 1, "run": 5, "device": [0, 1, 2]}, []),
        ({"program": 1, "run": 5, "record": 4}, []),  # that is another rule's
        ({"program": 1, "run": 5, "latency_s": np.nan}, []),  # failures have no repeats to compare
    ],
)
def test_one_measurement_under_two_names(ledger: Any, columns: dict[str, Any], found: list[int]) -> None:
    assert only(repeated_runs(ledger(3, **columns), CheckContext())) == found


def test_ids_are_recomputed_and_looked_up(batch: Any) -> None:
    rows = batch(program_id=[program_id("w0", "[[],[]]"), "p1"], workload_id=["w0", "w1"], device_id=["cpu0", "cpu1"])

    assert only(wrong_programs(rows)) == [1]
    assert only(unknown_workloads(rows)) == [1]
    assert only(unknown_devices(rows)) == [1]
    assert only(misplaced(rows)) == [1]


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
        '[[["GetSBlock",[],["C",null],["b0"]]],[]]',
        '[[["TransformLayout",["b0",null],[2,0,null,0],[]]],[]]',
        '[[["TransformLayout",["b0","{}"],[2,null,null,0],[]]],[]]',
        '[[["TransformLayout",["b0","{}"],[2,0,0,null],[]]],[]]',
        "[[null],[]]",
        "[" * 100_000,
    ],
)
def test_a_trace_of_another_form(batch: Any, trace: str) -> None:
    (_, mask), _ = bad_traces(batch(trace=["[[],[]]", trace]))

    assert mask.tolist() == [False, True]


def test_a_change_of_layout_that_pads_nothing_has_null_for_the_padding(batch: Any) -> None:
    index_map = '"{\\"root_index\\":1,\\"nodes\\":[{\\"type\\":\\"tirx.IndexMap\\"}]}"'

    found = bad_traces(batch(trace=[f'[[["TransformLayout",["b0",{index_map}],[2,0,null,0],[]]],[]]']))
    assert not any(mask.any() for _, mask in found)


def test_a_trace_that_brings_code_is_found_and_one_that_unrolls_is_not(batch: Any) -> None:
    keys = ("pragma_auto_unroll_max_step", "pragma_import_llvm", "meta_schedule.parallel")
    traces = [json.dumps([[["Annotate", ["b0", 16], [key], []]], []]) for key in keys]

    (_, other), (message, mask) = bad_traces(batch(trace=[*traces, "{"]))

    assert "brings code" in message
    assert mask.tolist() == [False, True, False, False]
    assert other.tolist() == [False, False, False, True]


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
