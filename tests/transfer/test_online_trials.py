"""Trials that are measured while a model learns: resumable, in turn, and never twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from costhub.collector.device.local import find_local
from costhub.collector.measurer import Measurer, local_measurer
from costhub.collector.run.evaluator import Evaluator
from costhub.collector.workloads.suites import SuiteWorkload
from costhub.dataset.folder import DataFolder
from costhub.errors import DataError
from costhub.models.architectures import new_model
from costhub.transfer.adapt import adapt_to_batches
from costhub.transfer.online_trials import OnlineTrials, _workload_shares

SPEC = "trace_decisions@1"
WORKLOADS = [SuiteWorkload(f"matmul.{m}", "matmul", (m, 32, 32)) for m in (16, 32, 48)]


@pytest.fixture(scope="module")
def measurer() -> Iterator[Measurer]:
    with local_measurer(find_local(["auto"]), evaluator=Evaluator(repeat=1, min_repeat_ms=1)) as measurer:
        yield measurer


@pytest.fixture
def folder(tmp_path: Path, measurer: Measurer) -> DataFolder:
    made = DataFolder.create(tmp_path / "data")
    for device in measurer.devices:
        made.put_device(device.stored_row)
    return made


@pytest.mark.slow
def test_trials_are_shared_among_workloads_and_none_is_measured_twice(measurer: Measurer, folder: DataFolder) -> None:
    new: list[str] = []
    trials = OnlineTrials(WORKLOADS, folder, measurer, 20, on_row=lambda workload, *_: new.append(workload.spec.name))

    (batch,) = trials.batches(SPEC)

    assert sorted(map(new.count, set(new))) == [4, 8, 8]
    assert sorted(np.bincount(batch.workload).tolist()) == [4, 8, 8]

    again = trials.first(SPEC)

    assert len(new) == 20
    assert (trials.held, trials.failed) == (20, 0)
    assert np.array_equal(np.sort(again.latency_s), np.sort(batch.latency_s))


@pytest.mark.slow
def test_what_a_folder_holds_counts_up_to_the_number_of_trials(measurer: Measurer, folder: DataFolder) -> None:
    (batch,) = OnlineTrials(WORKLOADS, folder, measurer, 20).batches(SPEC)
    rows = folder.measurements().to_pylist()
    [short] = {row["workload_id"] for row in rows if [r["workload_id"] for r in rows].count(row["workload_id"]) == 4}
    with folder.writer(measurer.devices[0].device_id) as writer:
        for number, row in enumerate(3 * rows):
            new = {**row, "record_id": f"r{number}", "program_id": f"p{number}"}
            failed = {"status": "run_error", "error": "it crashed", "run_s": []}
            writer.append(new | failed if row["workload_id"] == short else new)
    trials = OnlineTrials(WORKLOADS, folder, measurer, 21)

    (again,) = trials.batches(SPEC)

    assert (trials.held, trials.failed, trials.seconds_each) == (21, 1, 0.0)
    assert np.array_equal(np.sort(again.latency_s), np.sort(batch.latency_s))


def test_an_interrupted_measurement_goes_on_where_it_stopped(measurer: Measurer, folder: DataFolder) -> None:
    seen = 0

    def interrupt(*_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == 11:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(OnlineTrials(WORKLOADS, folder, measurer, 16, on_row=interrupt).batches(SPEC))
    assert folder.measurements().num_rows == 11
    (batch,) = OnlineTrials(WORKLOADS, folder, measurer, 16, on_row=interrupt).batches(SPEC)

    assert seen == folder.measurements().num_rows == 16
    assert np.bincount(batch.workload).tolist() == [8, 8]


@pytest.mark.slow
def test_a_model_learns_while_it_is_measured(measurer: Measurer, folder: DataFolder) -> None:
    trials = OnlineTrials(WORKLOADS, folder, measurer, 36, seed=1)
    source = new_model("gbt", feature_spec=SPEC, options={"objective": "log", "rounds": 5})
    source.fit(trials.first(SPEC), None, seed=0, progress=False)

    found = adapt_to_batches(source, trials.batches(SPEC), trials=36, progress=False)

    assert found.trials == 36
    assert [verdict.trials for verdict in found.verdicts] == [0, 24]


def test_a_space_without_enough_programs_ends_sooner(measurer: Measurer, folder: DataFolder) -> None:
    tiny = [SuiteWorkload("matmul.tiny", "matmul", (1, 1, 1))]
    trials = OnlineTrials(tiny, folder, measurer, 64)

    batches = list(trials.batches(SPEC))

    assert 0 < sum(batch.n for batch in batches) < 64


def test_what_never_differs_is_said_to_teach_nothing(measurer: Measurer, folder: DataFolder) -> None:
    source = new_model("gbt", feature_spec=SPEC, options={"objective": "log", "rounds": 5})

    with pytest.raises(DataError, match="nothing to learn from 0 trials"):
        adapt_to_batches(source, iter(()), trials=8, progress=False)


def test_an_eighth_of_many_trials_is_of_workloads_that_are_not_learned_from(
    measurer: Measurer, folder: DataFolder
) -> None:
    many = [SuiteWorkload(f"matmul.{n}", "matmul", (n, 32, 32)) for n in range(16, 80)]

    learn, test = OnlineTrials(many, folder, measurer, 300).split()

    assert test is not None
    assert (learn.trials, test.trials, len(test.workloads)) == (268, 32, 4)
    assert {w.name for w in learn.workloads} == {w.name for w in many} - {w.name for w in test.workloads}
    again, _ = OnlineTrials(many, folder, measurer, 300).split()
    assert again.workloads == learn.workloads
    assert OnlineTrials(many, folder, measurer, 255).split()[1] is None
    assert OnlineTrials(many[:7], folder, measurer, 300).split()[1] is None


@pytest.mark.parametrize(
    ("each", "left", "shares"), [(8, 32, [(8, "abc")]), (8, 20, [(8, "ab"), (4, "c")]), (8, 5, [(5, "abc")])]
)
def test_the_last_workload_gets_what_is_left(each: int, left: int, shares: list[tuple[int, str]]) -> None:
    group = "abc"[: -(-left // each)]

    found = [(wanted, "".join(part)) for wanted, part in _workload_shares(group, each, left)]  # type: ignore[arg-type]

    assert found == [(wanted, names[: len(group)]) for wanted, names in shares][: len(found)]
    assert sum(wanted * len(part) for wanted, part in found) == min(left, each * len(group))
