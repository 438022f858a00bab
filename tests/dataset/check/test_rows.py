from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

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
