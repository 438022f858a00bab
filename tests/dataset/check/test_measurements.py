from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.check.measurements import ENTRY, NO_TIME, CheckContext, WorkloadFacts, entries_of


def test_columns_end_with_nan_for_what_is_unknown() -> None:
    facts = WorkloadFacts("w0", 1e6, 1e3, True)
    context = CheckContext({"cpu0": {"cores": 2}, "cpu1": {}}, {"w0": facts})

    np.testing.assert_equal(context.device_column("cores"), [2, np.nan, np.nan])
    np.testing.assert_equal(context.workload_column("flop"), [1e6, np.nan])
    assert context.device_ids().to_pylist() == ["cpu0", "cpu1"]
    assert context.workload_ids().to_pylist() == ["w0"]


def test_nothing_known_is_a_context_too() -> None:
    assert CheckContext().device_ids().type == "string"
    np.testing.assert_equal(CheckContext().workload_column("bytes"), [np.nan])


RUNS = st.lists(st.lists(st.floats(1e-9, 1e3), max_size=6), min_size=1, max_size=20)


def test_repeats_are_reduced_row_by_row(batch: Any) -> None:
    @given(run_s=RUNS)
    def check(run_s: list[list[float]]) -> None:
        rows = batch(run_s=run_s)
        for found, reduce in (
            (rows.latency_s, np.median),
            (rows.fastest_s, np.min),
            (rows.slowest_s, np.max),
        ):
            np.testing.assert_equal(found, [float(reduce(run)) if run else np.nan for run in run_s])

    check()


def test_a_null_repeat_makes_no_latency(batch: Any) -> None:
    assert np.isnan(batch(run_s=[[1.0, None, 2.0]]).latency_s).all()


def test_positions_of_workload_and_device_are_minus_one_where_unknown(batch: Any) -> None:
    rows = batch(workload_id=["w0", "w9"], device_id=["cpu9", "cpu0"])

    assert rows.workload.tolist() == [0, -1]
    assert rows.device.tolist() == [-1, 0]


def test_hashes_tell_rows_apart_and_agree_across_processes(batch: Any) -> None:
    rows = batch(record_id=["a", "b", "a"])
    hashes = rows.hashes("record_id")

    assert hashes[0] == hashes[2] != hashes[1]
    assert int(batch(record_id=["a"]).hashes("record_id")[0]) == int(hashes[0])
    assert int(hashes[0]) == 6272302100373100518


def test_nulls_are_nan_and_false(batch: Any) -> None:
    rows = batch(build_s=[1.5, None], licence=["MIT", None])

    np.testing.assert_equal(rows.floats("build_s"), [1.5, np.nan])
    assert rows.is_null("licence").tolist() == [False, True]
    assert rows.texts("licence") == ["MIT", None]


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
