from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import numpy as np
import torch

from costhub.dataset.programs import Programs
from costhub.models.networks.scaler import Scaler
from costhub.models.training.stream import Stream


def blocks_of(programs: Programs, each: int) -> list[Programs]:
    """Blocks of `each` workloads."""
    ids = programs.workload_ids
    return [programs.of_workloads(set(ids[i : i + each])) for i in range(0, len(ids), each)]


def numbered(programs: int, workloads: int) -> Programs:
    """Programs whose only row says which one it is; their latencies rise with it."""
    number = np.arange(programs)
    return Programs(
        number[:, None].astype(np.float32), np.ones(programs, np.int64), number % workloads,
        tuple(f"w{i}" for i in range(workloads)), 1.0 + number,
    )  # fmt: skip


# What a scaler without bins makes of column 0 is its number again.
PLAIN = Scaler(
    np.zeros(1, np.float32), np.full(1, 1e-3, np.float32), np.zeros(0, np.int64), np.zeros(0, np.float32),
    np.zeros(0, np.float32),
)  # fmt: skip


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
    programs = Programs(
        rows, np.array([2, 0, 2]), np.zeros(3, np.int64), ("w",), np.array([1.0, 2.0, 3.0]), "a@1+b@1"
    )
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
