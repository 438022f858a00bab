from __future__ import annotations

import math

import numpy as np
import pytest

from costhub.transfer.controller.batch import Batch, best_after


def test_a_failed_program_is_not_ok_and_never_the_best() -> None:
    batches = [Batch(np.array(ms), np.zeros(2)) for ms in ([np.inf, np.inf], [np.inf, 2.0], [3.0, 1.0])]

    assert [batch.is_ok.sum() for batch in batches] == [0, 1, 2]
    assert best_after(batches).tolist() == [math.inf, 2.0, 1.0]


def test_nothing_waits_where_nothing_is_said() -> None:
    assert Batch(np.ones(1), np.zeros(1)).waiting == -math.inf


@pytest.mark.parametrize(("latencies", "scores"), [((2,), (3,)), ((0,), (0,)), ((2, 1), (2, 1))])
def test_a_batch_has_a_score_for_each_program(latencies: tuple[int], scores: tuple[int]) -> None:
    with pytest.raises(ValueError, match="one latency and one score"):
        Batch(np.ones(latencies), np.ones(scores))
