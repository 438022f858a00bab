"""A search goes on where it was stopped: nothing is measured twice, and nothing is lost."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.collector.measurer import Measurer
from costhub.collector.workloads.suites import SuiteWorkload, find_workload
from costhub.dataset.workload import parse_target
from costhub.errors import WorkloadError
from costhub.papers.autotvm import Annealing, Diverse
from costhub.papers.release import Clustered, Ppo
from costhub.search.database import FILES, SearchDatabase
from costhub.search.options import Search
from costhub.search.result import TuneResult
from costhub.search.selection import Selection
from costhub.search.strategies.strategy import Evolutionary, Random, RandomTopK, Strategy
from costhub.search.tune import tune
from tests.collector.propose.test_register_tiles import convolution, dense

STRATEGY = Evolutionary(population=64, generations=1)


def search(
    out: Path,
    measurer: Measurer,
    model: Any,
    trials: int,
    mod: Any = None,
    strategy: Strategy | None = None,
    selection: Selection | None = None,
    on_trial: Any = None,
) -> TuneResult:
    mod = mod if mod is not None else find_workload("matmul.128x128x128").module()
    how = Search(model, strategy=strategy or STRATEGY, selection=selection, trials_per_round=8)
    return tune(mod, "m", how, measurer, out=out, trials=trials, on_trial=on_trial)


def test_an_interrupted_search_goes_on_and_repeats_nothing(
    tmp_path: Path, measurer: Measurer, target: str, linear: Any
) -> None:
    model = linear(np.full(172, -0.01))

    def stop(done: int, best_us: float | None) -> None:
        if done == 11:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(tmp_path, measurer, model, 24, on_trial=stop)
    mod = find_workload("matmul.128x128x128").module()
    before = SearchDatabase(tmp_path).records(mod, parse_target(target))
    assert len(before) == 11

    told: list[int] = []
    result = search(tmp_path, measurer, model, 24, on_trial=lambda done, _: told.append(done))

    after = SearchDatabase(tmp_path).records(mod, parse_target(target))
    assert (result.trials, len(after), told) == (24, 24, list(range(12, 25)))
    traces = [json.dumps(json.loads(line)[1][0]) for line in (tmp_path / FILES[1]).read_text().splitlines()]
    assert len(set(traces)) == 24
    assert result.best_us == pytest.approx(1e6 * min(float(np.median(e.run_s)) for e in after if e.run_s))


def test_an_interrupt_while_tvm_proposes_waits_until_it_has_proposed(
    tmp_path: Path, measurer: Measurer, linear: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = linear(np.full(172, -0.01))
    predict, ended = model.predict, []

    def predict_interrupted(*args: Any) -> Any:
        if not ended:
            signal.raise_signal(signal.SIGINT)
        ended.append("a prediction")
        return predict(*args)

    monkeypatch.setattr(model, "predict", predict_interrupted)
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path, measurer, model, 8)
    assert ended


def test_a_module_without_tvms_attributes_has_one_workload_in_the_database(
    tmp_path: Path, measurer: Measurer, linear: Any
) -> None:
    import tvm

    mod = find_workload("matmul.128x128x128").module()
    mod = tvm.IRModule({"main": mod["main"].without_attr("tirx.noalias")})

    search(tmp_path, measurer, linear(np.full(172, -0.01)), 2, mod=mod)

    assert len((tmp_path / FILES[0]).read_text().splitlines()) == 1


@pytest.mark.slow
def test_a_finished_search_is_not_repeated(tmp_path: Path, measurer: Measurer, target: str, linear: Any) -> None:
    model = linear(np.full(172, -0.01))
    first = search(tmp_path, measurer, model, 8)

    again = search(tmp_path, measurer, model, 8)

    assert (again.trials, again.best_us) == (8, pytest.approx(first.best_us))


@pytest.mark.slow
def test_a_small_space_ends_the_search(tmp_path: Path, measurer: Measurer, target: str, linear: Any) -> None:
    tiny = SuiteWorkload("matmul.tiny", "matmul", (1, 1, 2)).module()

    result = search(tmp_path, measurer, linear(np.full(172, -0.01)), 400, mod=tiny)

    assert 0 < result.trials < 400


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "selection"),
    [
        (Annealing(chains=8, steps=3), Diverse()),
        (None, Clustered()),
        (Ppo(programs=8, steps=3, episodes=2), Clustered()),
        (RandomTopK(pool=48), None),
    ],
    ids=["annealing, diverse", "evolutionary, clustered", "ppo, clustered", "random-top-k"],
)
def test_any_strategy_and_selection_goes_on_where_it_was_stopped(
    tmp_path: Path, measurer: Measurer, target: str, linear: Any, strategy: Any, selection: Any
) -> None:
    mod = SuiteWorkload("matmul.64", "matmul", (64, 64, 64)).module()
    model, how = linear(np.full(172, -0.01)), {"strategy": strategy, "selection": selection}
    search(tmp_path, measurer, model, 10, mod=mod, **how)

    told: list[int] = []
    result = search(tmp_path, measurer, model, 24, mod=mod, on_trial=lambda done, _: told.append(done), **how)

    traces = [json.dumps(json.loads(line)[1][0]) for line in (tmp_path / FILES[1]).read_text().splitlines()]
    assert len(set(traces)) == len(traces) == result.trials == 24
    assert told == list(range(11, 25))
    assert result.failures == 0
    assert result.best_us is not None
    assert result.untuned_us is None  # nobody asked
    assert len(result.measured_us) == 24


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [Random(), STRATEGY], ids=["random", "evolutionary"])
def test_programs_are_drawn_from_the_space_that_was_asked_for(
    tmp_path: Path, measurer: Measurer, linear: Any, marked_space: str, is_marked: Any, strategy: Strategy
) -> None:
    mod, model = find_workload("matmul.128x128x128").module(), linear(np.full(172, -0.01))
    found = {}
    for name, space in (("own", marked_space), ("usual", None)):
        how = Search(model, strategy=strategy, space=space, trials_per_round=4)
        found[name] = tune(mod, "m", how, measurer, out=tmp_path / name, trials=4)

    assert [(each.space, each.trials, each.failures) for each in found.values()] == [
        (marked_space, 4, 0),
        ("default", 4, 0),
    ]
    assert is_marked(tmp_path / "own") == [True] * 4
    assert is_marked(tmp_path / "usual") == [False] * 4


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [Random(), STRATEGY], ids=["random", "evolutionary"])
def test_a_search_goes_on_from_programs_of_another_space(
    tmp_path: Path, measurer: Measurer, linear: Any, marked_space: str, is_marked: Any, strategy: Strategy
) -> None:
    mod, model = find_workload("matmul.128x128x128").module(), linear(np.full(172, -0.01))
    for space, trials in ((marked_space, 3), (None, 5)):
        how = Search(model, strategy=strategy, space=space, trials_per_round=4)
        found = tune(mod, "m", how, measurer, out=tmp_path, trials=trials)

    assert (found.space, found.trials, len(found.measured_us)) == ("default", 5, 5)
    assert is_marked(tmp_path)[:3] == [True] * 3
    assert len(is_marked(tmp_path)) == 5


def test_an_error_in_a_space_ends_the_search_with_its_name(
    tmp_path: Path, measurer: Measurer, linear: Any, marked_space: str
) -> None:
    mod, broken = find_workload("matmul.128x128x128").module(), marked_space.replace(":space", ":broken")
    for space, words in (("tensor-core", "is for cuda targets"), (broken, "failed with ValueError: no such loop")):
        how = Search(linear(np.full(172, -0.01)), space=space)
        with pytest.raises(WorkloadError, match=f"^The design space '{space}' {words}"):
            tune(mod, "m", how, measurer, out=tmp_path, trials=2)


@pytest.mark.parametrize(("asked", "size"), [(None, (64, 1)), ("default", (128, 1)), ("blocked", (64, 1))])
def test_the_size_of_the_evolution_is_that_of_the_space_asked_for(
    tmp_path: Path, measurer: Measurer, linear: Any, monkeypatch: pytest.MonkeyPatch, asked: str | None, size: Any
) -> None:
    class BegunError(Exception):
        pass

    sizes: list[tuple[int | None, int | None]] = []

    def begun(strategy: Evolutionary) -> None:
        sizes.append((strategy.population, strategy.generations))
        raise BegunError

    monkeypatch.setattr(Evolutionary, "to_tvm", begun)
    how = Search(linear(np.full(172, -0.01)), space=asked)
    with pytest.raises(WorkloadError):
        tune(convolution(1, 1, "relu"), "m", how, measurer, out=tmp_path, trials=2)

    assert sizes == [size]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["blocked in default", "packed in default", "plain in blocked"])
def test_a_kernel_keeps_its_layout_in_a_space_for_others(
    tmp_path: Path, measurer: Measurer, linear: Any, name: str
) -> None:
    kernels = {
        "blocked in default": lambda: convolution(3, 1, "relu"),
        "packed in default": lambda: dense(20, "silu"),
        "plain in blocked": lambda: find_workload("softmax.64x1000").module(),
    }
    space = name.rpartition(" ")[2]
    how = Search(linear(np.full(172, -0.01)), space=space, trials_per_round=4)

    found = tune(kernels[name](), name, how, measurer, out=tmp_path, trials=4)

    assert (found.space, found.trials) == (space, 4)
    assert found.best_us is not None
