from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.programs import Programs
from costhub.models.batches import Batch, epoch
from costhub.models.scaler import Scaler


@given(st.lists(st.integers(0, 4), max_size=40), st.integers(1, 9), st.integers(1, 5))
def test_every_program_is_drawn_once(workload: list[int], size: int, chunk: int) -> None:
    drawn = list(epoch(np.array(workload, np.int64), size=size, chunk=chunk, rng=np.random.default_rng(0)))

    assert sorted(np.concatenate([np.zeros(0, int), *drawn]).tolist()) == list(range(len(workload)))
    assert all(len(batch) == size for batch in drawn[:-1])


def test_a_batch_holds_many_programs_of_few_workloads() -> None:
    workload = np.random.default_rng(0).permutation(np.repeat(np.arange(20), 32))

    drawn = list(epoch(workload, size=64, chunk=16, rng=np.random.default_rng(0)))

    for batch in drawn:
        assert np.unique(workload[batch]).size <= 4


def test_epochs_differ_and_repeat_with_the_seed() -> None:
    workload = np.zeros(30, np.int64)
    rng = np.random.default_rng(1)
    first, second = (np.concatenate(list(epoch(workload, size=8, chunk=4, rng=rng))) for _ in range(2))
    again = np.concatenate(list(epoch(workload, size=8, chunk=4, rng=np.random.default_rng(1))))

    assert first.tolist() != second.tolist()
    assert first.tolist() == again.tolist()


def test_taking_programs_is_the_same_as_selecting_them(train: Programs) -> None:
    positions = np.array([7, 0, 100, 7])
    scaler = Scaler.fit(train.rows, bins=2)

    taken = Batch.of(train, scaler).take(positions)

    selected = train.select(positions)
    assert taken.rows.numpy() == pytest.approx(scaler(selected.rows))
    assert taken.counts.tolist() == selected.counts.tolist()
    assert taken.group.tolist() == selected.workload.tolist()
    # Not `selected.throughput()`: the best of the workload stays the best of all, not of those taken.
    assert taken.throughput.numpy() == pytest.approx(train.throughput()[positions])
