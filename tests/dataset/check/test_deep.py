from __future__ import annotations

from typing import Any

import numpy as np

from costhub.dataset.check.deep import DRAWN_PROGRAMS, FASTEST_PROGRAMS, sample_programs


def test_the_fastest_and_some_others_are_sampled(ledger: Any) -> None:
    latency_s = np.arange(1, 41) * 1e-3
    latency_s[0] = np.nan
    program = np.arange(40)[::-1].copy()
    made = ledger(40, latency_s=latency_s, program=program)

    found = sample_programs(made)
    assert found[:FASTEST_PROGRAMS] == [1, 2, 3, 4]
    assert found[FASTEST_PROGRAMS:] == list(range(40 - DRAWN_PROGRAMS, 40))


def test_every_workload_on_every_device_is_sampled(ledger: Any) -> None:
    made = ledger(30, workload=np.arange(30) % 3, device=np.arange(30) // 15)
    pairs = {(int(made["workload"][row]), int(made["device"][row])) for row in sample_programs(made)}

    assert len(pairs) == 6


def test_what_is_not_described_is_not_sampled(ledger: Any) -> None:
    assert sample_programs(ledger(5, workload=-1)) == []
    assert sample_programs(ledger(0)) == []
