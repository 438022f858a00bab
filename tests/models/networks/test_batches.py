from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.features.combined import combine
from costhub.dataset.programs import Programs
from costhub.errors import DataError
from costhub.models.networks.batches import Examples, Stream, block_sizes, chunks, epoch, parts_of, sample_programs
from costhub.models.networks.scaler import Scaler


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
        train.rows,
        train.counts,
        train.workload,
        train.workload_ids,
        train.latency_s,
        device=devices,
        device_ids=("one", "other"),
    )

    batch = Examples(two, [Scaler.fit(two.rows, bins=0)]).take(np.arange(two.n))

    assert len(set(batch.group.tolist())) == 12
    for group in set(batch.group.tolist()):
        assert batch.throughput[batch.group == group].max() == 1.0


def test_parts_are_taken_apart_and_scaled_by_themselves() -> None:
    rng = np.random.default_rng(0)
    own = [
        (rng.normal(size=(r, d)).astype(np.float32), n)
        for r, d, n in ((6, 3, np.array([1, 2, 3])), (4, 2, np.array([4, 0, 0])))
    ]
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


def blocks_of(programs: Programs, each: int) -> list[Programs]:
    """Blocks of `each` workloads."""
    ids = programs.workload_ids
    return [programs.of_workloads(set(ids[i : i + each])) for i in range(0, len(ids), each)]


def numbered(programs: int, workloads: int) -> Programs:
    """Programs whose only row says which one it is; their latencies rise with it."""
    number = np.arange(programs)
    return Programs(
        number[:, None].astype(np.float32),
        np.ones(programs, np.int64),
        number % workloads,
        tuple(f"w{i}" for i in range(workloads)),
        1.0 + number,
    )


# What a scaler without bins makes of column 0 is its number again.
PLAIN = Scaler(
    np.zeros(1, np.float32),
    np.full(1, 1e-3, np.float32),
    np.zeros(0, np.int64),
    np.zeros(0, np.float32),
    np.zeros(0, np.float32),
)


def numbers(stream: Stream, *, seed: int = 0, size: int = 32, chunk: int = 8) -> list[list[int]]:
    """The programs of each batch of an epoch."""
    drawn = stream.batches(size=size, chunk=chunk, rng=np.random.default_rng(seed))
    return [torch.round(batch.inputs[0][:, 0] * 1000).int().tolist() for batch in drawn]


def test_an_epoch_has_every_program_once_and_as_many_batches_as_it_says() -> None:
    programs = numbered(1000, 10)
    stream = Stream(blocks_of(programs, 3), [PLAIN], programs=1000, buffer_programs=200)

    drawn = numbers(stream)

    assert [len(batch) for batch in drawn] == [32] * 31 + [8]
    assert stream.steps(32) == 32
    assert sorted(number for batch in drawn for number in batch) == list(range(1000))


def test_batches_hold_chunks_of_groups_of_several_blocks_and_their_throughput() -> None:
    programs = numbered(1000, 10)
    stream = Stream(blocks_of(programs, 2), [PLAIN], programs=1000, buffer_programs=500)
    expected = programs.throughput()

    groups = []
    for batch in stream.batches(size=64, chunk=16, rng=np.random.default_rng(0)):
        which = torch.round(batch.inputs[0][:, 0] * 1000).int().numpy()
        assert np.allclose(batch.throughput.numpy(), expected[which])
        # Equal groups are equal workloads.
        assert len(set(zip(batch.group.tolist(), (which % 10).tolist(), strict=True))) == len(set(which % 10))
        groups.append(len(set(which % 10)))

    assert np.mean(groups) > 2.5, "several workloads, of a block of two and others"
    assert max(groups) <= 6, "in chunks, and not one by one"


def test_equal_seeds_give_equal_batches_and_others_others() -> None:
    stream = Stream(blocks_of(numbered(200, 4), 1), [PLAIN], programs=200, buffer_programs=100)

    assert numbers(stream, seed=1) == numbers(stream, seed=1)
    assert numbers(stream, seed=1) != numbers(stream, seed=2)


def test_programs_without_rows_and_composite_specs_pass() -> None:
    rows = np.array([[0, 1, 2], [1, 3, 0], [0, 4, 5], [1, 6, 0]], np.float32)
    programs = Programs(rows, np.array([2, 0, 2]), np.zeros(3, np.int64), ("w",), np.array([1.0, 2.0, 3.0]), "a@1+b@1")
    scalers = [Scaler.fit(rows[::2, 1:], bins=0), Scaler.fit(rows[1::2, 1:2], bins=0)]

    [batch] = Stream([programs], scalers, programs=3).batches(size=8, chunk=4, rng=np.random.default_rng(0))

    assert [tuple(part.shape) for part in batch.inputs] == [(2, 2), (3,), (2, 1), (3,)]


class Wide(Sequence[Programs]):
    """Forty blocks of 2 MB, made when they are asked for."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, number: int) -> Programs:  # type: ignore[override]
        rows = np.full((500, 1000), number, np.float32)
        latency_s = np.arange(1.0, 501.0)
        return Programs(rows, np.ones(500, np.int64), np.zeros(500, np.int64), (f"w{number}",), latency_s)


def test_memory_holds_the_buffer_and_not_the_whole() -> None:
    scaler = Scaler.fit(np.eye(1000, dtype=np.float32), bins=0)
    stream = Stream(Wide(), [scaler], programs=20_000, buffer_programs=1000)

    tracemalloc.start()
    programs = sum(len(b.group) for b in stream.batches(size=100, chunk=50, rng=np.random.default_rng(0)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert programs == 20_000
    assert peak < 20e6, "of 80 MB, those of some ten blocks"


def test_a_sample_is_drawn_from_all_blocks_alike(make_programs: Callable[..., Programs]) -> None:
    train = make_programs(6, noise=0.1)  # so that no two latencies are equal
    blocks = [train.of_workloads({name}) for name in train.workload_ids]

    drawn = [sample_programs(blocks, most=60, seed=seed) for seed in range(30)]

    assert {part.n for part in drawn} == {60}
    # 60 of 240 programs, 30 times: each is drawn 7.5 times on average.
    times = np.array([np.sum([latency in part.latency_s for part in drawn]) for latency in train.latency_s])
    assert 7.0 < times.mean() < 8.0
    assert times.max() < 18
    assert len({part.latency_s.tobytes() for part in drawn}) == 30


def test_what_is_small_is_drawn_whole_and_in_order(train: Programs) -> None:
    blocks = [train.select(np.arange(start, start + 80)) for start in range(0, train.n, 80)]

    drawn = sample_programs(blocks, most=1000, seed=0)

    assert block_sizes(blocks) == (80, 80, 80)
    assert np.array_equal(drawn.rows, train.rows)
    assert np.array_equal(drawn.latency_s, train.latency_s)


def test_no_blocks_are_told() -> None:
    with pytest.raises(DataError, match="no programs to learn from"):
        sample_programs([], most=10, seed=0)
