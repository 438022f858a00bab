from __future__ import annotations

from costhub.collector.probe.bench import Bench
from costhub.collector.probe.overhead import empty_function, launch_overhead_us


def test_a_call_costs_something_and_less_than_ten_milliseconds(target: str) -> None:
    assert 0 < launch_overhead_us(Bench(target, "cpu", 1), budget_s=0.0) < 10_000


def test_an_empty_program_of_a_gpu_is_bound_to_its_threads() -> None:
    script = empty_function(256).script()

    assert 'T.thread_binding(256, thread="threadIdx.x")' in script
    assert "T.parallel" in empty_function(1).script()
