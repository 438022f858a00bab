"""A collection that is large enough says so, and one that still teaches goes on."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.transfer.collection_stop import GROWTH, LEAST, LearningCurve

WORKLOADS = 16


def made(each: int, *, noise: float) -> Programs:
    """So many programs of each workload; a longer list begins with the shorter one."""
    parts = []
    for workload in range(WORKLOADS):
        rng = np.random.default_rng(workload)
        rows = rng.normal(size=(1000, 3)).astype(np.float32)
        cost = rows[:, 0] + np.sin(3 * rows[:, 1]) + noise * rng.normal(size=1000)
        parts.append((rows[:each], np.exp(cost[:each].clip(-50, 50))))
    rows, latency_s = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    workload = np.repeat(np.arange(WORKLOADS), each)
    ids = tuple(f"w{number}" for number in range(WORKLOADS))
    return Programs(rows, np.ones(len(rows), np.int64), workload, ids, latency_s.astype(float), spec="demo@1")


def grown(curve: LearningCurve, held: list[int], most: int) -> tuple[int, str | None]:
    """How many programs were there when the curve was flat, and what it said."""
    for each in range(1, most + 1):
        held[0] = each
        reason = curve.reason_to_stop(each * WORKLOADS)
        if reason is not None:
            return each * WORKLOADS, reason
    return most * WORKLOADS, None


def test_pure_noise_is_enough_as_soon_as_two_tests_were_made() -> None:
    held = [0]
    curve = LearningCurve(lambda: made(held[0], noise=20.0), "demo@1", worth=0.5)

    done, reason = grown(curve, held, 100)

    assert LEAST * GROWTH**3 <= done < LEAST * GROWTH**3 + 3 * WORKLOADS
    assert "changed the share of correctly ordered pairs by" in str(reason)
    assert len(curve.gains) == 2


def test_a_collection_that_still_teaches_goes_on_until_it_no_longer_does() -> None:
    held = [0]
    curve = LearningCurve(lambda: made(held[0], noise=0.0), "demo@1", worth=0.01)

    done, reason = grown(curve, held, 1000)

    assert done > LEAST * GROWTH**3 + 3 * WORKLOADS
    assert max(curve.gains) > 0.01 > max(curve.gains[-2:])
    assert reason is not None


@pytest.mark.slow
def test_each_test_is_made_on_programs_that_no_model_has_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    held, tested = [0], []
    curve = LearningCurve(lambda: made(held[0], noise=0.0), "demo@1", worth=-1.0)
    monkeypatch.setattr(LearningCurve, "_test", lambda self, new: tested.append(new))

    grown(curve, held, 60)

    seen = 0
    for new in tested:
        each = new.n // WORKLOADS
        everything = made(seen + each, noise=0.0)
        places = np.flatnonzero(np.tile(np.arange(seen + each) >= seen, WORKLOADS))
        np.testing.assert_array_equal(new.rows, everything.rows[places])
        seen += each
    assert len(tested) > 3


def test_nothing_is_read_between_the_tests() -> None:
    reads = []

    def read() -> Programs:
        reads.append(1)
        return made(20, noise=0.0)

    curve = LearningCurve(read, "demo@1")
    for done in range(LEAST + 10):
        curve.reason_to_stop(done)

    assert len(reads) == 1


def test_a_resumed_collection_is_tested_when_all_of_it_has_grown_by_a_quarter(monkeypatch: pytest.MonkeyPatch) -> None:
    before, new, tested = 300, 0, []
    curve = LearningCurve(lambda: made(before + new, noise=0.0), "demo@1", worth=-1.0)
    monkeypatch.setattr(LearningCurve, "_test", lambda self, part: tested.append(before + new))
    monkeypatch.setattr(LearningCurve, "_learn", lambda self, programs: None)

    for new in range(1, 300):
        curve.reason_to_stop(new * WORKLOADS)

    assert tested[0] == before + LEAST // WORKLOADS
    assert len(tested) == 3
    for last, now in itertools.pairwise(tested):
        assert GROWTH * last <= now < GROWTH * last + 1
