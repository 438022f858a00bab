"""The rules that end an adaptation before its trials are spent."""

from __future__ import annotations

import pytest

from costhub.transfer.guard import ADAPTED
from costhub.transfer.stopping import ADAPT_STOPS, BatchVerdict, NoMoreGain, SpendAll, Stopped


def verdict(*gains: float) -> BatchVerdict:
    return BatchVerdict(32, {ADAPTED: 0.8}, ADAPTED, gains)


def test_measuring_goes_on_until_enough_workloads_were_tested() -> None:
    rule = NoMoreGain(workloads=4, worth=0.01)

    assert rule.reason_to_stop([verdict(), verdict(0.0, 0.0, 0.0)]) is None
    assert rule.reason_to_stop([verdict(), verdict(0.0, 0.0, 0.0), verdict(0.0)]) is not None


def test_only_the_last_workloads_count() -> None:
    rule = NoMoreGain(workloads=2, worth=0.01)

    assert rule.reason_to_stop([verdict(0.0, 0.0), verdict(0.2, 0.0)]) is None
    assert rule.reason_to_stop([verdict(0.2, 0.2), verdict(0.0, 0.01)]) is not None


@pytest.mark.parametrize(("mean", "ends"), [(0.0101, False), (0.0099, True), (-0.2, True)])
def test_a_batch_is_worth_its_time_if_it_adds_enough(mean: float, ends: bool) -> None:
    rule = NoMoreGain(workloads=3, worth=0.01)

    assert (rule.reason_to_stop([verdict(mean - 0.05, mean, mean + 0.05)]) is not None) is ends


def test_the_reason_has_the_figures() -> None:
    assert NoMoreGain(workloads=2, worth=0.01).reason_to_stop([verdict(0.002, -0.006)]) == (
        "Over the last 2 workloads, a batch changed the share of correctly ordered pairs by -0.0020 (less than 0.0100)."
    )


def test_never_never_ends() -> None:
    assert SpendAll().reason_to_stop([verdict(*[0.0] * 99)]) is None


@pytest.mark.parametrize("name", ["gain", "never", "variation"])
def test_every_rule_can_be_made_by_its_name(name: str) -> None:
    assert ADAPT_STOPS.find(name)().reason_to_stop([verdict()]) is None


def test_what_was_saved_is_a_sentence() -> None:
    short, long, unknown = (Stopped("gain", "Enough.", 64, 256, seconds) for seconds in (90.4, 600.0, None))

    assert str(short) == "Enough. Measuring ended after 64 of 256 trials and saved about 90 s."
    assert str(long).endswith("saved about 10 min.")
    assert str(unknown) == "Enough. Measuring ended after 64 of 256 trials."
    assert short.to_json()["saved_trials"] == 192
