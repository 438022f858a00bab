from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costhub.dataset.check.latencies import (
    disagreeing_programs,
    generated,
    identical_repeats,
    outlying_repeats,
    wrong_units,
)
from costhub.dataset.check.measurements import CheckContext, WorkloadFacts

WORKLOADS = {f"w{n}": WorkloadFacts(f"w{n}", 1e8, 1e6, True) for n in range(5)}


def files(ledger: Any, context: CheckContext) -> list[int]:
    return sorted({int(f) for _, mask in wrong_units(ledger, context) for f in ledger["file"][mask]})


def made(ledger: Any, *latencies: float, n: int = 50) -> Any:
    """One file for each typical latency, each with n rows of five workloads."""
    rng = np.random.default_rng(0)
    latency_s = np.concatenate([typical * (1 + rng.random(n)) for typical in latencies])
    file = np.repeat(np.arange(len(latencies)), n)
    return ledger(len(latency_s), latency_s=latency_s, file=file, workload=np.arange(len(latency_s)) % 5)


@pytest.mark.parametrize(("factor", "expected"), [(1.0, []), (30.0, []), (1e3, [0]), (1e6, [0])])
def test_a_peak_tells_milliseconds_from_seconds(ledger: Any, factor: float, expected: list[int]) -> None:
    context = CheckContext({"cpu0": {"kind": "cpu", "peak_gflops": 200.0}}, WORKLOADS)

    assert files(made(ledger, 1e-3 * factor), context) == expected


@pytest.mark.parametrize(
    ("kind", "cores", "typical_s", "expected"),
    [
        ("cuda", 132, 20e-6, []),
        ("cuda", 132, 20e-3, [0]),
        ("cuda", 1, 20e-3, []),  # a board
        ("cpu", 4, 0.5, []),  # another board
        ("cpu", None, 1e3, [0]),
    ],
)
def test_an_unknown_peak_is_at_least_that_of_its_cores(
    ledger: Any, kind: str, cores: int | None, typical_s: float, expected: list[int]
) -> None:
    context = CheckContext({"d": {"kind": kind, "cores": cores}}, WORKLOADS)

    assert files(made(ledger, typical_s), context) == expected


def test_a_file_is_compared_with_the_others_of_its_device(ledger: Any) -> None:
    context = CheckContext({"cpu0": {"kind": "cpu", "cores": 1}}, WORKLOADS)

    assert files(made(ledger, 1e-3, 1.0, 1.2e-3), context) == [1]
    assert files(made(ledger, 1e-3, 5e-3, 1.2e-3), context) == []


def test_few_rows_tell_nothing(ledger: Any) -> None:
    context = CheckContext({"cpu0": {"kind": "cpu", "peak_gflops": 200.0}}, WORKLOADS)

    assert files(made(ledger, 1e3, n=19), context) == []


def found(breaches: Any) -> list[int]:
    return sorted({int(row) for _, mask in breaches for row in np.flatnonzero(mask)})


def test_an_outlier_is_judged_by_the_noise_of_its_device(ledger: Any) -> None:
    rng = np.random.default_rng(0)
    quiet, noisy = 1 + 0.05 * rng.random(200), 1 + 3 * rng.random(200)
    quiet[7] = noisy[7] = 40.0

    assert found(outlying_repeats(ledger(200, spread=quiet), CheckContext())) == [7]
    assert found(outlying_repeats(ledger(200, spread=noisy), CheckContext())) == []


def test_many_outliers_do_not_hide_one_another(ledger: Any) -> None:
    spread = np.full(100, 1.02)
    spread[:30] = 1000.0

    assert found(outlying_repeats(ledger(100, spread=spread), CheckContext())) == list(range(30))


@pytest.mark.parametrize(("same", "count"), [(1, 0), (5, 0), (6, 6), (100, 100)])
def test_repeats_alike_in_many_rows(ledger: Any, same: int, count: int) -> None:
    spread = np.where(np.arange(100) < same, 1.0, 1.01)

    assert len(found(identical_repeats(ledger(100, spread=spread), CheckContext()))) == count


def test_few_rows_or_single_repeats_may_be_alike(ledger: Any) -> None:
    assert found(identical_repeats(ledger(19, spread=1.0), CheckContext())) == []
    assert found(identical_repeats(ledger(100, spread=1.0, repeats=1), CheckContext())) == []


@pytest.mark.parametrize(("factor", "device", "expected"), [(7.0, 0, []), (9.0, 0, [1]), (9.0, 1, [])])
def test_a_program_measured_twice(ledger: Any, factor: float, device: int, expected: list[int]) -> None:
    made = ledger(3, program=[5, 5, 6], latency_s=[1e-3, 1e-3 * factor, 1.0], device=[0, device, 0])

    assert found(disagreeing_programs(made, CheckContext())) == expected


def test_no_rows_are_no_breach(ledger: Any) -> None:
    for rule in (outlying_repeats, identical_repeats, disagreeing_programs):
        assert found(rule(ledger(0), CheckContext())) == []


RNG = np.random.default_rng(0)
REAL = np.exp(RNG.normal(-7, 1.5, 200))


def messages(ledger: Any, latency_s: Any, **columns: Any) -> list[str]:
    made = ledger(len(latency_s), latency_s=latency_s, **columns)
    return [message for message, mask in generated(made, CheckContext()) if mask.any()]


@pytest.mark.parametrize(
    ("latency_s", "word"),
    [
        (np.full(200, 1.23456e-3), "the very same latency"),
        (np.where(np.arange(200) < 30, 1.23456e-3, REAL), "the very same latency"),
        (np.array([float(f"{s:.2g}") for s in REAL[:60]]) * 1.0, "digits"),
        (np.repeat([1.2345678, 2.3456789, 3.4567891], 10) * 10.0 ** -(np.arange(30) % 10.0), "exponent"),
        (1.2345678e-3 + 1.7e-6 * np.arange(40), "even steps"),
        (RNG.permutation(1.2345678e-5 * 1.0371 ** np.arange(40)), "even steps"),
    ],
)
def test_patterns_that_no_measurement_has(ledger: Any, latency_s: Any, word: str) -> None:
    assert any(word in message for message in messages(ledger, latency_s))


@pytest.mark.parametrize(
    "latency_s",
    [
        REAL,
        REAL[:19] * 0 + 1e-3,  # too few to tell
        np.where(np.arange(200) < 5, 1e-3, REAL),
        np.round(REAL / 32e-9) * 32e-9 + 1e-12,  # the timer of a GPU
        [],
    ],
)
def test_what_measurements_look_like(ledger: Any, latency_s: Any) -> None:
    assert messages(ledger, latency_s) == []


def test_files_and_workloads_are_looked_at_one_by_one(ledger: Any) -> None:
    made = ledger(400, latency_s=np.concatenate([REAL, np.full(200, 1e-3)]), file=np.repeat([0, 1], 200))

    [rows] = [np.flatnonzero(mask) for _, mask in generated(made, CheckContext()) if mask.any()]
    assert rows.tolist() == list(range(200, 400))
