from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costhub.dataset.check.context import Context
from costhub.dataset.check.identities import (
    misplaced,
    repeated_records,
    repeated_runs,
    unknown_devices,
    unknown_workloads,
    wrong_programs,
)
from costhub.dataset.trace import program_id


def only(found: Any) -> list[int]:
    [(_, mask)] = found
    return np.flatnonzero(mask).tolist()


def test_all_but_the_first_of_a_record_are_found(ledger: Any) -> None:
    made = ledger(5, record=[7, 8, 7, 9, 7], file=[0, 0, 0, 1, 1])

    assert only(repeated_records(made, Context())) == [2, 4]


def test_a_journal_may_hold_what_a_shard_has(ledger: Any) -> None:
    made = ledger(2, record=7)
    made.in_journal[1] = True

    assert only(repeated_records(made, Context())) == []


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
    assert only(repeated_runs(ledger(3, **columns), Context())) == found


def test_ids_are_recomputed_and_looked_up(batch: Any) -> None:
    rows = batch(
        program_id=[program_id("w0", "[[],[]]"), "p1"], workload_id=["w0", "w1"], device_id=["cpu0", "cpu1"]
    )

    assert only(wrong_programs(rows)) == [1]
    assert only(unknown_workloads(rows)) == [1]
    assert only(unknown_devices(rows)) == [1]
    assert only(misplaced(rows)) == [1]
