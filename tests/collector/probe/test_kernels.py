"""The probe's kernels: what they compile to, how often they are called, the clock and the overhead."""

from __future__ import annotations

import json
import platform
import re

import numpy as np
import pytest

from costhub.collector.probe.kernels import (
    CALL_S,
    MIN_CALLS,
    PAIRS_PER_ROUND,
    PATIENCE,
    ProbeDevice,
    architecture_of,
    assembly_of,
    clock_function,
    clock_ghz,
    compile_for,
    empty_function,
    highest_rate,
    launch_overhead_us,
    target_of,
)


def test_a_gpu_has_threads_inside_its_workers() -> None:
    assert ProbeDevice("{}", "cpu", 4).threads == 1
    assert ProbeDevice("{}", "cuda", 4).threads > 1


def test_a_target_is_made_once(target: str) -> None:
    assert target_of(target) is target_of(target)
    assert ProbeDevice(target, "cpu", 1).made_target.kind.name == "llvm"


def test_architectures_have_one_name() -> None:
    assert architecture_of('{"kind": "llvm", "mtriple": "arm64-apple-macos"}') == "aarch64"
    assert architecture_of('{"kind": "llvm", "mtriple": "x86_64-conda-linux-gnu"}') == "x86_64"
    assert architecture_of('{"kind": "llvm"}')


def test_code_for_another_architecture_can_be_looked_at() -> None:
    arm = json.dumps({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "neoverse-n1"})

    assert "eor" in assembly_of(clock_function(), arm)


def test_each_worker_does_its_own_part(target: str) -> None:
    import tvm

    out = tvm.runtime.tensor(np.zeros(4, "float32"))

    seconds = compile_for(empty_function(1), ProbeDevice(target, "cpu", 3)).seconds((3, out))

    assert out.numpy().tolist() == [1, 1, 1, 0]
    assert seconds > 0


def test_without_time_the_least_number_of_calls_is_made() -> None:
    calls = []

    def run(rounds: int) -> float:
        calls.append(rounds)
        return rounds * CALL_S

    assert highest_rate(run, budget_s=0.0) == 1 / CALL_S
    assert calls == [1] * MIN_CALLS


def test_calls_get_long_enough_for_the_clock_before_they_count() -> None:
    calls = []

    def run(rounds: int) -> float:
        calls.append(rounds)
        return 1e-6 + rounds * 1e-9  # 1 us to start a call

    rate = highest_rate(run, budget_s=0.0)

    assert 0.999e9 < rate < 1e9
    assert calls[-MIN_CALLS] * 1e-9 > CALL_S / 2
    assert len(calls) < 20


def test_a_first_call_that_was_disturbed_does_not_set_the_length() -> None:
    seconds = iter([1.0])  # another program ran; it takes 1 us by itself

    rate = highest_rate(lambda rounds: next(seconds, 1e-6 * rounds), budget_s=0.0)

    assert abs(rate - 1e6) < 1


def test_the_best_call_counts_and_patience_ends_it() -> None:
    calls = []

    def run(rounds: int) -> float:
        calls.append(rounds)
        return 0.01 if len(calls) == 7 else 0.02

    assert highest_rate(run, budget_s=60.0) == 100.0
    assert len(calls) == 7 + PATIENCE


def test_a_clock_of_today_is_found(target: str) -> None:
    assert 0.2 < clock_ghz(ProbeDevice(target, "cpu", 1), budget_s=0.2) < 10


def test_nothing_of_the_chain_is_computed_beforehand(target: str) -> None:
    import tvm

    values = tvm.runtime.tensor(np.array([3, 5, 7], "int64"))
    compile_for(clock_function(), ProbeDevice(target, "cpu", 1)).seconds((2, values))

    expected = 3
    for _ in range(2 * PAIRS_PER_ROUND):
        expected = (expected + 5) ^ 7
    assert values.numpy()[0] == expected


@pytest.mark.skipif(platform.machine() != "x86_64", reason="assembly of x86")
def test_every_operation_of_the_chain_is_in_the_code(target: str) -> None:
    assembly = assembly_of(clock_function(), target)

    assert len(re.findall(r"\txorq\t", assembly)) >= PAIRS_PER_ROUND


def test_a_call_costs_something_and_less_than_ten_milliseconds(target: str) -> None:
    assert 0 < launch_overhead_us(ProbeDevice(target, "cpu", 1), budget_s=0.0) < 10_000


def test_an_empty_program_of_a_gpu_is_bound_to_its_threads() -> None:
    script = empty_function(256).script()

    assert 'T.thread_binding(256, thread="threadIdx.x")' in script
    assert "T.parallel" in empty_function(1).script()
