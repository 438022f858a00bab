from __future__ import annotations

from costhub.collector.probe.stable import CALL_S, LEAST_CALLS, PATIENCE, highest_rate


def test_without_time_the_least_number_of_calls_is_made() -> None:
    calls = []

    def run(rounds: int) -> float:
        calls.append(rounds)
        return rounds * CALL_S

    assert highest_rate(run, budget_s=0.0) == 1 / CALL_S
    assert calls == [1] * LEAST_CALLS


def test_calls_get_long_enough_for_the_clock_before_they_count() -> None:
    calls = []

    def run(rounds: int) -> float:
        calls.append(rounds)
        return 1e-6 + rounds * 1e-9  # 1 us to start a call

    rate = highest_rate(run, budget_s=0.0)

    assert 0.999e9 < rate < 1e9
    assert calls[-LEAST_CALLS] * 1e-9 > CALL_S / 2
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
