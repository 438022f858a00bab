from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

from costhub.dataset.check.measurements import NO_TIME, CheckContext
from costhub.dataset.check.sessions import (
    backwards,
    busy_machine,
    contradicted_reference,
    disturbed,
    drifting_conditions,
    impossible_conditions,
    impossible_reference,
    impossible_times,
)


def rows(breaches: Any) -> list[int]:
    return sorted({int(row) for _, mask in breaches for row in np.flatnonzero(mask)})


def test_load_is_judged_by_the_cores_of_a_cpu(batch: Any) -> None:
    load = [1.0, 7.9, 8.1, -1.0, float("nan"), None]

    assert rows(busy_machine(batch(load_average=load))) == [2, 3, 4]
    # The host of a GPU has cores of its own, which the table does not know.
    assert rows(busy_machine(batch(load_average=[64.0], devices={"kind": "cuda"}))) == []


def test_clocks_and_temperatures_that_no_device_has(batch: Any) -> None:
    clock = [2600.0, 0.0, 2.6e9, None, None, None]
    temperature = [None, None, None, 330.0, -10.0, float("nan")]

    assert rows(impossible_conditions(batch(clock_mhz=clock, temperature_c=temperature))) == [1, 2, 3, 5]


@pytest.mark.parametrize(("slow", "count"), [(2500.0, 0), (1500.0, 0), (800.0, 40)])
def test_a_clock_that_moves_within_a_session(ledger: Any, slow: float, count: int) -> None:
    clock = np.where(np.arange(40) % 2, 2600.0, slow)

    assert len(rows(drifting_conditions(ledger(40, clock_mhz=clock), CheckContext()))) == count
    # In sessions of their own the clocks may be what they are.
    apart = ledger(40, clock_mhz=clock, session=np.arange(40) % 2)
    assert rows(drifting_conditions(apart, CheckContext())) == []


def test_a_temperature_that_moves_within_a_session(ledger: Any) -> None:
    made = ledger(40, temperature_c=np.linspace(30, 95, 40))

    assert len(rows(drifting_conditions(made, CheckContext()))) == 40


def test_a_reference_that_is_slow_or_impossible(batch: Any) -> None:
    assert rows(disturbed(batch(reference_drift=[0.0, 0.49, 0.51, -0.31, None]))) == [2, 3]
    made = batch(reference_s=[1e-3, 0.0, float("inf"), None], reference_drift=[0.0, 0.0, 0.0, -1.5])
    assert rows(impossible_reference(made)) == [1, 2, 3]


def test_a_drift_that_contradicts_its_session(ledger: Any) -> None:
    drift = np.linspace(0.0, 0.4, 30)
    reference_s = 1e-3 * (1 + drift)
    drift[7] = 0.8
    made = ledger(30, drift=drift, reference_s=reference_s)

    assert rows(contradicted_reference(made, CheckContext())) == [7]


def test_a_baseline_may_fall_but_not_rise(ledger: Any) -> None:
    falling = np.repeat([3e-3, 2e-3, 1e-3], 10)

    assert rows(contradicted_reference(ledger(30, drift=0.0, reference_s=falling), CheckContext())) == []
    rising = ledger(30, drift=0.0, reference_s=falling[::-1])
    assert rows(contradicted_reference(rising, CheckContext())) == [*range(10), *range(20, 30)]


def test_times_before_tvm_or_after_now(batch: Any) -> None:
    now = datetime.now(timezone.utc)
    times = [
        now,
        now + timedelta(hours=20),
        now + timedelta(days=2),
        datetime(2014, 1, 1, tzinfo=timezone.utc),
        None,
    ]

    assert rows(impossible_times(batch(timestamp=times))) == [2, 3]


@pytest.mark.parametrize(
    ("seconds", "columns", "expected"),
    [
        ([0, 100, 200], {}, []),
        ([100, 0, 200], {}, [1]),
        ([30, 0, 200], {}, []),  # clocks are set while machines measure
        ([100, 0, 200], {"workload": [0, 1, 0]}, []),  # shards are sorted by workload
        ([100, 0, 200], {"session": [0, 1, 0]}, []),
        ([100, 0, 200], {"file": [0, 1, 1]}, []),
    ],
)
def test_a_session_that_runs_backwards(ledger: Any, seconds: Any, columns: Any, expected: list[int]) -> None:
    made = ledger(3, time_us=np.array(seconds) * 1_000_000, **columns)

    assert rows(backwards(made, CheckContext())) == expected


def test_rows_without_a_time_are_in_no_order(ledger: Any) -> None:
    assert rows(backwards(ledger(2, time_us=[5_000_000_000, NO_TIME]), CheckContext())) == []
    assert rows(backwards(ledger(0), CheckContext())) == []
