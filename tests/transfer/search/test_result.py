from __future__ import annotations

import pytest

from costhub.transfer.search.result import Meter
from costhub.transfer.search_model import Health
from costhub.transfer.stages import RUNNING


def test_trials_of_before_count_and_take_no_time() -> None:
    told: list[tuple[int, float | None]] = []
    meter = Meter(lambda done, best_us: told.append((done, best_us)))

    meter.known([3e-6, 4e-6, float("inf")])
    with meter.stages.during(RUNNING):
        meter.measured(2e-6, "ok")
        meter.measured(5e-6, "ok")
        meter.measured(None, "build_timeout")

    result = meter.result("w", Health(), 8.0)
    assert (result.trials, result.failures, result.best_us, result.speedup) == (6, 2, pytest.approx(2), 4)
    assert [point[0] for point in result.curve] == [3, 4, 5]
    assert result.curve[0][1] == 0.0 < result.curve[1][1]
    assert result.failed_as == {"build_timeout": 1}
    assert [best for _, best in told] == [pytest.approx(2)] * 3
    assert [done for done, _ in told] == [4, 5, 6]


def test_waiting_for_other_tasks_is_no_time_of_the_search() -> None:
    assert Meter(None).result("w", Health(), None).seconds == 0.0
