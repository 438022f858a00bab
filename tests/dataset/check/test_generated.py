from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costhub.dataset.check.context import Context
from costhub.dataset.check.generated import generated

RNG = np.random.default_rng(0)
REAL = np.exp(RNG.normal(-7, 1.5, 200))


def messages(ledger: Any, latency_s: Any, **columns: Any) -> list[str]:
    made = ledger(len(latency_s), latency_s=latency_s, **columns)
    return [message for message, mask in generated(made, Context()) if mask.any()]


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

    [rows] = [np.flatnonzero(mask) for _, mask in generated(made, Context()) if mask.any()]
    assert rows.tolist() == list(range(200, 400))
