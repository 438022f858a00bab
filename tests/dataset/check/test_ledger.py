from __future__ import annotations

from typing import Any

import numpy as np

from costhub.dataset.check.ledger import ENTRY, NO_TIME, entries_of


def test_an_entry_holds_the_numbers_of_its_row(batch: Any) -> None:
    rows = batch(status=["ok", "run_error"], run_s=[[1.0, 3.0, 2.0], []], temperature_c=[40.0, None])
    entries = entries_of(rows, 7)

    assert entries["file"].tolist() == [7, 7]
    assert entries["name"].tolist() == [b"r0", b"r1"]
    np.testing.assert_equal(entries["latency_s"], [2.0, np.nan])
    np.testing.assert_equal(entries["spread"], np.array([3.0, np.nan], np.float32))
    np.testing.assert_equal(entries["temperature_c"], [40.0, np.nan])
    assert entries["time_us"].tolist() == [NO_TIME, NO_TIME]
    assert entries["session"][0] == entries["session"][1]


def test_an_entry_is_small() -> None:
    assert ENTRY.itemsize <= 110


def test_groups_keep_the_order_of_the_rows(ledger: Any) -> None:
    made = ledger(6, file=[0, 0, 1, 1, 0, 1], device=[0, 1, 0, 0, 0, 0])
    within = np.array([True, True, True, True, True, False])

    groups = [rows.tolist() for rows in made.groups("file", "device", within=within)]
    assert groups == [[0, 4], [1], [2, 3]]
    assert list(made.groups("file", within=np.zeros(6, bool))) == []


def test_rows_that_ran_have_a_latency_above_zero(ledger: Any) -> None:
    made = ledger(4, latency_s=[1.0, 0.0, np.nan, np.inf])

    assert made.is_timed.tolist() == [True, False, False, False]
    assert made.mask([np.array([1]), np.array([2])]).tolist() == [False, True, True, False]
