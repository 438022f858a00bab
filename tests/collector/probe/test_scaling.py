from __future__ import annotations

from costhub.collector.probe.scaling import thread_scaling


def test_speed_is_relative_to_one_thread() -> None:
    assert thread_scaling([40.0, 70.0, 60.0]) == [1.0, 1.75, 1.5]
