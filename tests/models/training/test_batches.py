from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.features.combined import combine
from costhub.dataset.programs import Programs
from costhub.models.networks.scaler import Scaler
from costhub.models.training.batches import Examples, chunks, epoch, parts_of


@given(st.lists(st.integers(0, 4), max_size=40), st.integers(1, 9), st.integers(1, 5))
def test_every_program_is_drawn_once(group: list[int], size: int, chunk: int) -> None:
    drawn = list(epoch(np.array(group, np.int64), size=size, chunk=chunk, rng=np.random.default_rng(0)))

    assert sorted(np.concatenate([np.zeros(0, int), *drawn]).tolist()) == list(range(len(group)))
    assert all(len(batch) == size for batch in drawn[:-1])


@given(st.lists(st.integers(0, 4), max_size=40), st.integers(1, 5))
def test_a_chunk_is_of_one_group(group: list[int], size: int) -> None:
    numbers = np.array(group, np.int64)

    found = chunks(numbers, size=size, rng=np.random.default_rng(0))

    assert sorted(np.concatenate([np.zeros(0, int), *found]).tolist()) == list(range(len(group)))
    assert all(len(chunk) <= size and np.unique(numbers[chunk]).size == 1 for chunk in found)
    # No more chunks than needed: only the last one of a group may be short.
    assert len(found) == sum(-(-group.count(number) // size) for number in set(group))


def test_a_batch_holds_many_programs_of_few_groups() -> None:
    group = np.random.default_rng(0).permutation(np.repeat(np.arange(20), 32))

    drawn = list(epoch(group, size=64, chunk=16, rng=np.random.default_rng(0)))

    for batch in drawn:
        assert np.unique(group[batch]).size <= 4


def test_epochs_differ_and_repeat_with_the_seed() -> None:
    group = np.zeros(30, np.int64)
    rng = np.random.default_rng(1)
    first, second = (np.concatenate(list(epoch(group, size=8, chunk=4, rng=rng))) for _ in range(2))
    again = np.concatenate(list(epoch(group, size=8, chunk=4, rng=np.random.default_rng(1))))

    assert first.tolist() != second.tolist()
    assert first.tolist() == again.tolist()


def test_taking_programs_is_the_same_as_selecting_them(train: Programs) -> None:
    positions = np.array([7, 0, 100, 7])
    scaler = Scaler.fit(train.rows, bins=2)

    taken = Examples(train, [scaler]).take(positions)

    selected = train.select(positions)
    rows, counts = taken.inputs
    assert rows.numpy() == pytest.approx(scaler(selected.rows))
    assert counts.tolist() == selected.counts.tolist()
    assert taken.group.tolist() == train.group[positions].tolist()
    # Not `selected.throughput()`: the best of the workload stays the best of all, not of those taken.
    assert taken.throughput.numpy() == pytest.approx(train.throughput()[positions])


def test_the_same_workload_on_two_devices_makes_two_groups(train: Programs) -> None:
    devices = np.arange(train.n) % 2
    two = Programs(
        train.rows, train.counts, train.workload, train.workload_ids, train.latency_s,
        device=devices, device_ids=("one", "other"),
    )  # fmt: skip

    batch = Examples(two, [Scaler.fit(two.rows, bins=0)]).take(np.arange(two.n))

    assert len(set(batch.group.tolist())) == 12
    for group in set(batch.group.tolist()):
        assert batch.throughput[batch.group == group].max() == 1.0


def test_parts_are_taken_apart_and_scaled_by_themselves() -> None:
    rng = np.random.default_rng(0)
    own = [(rng.normal(size=(r, d)).astype(np.float32), n) for r, d, n in
           ((6, 3, np.array([1, 2, 3])), (4, 2, np.array([4, 0, 0])))]  # fmt: skip
    rows, counts = combine(own)
    programs = Programs(rows, counts, np.zeros(3, np.int64), ("w",), np.array([1.0, 2.0, 3.0]))
    scalers = [Scaler.fit(part, bins=1) for part, _ in own]

    found = Examples(programs, scalers).take(np.array([2, 0])).inputs

    assert found[0].numpy() == pytest.approx(scalers[0](own[0][0][[3, 4, 5, 0]]))
    assert found[2].numpy() == pytest.approx(scalers[1](own[1][0]))
    assert (found[1].tolist(), found[3].tolist()) == ([3, 1], [0, 4])


def test_rows_of_a_simple_spec_are_not_copied(train: Programs) -> None:
    ((rows, counts),) = parts_of(train.rows, train.counts, [6])

    assert rows is train.rows
    assert counts is train.counts
