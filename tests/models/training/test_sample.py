from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.errors import DataError
from costhub.models.training.sample import block_sizes, sample_programs


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
