"""A search on this machine: it improves on the untuned code, and stock TVM can use what it found."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from costhub.collector.measurer import Measurer
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.metaschedule.lines import STORED_FAILURE_S
from costhub.errors import DataError, MeasureError, ScoreError, WorkloadError
from costhub.search.database import FILES, SearchFolder
from costhub.search.options import Job, Search
from costhub.search.result import TuneResult
from costhub.search.scheduler import SearchProgress, StopRule, TaskRule, TaskScheduler, TrialBatch
from costhub.search.strategies.strategy import Evolutionary, Random
from costhub.search.task import SearchTask
from costhub.search.tune import _measure, _trials_left, tune, tune_all

STRATEGY = Evolutionary(population=64, generations=1)


def search(
    tmp_path: Path, measurer: Measurer, model: Any, *, mod: Any = None, trials: int = 16, draft: Any = None, **more: Any
) -> TuneResult:
    mod = mod if mod is not None else find_workload("matmul.128x128x128").module()
    how = Search(model, draft=draft, strategy=STRATEGY, trials_per_round=8)
    return tune(mod, "m", how, measurer, out=tmp_path, trials=trials, **more)


def test_stock_tvm_compiles_a_correct_and_faster_module_from_the_database(
    tmp_path: Path, measurer: Measurer, target: str, linear: Any
) -> None:
    import tvm
    from tvm.s_tir import meta_schedule as ms

    result = search(tmp_path, measurer, linear(np.full(172, -0.01)), time_unscheduled=True)

    assert result.trials == 16
    assert result.failures == 0
    assert result.best_us is not None
    assert result.untuned_us is not None
    assert result.best_us < result.untuned_us
    assert result.curve[-1][2] == result.best_us == min(us for us in result.measured_us if us is not None)
    assert len(result.measured_us) == 16
    assert result.flop == 2 * 128**3
    assert result.gflops == pytest.approx(result.flop / result.best_us / 1e3)
    assert result.health.updates == 1  # nothing comes after the second batch
    assert json.loads(json.dumps(result.to_json()))["speedup"] > 1

    mod = find_workload("matmul.128x128x128").module()
    parsed = tvm.target.Target(json.loads(target))
    schedule = ms.tir_integration.compile_tir(ms.database.JSONDatabase(work_dir=str(tmp_path)), mod, parsed)
    a, b = (np.random.default_rng(i).random((128, 128), np.float32) for i in range(2))
    out = tvm.runtime.tensor(np.zeros((128, 128), np.float32))
    tvm.compile(schedule.mod, target=parsed)(tvm.runtime.tensor(a), tvm.runtime.tensor(b), out)
    np.testing.assert_allclose(out.numpy(), a @ b, rtol=1e-4)


@pytest.mark.parametrize(
    ("strategy", "space", "pressure"),
    [(None, None, 3.0), (None, "blocked", 1.0), (Evolutionary(pressure=2.0), "blocked", 2.0), (Random(), None, 1.0)],
)
def test_better_parents_are_preferred_as_the_strategy_says_or_as_suits_the_space(
    tmp_path: Path,
    measurer: Measurer,
    linear: Any,
    monkeypatch: pytest.MonkeyPatch,
    strategy: Any,
    space: str | None,
    pressure: float,
) -> None:
    asked: list[float] = []

    def stop(base: Any, **options: Any) -> None:
        asked.append(options["pressure"])
        raise ScoreError("This test ends here.")

    monkeypatch.setattr("costhub.search.tune.SearchModel", stop)
    how = Search(linear(np.full(172, -0.01)), strategy=strategy, space=space)
    with pytest.raises(ScoreError, match="ends here"):
        tune(find_workload("matmul.128x128x128").module(), "m", how, measurer, out=tmp_path, trials=8)

    assert asked == [pressure]


@pytest.mark.slow
def test_a_search_with_a_draft_says_where_its_seconds_went(tmp_path: Path, measurer: Measurer, linear: Any) -> None:
    draft = linear(np.full(48, -0.01))
    draft.feature_spec = "trace_tokens@1"

    result = search(tmp_path, measurer, linear(np.full(172, -0.01)), trials=16, draft=draft)

    assert (result.trials, result.failures) == (16, 0)
    assert set(result.stages) == {"evolution", "features", "prediction", "learning", "building", "running", "other"}
    assert sum(result.stages.values()) == pytest.approx(result.seconds)
    assert draft.updates == []  # a copy of it learned


def test_a_model_without_usable_scores_ends_the_search_with_its_own_error(
    tmp_path: Path, measurer: Measurer, linear: Any
) -> None:
    with pytest.raises(ScoreError, match="NaN"):
        search(tmp_path, measurer, linear(np.full(172, np.nan)))


def test_a_workload_tvm_cannot_schedule_is_a_sentence(tmp_path: Path, measurer: Measurer, linear: Any) -> None:
    import tvm
    from tvm.script import tirx as T

    @T.prim_func
    def nothing(a: T.Buffer((4,), "float32")):  # type: ignore[no-untyped-def, valid-type, type-arg]
        T.evaluate(0)

    with pytest.raises(WorkloadError):
        search(tmp_path, measurer, linear(np.full(172, -0.01)), mod=tvm.IRModule({"main": nothing}))


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt("stop"),
        pytest.param(MeasureError("The device is gone."), marks=pytest.mark.slow),
    ],
)
def test_what_ends_a_search_comes_out_as_what_it_is(
    tmp_path: Path, measurer: Measurer, linear: Any, error: BaseException
) -> None:
    def on_trial(done: int, best_us: float | None) -> None:
        raise error

    with pytest.raises(type(error), match=str(error)):
        search(tmp_path, measurer, linear(np.full(172, -0.01)), on_trial=on_trial)


def test_a_second_search_into_the_folder_is_refused_until_the_first_has_ended(
    tmp_path: Path, measurer: Measurer, linear: Any
) -> None:
    refusals: list[str] = []

    def on_trial(done: int, best_us: float | None) -> None:
        with pytest.raises(DataError, match=rf"\(pid {os.getpid()}\)") as refused:
            search(tmp_path, measurer, linear(np.full(172, -0.01)), trials=2)
        refusals.append(str(refused.value))

    search(tmp_path, measurer, linear(np.full(172, -0.01)), trials=2, on_trial=on_trial)
    assert len(refusals) == 2
    # Afterwards the same call continues: its trials are there already.
    assert search(tmp_path, measurer, linear(np.full(172, -0.01)), trials=2).trials == 2


def test_a_search_in_a_folder_that_its_caller_holds_leaves_it_held(
    tmp_path: Path, measurer: Measurer, linear: Any
) -> None:
    mod = find_workload("matmul.128x128x128").module()
    with SearchFolder(tmp_path) as folder:
        tune(mod, "m", Search(linear(np.full(172, -0.01)), strategy=STRATEGY), measurer, out=folder, trials=1)
        with pytest.raises(DataError, match="another process"):
            SearchFolder(tmp_path)
    SearchFolder(tmp_path).release()


def search_all(
    tmp_path: Path, measurer: Measurer, model: Any, jobs: list[Job], *, rule: StopRule | None = None, **more: Any
) -> list[TuneResult]:
    how = Search(model, strategy=STRATEGY, trials_per_round=8, stop_rule=rule)
    return tune_all(jobs, how, measurer, out=tmp_path, **more)


def test_workloads_share_the_trials_and_the_database(tmp_path: Path, measurer: Measurer, linear: Any) -> None:
    from tvm.s_tir import meta_schedule as ms

    names = ("matmul.128x128x128", "softmax.64x1000")
    jobs = [Job(name, find_workload(name).module()) for name in names]
    told: list[str] = []

    found = search_all(
        tmp_path,
        measurer,
        linear(np.full(172, -0.01)),
        jobs,
        trials=24,
        on_trial=lambda name, *_: told.append(name),
    )

    assert [result.workload for result in found] == list(names)
    assert sum(result.trials for result in found) == len(told) == 24
    assert all(result.trials >= 8 and result.best_us for result in found)
    assert [told.count(name) for name in names] == [result.trials for result in found]
    records = ms.database.JSONDatabase(work_dir=str(tmp_path)).get_all_tuning_records()
    assert len(records) == 24


@pytest.mark.slow
def test_a_budget_of_first_batches_is_spent_without_learning_or_proposing_more(
    tmp_path: Path, measurer: Measurer, linear: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposed: list[Any] = []
    propose = SearchTask._new_candidates
    monkeypatch.setattr(SearchTask, "_new_candidates", lambda task: proposed.append(task) or propose(task))
    jobs = [Job(name, find_workload(name).module()) for name in ("matmul.128x128x128", "softmax.64x1000")]

    found = search_all(tmp_path, measurer, linear(np.full(172, -0.01)), jobs, trials=16)

    assert [(result.trials, result.health.updates) for result in found] == [(8, 0), (8, 0)]
    assert len(set(map(id, proposed))) == len(proposed) == 2


class Space:
    """A design space of some programs, as a search task shows it to the scheduler."""

    def __init__(self, programs: int, *before: TrialBatch) -> None:
        self.programs, self.before, self.looked = programs, list(before), 0

    def round(self, most: int) -> TrialBatch | None:
        n = min(most, self.programs, 8)
        self.programs -= n
        return TrialBatch(np.full(n, 1e-3), np.zeros(n), waiting=0.0) if n else None

    def waiting(self) -> float:
        self.looked += 1
        return 0.0 if self.programs else -np.inf


def spend(spaces: dict[str, Any], trials: int) -> dict[str, int]:
    scheduler = TaskScheduler(dict.fromkeys(spaces, 1.0), trials=trials)
    _measure(spaces, scheduler, 8, None)
    return {name: task.trials for name, task in scheduler.tasks.items()}


def test_what_a_small_space_leaves_goes_to_the_others_once_it_is_known() -> None:
    spaces = {"large": Space(100), "small": Space(3), "other": Space(100)}

    spent = spend(spaces, 24)

    assert spent["small"] == 3
    assert sum(spent.values()) == 24
    assert all(space.looked for space in spaces.values())


def test_nobody_looks_ahead_where_all_trials_are_first_batches() -> None:
    spaces = {"a": Space(100), "b": Space(100, TrialBatch(np.full(8, 1e-3), np.zeros(8)))}

    assert spend(spaces, 16) == {"a": 8, "b": 8}
    assert [space.looked for space in spaces.values()] == [0, 0]


@pytest.mark.slow
def test_a_rule_ends_the_search_before_the_trials_are_spent(tmp_path: Path, measurer: Measurer, linear: Any) -> None:
    class TwoBatches(TaskRule):
        def should_continue(self, batches: Sequence[TrialBatch]) -> bool:
            assert all(np.isfinite(batch.scores).all() for batch in batches)
            assert all(np.isfinite(batch.waiting) for batch in batches)
            return len(batches) < 2

    job = Job("m", find_workload("matmul.128x128x128").module())
    told: list[SearchProgress] = []
    model = linear(np.full(172, -0.01))
    (found,) = search_all(tmp_path, measurer, model, [job], trials=64, rule=TwoBatches(), on_batch=told.append)

    assert found.trials == 16
    assert [state.stopped for state in told] == [None, None, None, TwoBatches.why]
    assert (told[-1].trials, told[-1].most) == (16, 64)


@pytest.mark.slow
def test_what_an_earlier_search_measured_is_as_many_batches_as_it_was(
    tmp_path: Path, measurer: Measurer, linear: Any
) -> None:
    class Seen(TaskRule):
        sizes: ClassVar[list[list[int]]] = []

        def should_continue(self, batches: Sequence[TrialBatch]) -> bool:
            self.sizes.append([batch.n for batch in batches])
            return False

    job, model = Job("m", find_workload("matmul.128x128x128").module()), linear(np.full(172, -0.01))
    search_all(tmp_path, measurer, model, [job], trials=20)
    search_all(tmp_path, measurer, model, [job], trials=64, rule=Seen())

    assert Seen.sizes == [[8, 8, 4]]


@pytest.mark.slow
def test_a_workload_that_joins_a_finished_search_is_measured_first(
    tmp_path: Path, measurer: Measurer, linear: Any
) -> None:
    names = ("matmul.128x128x128", "softmax.64x1000")
    jobs = [Job(name, find_workload(name).module()) for name in names]
    model = linear(np.full(172, -0.01))
    (first,) = search_all(tmp_path, measurer, model, jobs[:1], trials=8)
    stood: list[SearchProgress] = []

    old, new = search_all(tmp_path, measurer, model, jobs, trials=16, on_batch=stood.append)

    assert (old.trials, new.trials) == (8, 8)
    assert old.best_us == pytest.approx(first.best_us)
    assert [point[0] for point in old.curve] == [8]
    assert [(now.trials, now.most, now.begun) for now in stood] == [(8, 16, 1), (16, 16, 2)]


def test_two_workloads_of_one_name_are_refused(tmp_path: Path, measurer: Measurer, linear: Any) -> None:
    job = Job("m", find_workload("matmul.128x128x128").module())

    with pytest.raises(WorkloadError, match="two are called m"):
        search_all(tmp_path, measurer, linear(np.zeros(172)), [job, job], trials=8)


@pytest.mark.parametrize(
    ("trials", "known", "left"),
    [
        (128, [0], 128),
        (128, [100], 28),
        (128, [0, 128], 16),
        (128, [0, 0, 128], 32),
        (8, [0, 128], 4),
        (64, [80], 0),
        (24, [12, 0], 12),
        (96, [100, 1, 0], 31),
        (64, [80, 1], 15),
        (1, [3, 0], 1),
    ],
)
def test_a_new_workload_has_a_batch_whatever_was_measured_of_others(trials: int, known: list[int], left: int) -> None:
    assert _trials_left(trials, known, batch=16) == left


@pytest.mark.slow
def test_a_search_that_was_interrupted_between_workloads_ends_at_its_number_of_trials(
    tmp_path: Path, measurer: Measurer, linear: Any
) -> None:
    jobs = [Job(name, find_workload(name).module()) for name in ("matmul.128x128x128", "softmax.64x1000")]
    model = linear(np.full(172, -0.01))

    def stop(name: str, done: int, _: float | None) -> None:
        if done == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search_all(tmp_path, measurer, model, jobs, trials=12, on_trial=stop)
    results = search_all(tmp_path, measurer, model, jobs, trials=12)

    assert [result.trials for result in results] == [6, 6]


def test_a_search_that_was_interrupted_within_a_first_batch_completes_it(
    tmp_path: Path, measurer: Measurer, linear: Any
) -> None:
    jobs = [Job(name, find_workload(name).module()) for name in ("matmul.128x128x128", "softmax.64x1000")]
    model = linear(np.full(172, -0.01))

    def stop(name: str, done: int, _: float | None) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search_all(tmp_path, measurer, model, jobs, trials=12, on_trial=stop)
    results = search_all(tmp_path, measurer, model, jobs, trials=12)

    assert [result.trials for result in results] == [6, 6]


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> list[list[TrialBatch]]:
    """What each search finds of earlier ones."""
    found: list[list[TrialBatch]] = []
    resume = SearchTask._resume

    def noted(task: SearchTask) -> None:
        resume(task)
        found.append(task.before)

    monkeypatch.setattr(SearchTask, "_resume", noted)
    return found


@pytest.mark.slow
def test_batches_of_an_earlier_search_have_fast_and_slow_programs_alike(
    tmp_path: Path, measurer: Measurer, linear: Any, before: list[list[TrialBatch]]
) -> None:
    """The database gives the fastest first; a rule that looks at the last two batches would see the slowest."""
    job = Job("m", find_workload("matmul.128x128x128").module())
    for trials in (32, 40):
        search_all(tmp_path, measurer, linear(np.full(172, -0.01)), [job], trials=trials)

    batches = before[1]
    assert [batch.n for batch in batches] == [8] * 4
    assert min(batch.latency_s.min() for batch in batches[2:]) < max(batch.latency_s.max() for batch in batches[:2])


@pytest.mark.slow
def test_programs_of_an_earlier_search_count_although_none_of_them_ran(
    tmp_path: Path, measurer: Measurer, linear: Any, before: list[list[TrialBatch]]
) -> None:
    job = Job("m", find_workload("matmul.128x128x128").module())
    search_all(tmp_path, measurer, linear(np.full(172, -0.01)), [job], trials=8)
    file = tmp_path / FILES[1]
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for _, record in lines:
        record[1] = [STORED_FAILURE_S]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    (result,) = search_all(tmp_path, measurer, linear(np.full(172, -0.01)), [job], trials=16)

    assert [batch.n for batch in before[1]] == [8]
    assert not np.isfinite(before[1][0].latency_s).any()
    assert result.trials == 16
