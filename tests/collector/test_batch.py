"""One batch: built, then run on a machine that was looked at first."""

from __future__ import annotations

import os

import pytest

from costhub.collector import batch
from costhub.collector.batch import Watch, measure_batch
from costhub.collector.builder import Builder
from costhub.collector.runner import Runner
from costhub.collector.sampler import Program


def test_every_program_has_an_outcome_and_no_file_stays(
    builder: Builder, runner: Runner, programs: list[Program]
) -> None:
    broken = Program("x", "[]", "not a module", (), "random")
    outcomes = list(
        measure_batch([programs[0], broken, programs[1]], builder=builder, runner=runner, watch=Watch(runner))
    )

    assert [o.status for o in outcomes] == ["ok", "build_error", "ok"]
    assert outcomes[0].error is None
    assert outcomes[1].error
    assert all(o.surroundings.reference_s > 0 for o in outcomes)
    assert not any(o.built.artifact and os.path.exists(o.built.artifact) for o in outcomes)


def test_a_busy_machine_is_waited_for(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(batch, "QUIET_WAIT_S", 0.0)
    monkeypatch.setattr(batch.time, "sleep", waited.append)
    readings = iter([1.0, 1.0, 1.0, 2.0, 1.5, 1.05])
    monkeypatch.setattr(runner, "reference_s", lambda: next(readings))

    surroundings = Watch(runner).look()

    assert len(waited) == 2
    assert surroundings.reference_drift == pytest.approx(0.05)


def test_a_machine_that_stays_busy_is_measured_and_the_row_says_so(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "QUIET_WAIT_S", 0.0)
    readings = iter([1.0, 1.0, 1.0, *[2.0] * 20])
    monkeypatch.setattr(runner, "reference_s", lambda: next(readings))
    assert Watch(runner).look().reference_drift == pytest.approx(1.0)
