from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costhub.dataset.check.context import Context, WorkloadFacts
from costhub.dataset.check.units import wrong_units

WORKLOADS = {f"w{n}": WorkloadFacts(f"w{n}", 1e8, 1e6, True) for n in range(5)}


def files(ledger: Any, context: Context) -> list[int]:
    return sorted({int(f) for _, mask in wrong_units(ledger, context) for f in ledger["file"][mask]})


def made(ledger: Any, *latencies: float, n: int = 50) -> Any:
    """One file for each typical latency, each with n rows of five workloads."""
    rng = np.random.default_rng(0)
    latency_s = np.concatenate([typical * (1 + rng.random(n)) for typical in latencies])
    file = np.repeat(np.arange(len(latencies)), n)
    return ledger(len(latency_s), latency_s=latency_s, file=file, workload=np.arange(len(latency_s)) % 5)


@pytest.mark.parametrize(("factor", "expected"), [(1.0, []), (30.0, []), (1e3, [0]), (1e6, [0])])
def test_a_peak_tells_milliseconds_from_seconds(ledger: Any, factor: float, expected: list[int]) -> None:
    context = Context({"cpu0": {"kind": "cpu", "peak_gflops": 200.0}}, WORKLOADS)

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
    context = Context({"d": {"kind": kind, "cores": cores}}, WORKLOADS)

    assert files(made(ledger, typical_s), context) == expected


def test_a_file_is_compared_with_the_others_of_its_device(ledger: Any) -> None:
    context = Context({"cpu0": {"kind": "cpu", "cores": 1}}, WORKLOADS)

    assert files(made(ledger, 1e-3, 1.0, 1.2e-3), context) == [1]
    assert files(made(ledger, 1e-3, 5e-3, 1.2e-3), context) == []


def test_few_rows_tell_nothing(ledger: Any) -> None:
    context = Context({"cpu0": {"kind": "cpu", "peak_gflops": 200.0}}, WORKLOADS)

    assert files(made(ledger, 1e3, n=19), context) == []
