"""A search in a fresh process: what is noted of its trials, and scores that say nothing."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from costhub.api.network_jobs import network_jobs
from costhub.collector.device.local import local_target
from costhub.search.result import TrialMeter
from costhub.testing.made_programs import made_programs
from scripts.bench.common.fresh import result_of
from scripts.bench.common.kept_searches import ONCE
from scripts.bench.search.once import RandomScores, Stamps, seconds_at, timed_trials


def test_every_trial_is_timed_whether_it_ran_or_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TrialMeter, "measured", TrialMeter.measured)  # as it was, after the test
    began = time.monotonic()
    rounds = timed_trials(began)
    meter = TrialMeter()

    meter.measured_before([1e-3])
    meter.measured(2e-3, "ok")
    meter.measured(None, "build_error")

    assert (meter.trials, meter.failures) == (3, 1)
    assert [trials for trials, _ in rounds] == [2, 3]
    assert 0.0 <= rounds[0][1] <= rounds[1][1] <= time.monotonic() - began


def test_batches_of_stock_are_counted_with_their_failures() -> None:
    from tvm.s_tir.meta_schedule.measure_callback import AddToDatabase, UpdateCostModel
    from tvm.s_tir.meta_schedule.runner import RunnerResult

    stamps = Stamps(time.monotonic() - 5.0)
    kept, stamp, *_, learned = stamps.callbacks()
    ran = RunnerResult([1e-3], None)

    for batch in ([ran, RunnerResult(None, "it crashed"), ran], [RunnerResult(None, "no such file"), ran]):
        stamp._inst.apply(None, 0, [], [], batch)  # the object of Python itself: a search would have a scheduler

    assert isinstance(kept, AddToDatabase)
    assert isinstance(learned, UpdateCostModel)  # as a trial of costhub, a batch is timed before
    assert [trials for trials, _ in stamps.rounds] == [3, 5]
    assert stamps.failures == 2
    assert all(seconds >= 5.0 for _, seconds in stamps.rounds)
    assert seconds_at(stamps.rounds, 4) == stamps.rounds[1][1]


def test_random_scores_are_the_same_for_a_program_and_say_nothing_of_it() -> None:
    programs = made_programs("trace_decisions@1", workloads=1, each=64)
    model = RandomScores()

    scores = model.predict(programs.rows, programs.counts)

    assert scores.shape == (64,)
    assert len(set(scores.tolist())) > 32
    assert 0.0 <= scores.min() < 0.25 < 0.75 < scores.max() < 1.0
    first = int(programs.counts[:8].sum())
    np.testing.assert_array_equal(model.predict(programs.rows[:first], programs.counts[:8]), scores[:8])
    assert model.predict(programs.rows[:0], programs.counts[:0]).shape == (0,)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec:FutureWarning")
def test_stock_tunes_the_kernels_that_costhub_leaves_out(tmp_path: Path) -> None:
    import torch

    network = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Flatten(0), torch.nn.Softmax(0)).eval()
    file = tmp_path / "small.pt2"
    torch.export.save(torch.export.export(network, (torch.ones(1, 512),)), file)

    found = result_of(ONCE, "every-kernel", file, 1, 0, tmp_path / "found")

    assert found["tasks"] == len((tmp_path / "found" / "database_workload.json").read_text().splitlines()) > 1
    assert len(network_jobs([str(file)], json.dumps(local_target()))) == 1
