from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costhub.dataset.check.context import Context
from costhub.dataset.check.repeats import disagreeing_programs, identical_repeats, outlying_repeats


def found(breaches: Any) -> list[int]:
    return sorted({int(row) for _, mask in breaches for row in np.flatnonzero(mask)})


def test_an_outlier_is_judged_by_the_noise_of_its_device(ledger: Any) -> None:
    rng = np.random.default_rng(0)
    quiet, noisy = 1 + 0.05 * rng.random(200), 1 + 3 * rng.random(200)
    quiet[7] = noisy[7] = 40.0

    assert found(outlying_repeats(ledger(200, spread=quiet), Context())) == [7]
    assert found(outlying_repeats(ledger(200, spread=noisy), Context())) == []


def test_many_outliers_do_not_hide_one_another(ledger: Any) -> None:
    spread = np.full(100, 1.02)
    spread[:30] = 1000.0

    assert found(outlying_repeats(ledger(100, spread=spread), Context())) == list(range(30))


@pytest.mark.parametrize(("same", "count"), [(1, 0), (5, 0), (6, 6), (100, 100)])
def test_repeats_alike_in_many_rows(ledger: Any, same: int, count: int) -> None:
    spread = np.where(np.arange(100) < same, 1.0, 1.01)

    assert len(found(identical_repeats(ledger(100, spread=spread), Context()))) == count


def test_few_rows_or_single_repeats_may_be_alike(ledger: Any) -> None:
    assert found(identical_repeats(ledger(19, spread=1.0), Context())) == []
    assert found(identical_repeats(ledger(100, spread=1.0, repeats=1), Context())) == []


@pytest.mark.parametrize(("factor", "device", "expected"), [(7.0, 0, []), (9.0, 0, [1]), (9.0, 1, [])])
def test_a_program_measured_twice(ledger: Any, factor: float, device: int, expected: list[int]) -> None:
    made = ledger(3, program=[5, 5, 6], latency_s=[1e-3, 1e-3 * factor, 1.0], device=[0, device, 0])

    assert found(disagreeing_programs(made, Context())) == expected


def test_no_rows_are_no_breach(ledger: Any) -> None:
    for rule in (outlying_repeats, identical_repeats, disagreeing_programs):
        assert found(rule(ledger(0), Context())) == []
