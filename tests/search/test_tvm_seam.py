"""Exceptions through TVM's C++: they come out as what they were."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.collector.device.local import find_local
from costhub.collector.measurer import local_measurer
from costhub.collector.propose.sampler import Sampler
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.features.per_store import PER_STORE
from costhub.dataset.features.spec import Features
from costhub.dataset.features.specs import find_spec
from costhub.dataset.intrinsics import load_intrinsics
from costhub.dataset.programs import Programs
from costhub.dataset.trace import replay
from costhub.errors import MeasureError
from costhub.models.folder import save_model
from costhub.models.train import describe_model
from costhub.models.trees.gbt import Gbt, GbtOptions
from costhub.papers.pruner import DraftModel
from costhub.search.result import StageTimer
from costhub.search.search_model import SearchModel
from costhub.search.tvm_seam import ERROR_CLASSES, register_errors
from costhub.transfer.methods.method import Frozen


@pytest.mark.parametrize("kind", ERROR_CLASSES, ids=lambda kind: kind.__name__)
def test_an_error_in_a_callback_keeps_its_class_and_its_words(kind: type[BaseException]) -> None:
    import tvm_ffi

    def callback() -> None:
        raise kind("It is what it is.")

    register_errors()
    register_errors()
    with pytest.raises(kind, match=r"It is what it is\."):
        tvm_ffi.convert(callback)()


def test_a_class_is_not_taken_for_its_base() -> None:
    import tvm_ffi

    def callback() -> None:
        raise MeasureError("The device is gone.")

    register_errors()
    with pytest.raises(MeasureError) as caught:
        tvm_ffi.convert(callback)()
    assert type(caught.value) is MeasureError


def with_an_instruction_of_another_device() -> Any:
    """A module that no CPU target can build: it uses an instruction that only Metal has."""
    import tvm
    from tvm import te, tirx

    a = te.placeholder((64,), name="A")
    c = te.compute((64,), lambda i: a[i] + tirx.call_intrin("float32", "tirx.simdgroup_load"), name="C")
    return tvm.IRModule({"main": te.create_prim_func([a, c]).with_attr("global_symbol", "main")})


def test_inputs_become_results(target: str) -> None:
    import tvm
    from tvm.s_tir.meta_schedule.arg_info import TensorInfo
    from tvm.s_tir.meta_schedule.builder import BuilderInput
    from tvm.s_tir.meta_schedule.runner import RunnerInput

    from costhub.search.tvm_seam import TvmBuilder, TvmRunner

    program = Sampler(find_workload("softmax.64x1000").module(), target, seed=1).random(1)[0]
    bad = with_an_instruction_of_another_device()
    parsed = tvm.target.Target(json.loads(target))
    with local_measurer(find_local(["auto"])) as measurer:
        inputs = [BuilderInput(tvm.ir.load_json(program.module_json), parsed), BuilderInput(bad, parsed)]
        built = TvmBuilder(measurer.builder).build(inputs)
        assert built[0].error_msg is None
        assert built[1].artifact_path is None
        assert "simdgroup_load" in built[1].error_msg

        infos = [TensorInfo(dtype=dtype, shape=list(shape)) for dtype, shape in program.arguments]
        run_inputs = [
            RunnerInput(str(built[0].artifact_path), "cpu", infos),
            RunnerInput("/nowhere.so", "cpu", infos),
        ]
        futures = TvmRunner(measurer).run(run_inputs)
        results = [f.result() for f in futures]

    assert all(f.done() for f in futures)
    assert 1 <= len(results[0].run_secs) <= 3  # a slow program is timed once
    assert results[1].error_msg
    assert not os.path.exists(str(built[0].artifact_path))  # the builder took its files with it


@pytest.fixture(scope="module")
def context(target: str) -> Any:
    load_intrinsics("llvm")
    import tvm
    from tvm.s_tir import meta_schedule as ms

    mod = find_workload("matmul.128x128x128").module()
    return ms.TuneContext(mod, target=tvm.target.Target(json.loads(target)), space_generator="post-order-apply")


@pytest.fixture(scope="module")
def candidates(context: Any, target: str) -> list[Any]:
    from tvm.s_tir import meta_schedule as ms

    programs = Sampler(context.mod, target, seed=2).random(6)
    schedules = [replay(context.mod, p.trace) for p in programs]
    return [ms.MeasureCandidate(s, ms.arg_info.ArgInfo.from_entry_func(s.mod)) for s in schedules]


def test_tvm_gets_a_positive_score_for_each_candidate(linear: Any, context: Any, candidates: list[Any]) -> None:
    from costhub.search.tvm_seam import TvmCostModel

    scores = TvmCostModel(SearchModel(linear(np.full(172, -0.01)))).predict(context, candidates)
    assert scores.shape == (6,)
    assert (scores > 0).all()
    assert len(set(scores.tolist())) > 1


def test_results_reach_the_model_and_failures_do_not(linear: Any, context: Any, candidates: list[Any]) -> None:
    from tvm.s_tir.meta_schedule.runner import RunnerResult

    from costhub.search.tvm_seam import TvmCostModel

    model = TvmCostModel(SearchModel(linear(np.full(172, -0.01))))
    results = [RunnerResult([1e-3 * (i + 1)], None) for i in range(5)] + [RunnerResult(None, "it crashed")]
    model.update(context, candidates, results)
    model.update(context, [], [])

    (task,) = model.search_model._tasks.values()
    assert task.latency_s == pytest.approx([1e-3, 2e-3, 3e-3, 4e-3, 5e-3])


def test_a_draft_reads_traces_and_learns_with_the_model(linear: Any, context: Any, candidates: list[Any]) -> None:
    from tvm.s_tir.meta_schedule.runner import RunnerResult

    from costhub.search.tvm_seam import TvmCostModel

    full, reader = SearchModel(linear(np.full(172, -0.01))), linear(np.full(48, -0.01))
    reader.feature_spec = "trace_tokens@1"
    model = TvmCostModel(full, draft=DraftModel(full, SearchModel(reader)))
    # So few are all scored by the full model.
    alone = TvmCostModel(SearchModel(linear(np.full(172, -0.01)))).predict(context, candidates)

    assert model.predict(context, candidates) == pytest.approx(alone)
    model.update(context, candidates, [RunnerResult([1e-3 * (i + 1)], None) for i in range(6)])
    assert [search.health.updates for search in (full, model.draft.draft)] == [1, 1]
    (task,) = model.draft.draft._tasks.values()
    assert {rows.shape[1] for rows in task.features} == {48}


def test_seconds_are_told_by_stage(linear: Any, context: Any, candidates: list[Any]) -> None:
    from costhub.search.tvm_seam import TvmCostModel

    stages = StageTimer()
    TvmCostModel(SearchModel(linear(np.full(172, -0.01))), stages=stages).predict(context, candidates)

    seconds = stages.seconds()
    assert set(seconds) == {"features", "prediction", "other"}
    assert min(seconds.values()) > 0


@pytest.fixture
def extracted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many candidates each extraction of features had."""
    counts: list[int] = []
    spec = find_spec(PER_STORE)

    def counting(context: Any, candidates: Any) -> Features:
        counts.append(len(candidates))
        return spec.extract_candidates(context, candidates)

    changed = dataclasses.replace(spec, extract_candidates=counting)
    monkeypatch.setattr("costhub.search.tvm_seam.find_spec", lambda name: changed)
    return counts


def test_features_of_equal_programs_are_computed_once(
    linear: Any, context: Any, candidates: list[Any], extracted: list[int]
) -> None:
    from tvm.s_tir import meta_schedule as ms
    from tvm.s_tir.meta_schedule.runner import RunnerResult

    from costhub.search.tvm_seam import TvmCostModel

    model, alone = (
        TvmCostModel(SearchModel(linear(np.full(172, -0.01))), remembers=remembers) for remembers in (True, False)
    )
    again = [ms.MeasureCandidate(each.sch.copy(), each.args_info) for each in candidates[::-1]]

    scores = model.predict(context, [*candidates[:4], *candidates[:4]])
    assert extracted == [4]
    assert model.raw(context, again).tolist() == alone.raw(context, again).tolist()
    assert extracted == [4, 2, 6]
    model.update(context, again, [RunnerResult([1e-3 * (i + 1)], None) for i in range(6)])
    assert extracted == [4, 2, 6]
    assert scores[:4].tolist() == scores[4:].tolist()
    (task,) = model.search_model._tasks.values()
    alone.update(context, again, [RunnerResult([1e-3 * (i + 1)], None) for i in range(6)])
    (other,) = alone.search_model._tasks.values()
    assert all(np.array_equal(one, two) for one, two in zip(task.features, other.features, strict=True))


def test_features_used_longest_ago_are_forgotten(
    linear: Any, context: Any, candidates: list[Any], extracted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    from costhub.search.tvm_seam import TvmCostModel

    monkeypatch.setattr("costhub.search.tvm_seam.MOST_REMEMBERED", 2)
    model = TvmCostModel(SearchModel(linear(np.full(172, -0.01))))

    for place in (0, 1, 0, 2, 0, 1):
        model.predict(context, [candidates[place]])

    assert extracted == [1, 1, 1, 1]


def test_features_that_traces_decide_about_are_not_kept(linear: Any, context: Any, candidates: list[Any]) -> None:
    from costhub.search.tvm_seam import TvmCostModel

    reader = linear(np.full(48, -0.01))
    reader.feature_spec = "trace_tokens@1"
    model = TvmCostModel(SearchModel(reader))
    model.predict(context, candidates)

    assert model._rows == {}


def test_tvm_calls_it_through_its_own_interface(linear: Any, context: Any, candidates: list[Any]) -> None:
    from tvm.s_tir.meta_schedule.cost_model import CostModel

    from costhub.search.tvm_seam import TvmCostModel

    model = TvmCostModel(SearchModel(linear(np.full(172, -0.01))))
    through_tvm = CostModel.predict(model, context, candidates)
    assert np.asarray(through_tvm).tolist() == model.predict(context, candidates).tolist()


def test_loading_another_model_keeps_how_it_learns(linear: Any, tmp_path: Path) -> None:
    from costhub.search.tvm_seam import TvmCostModel

    features = [np.full((1, 172), float(i), np.float32) for i in range(4)]
    latency_s = np.array([1e-3, 2e-3, 3e-3, 4e-3])
    programs = Programs.from_list(features, np.zeros(4, np.int64), ("w",), latency_s)
    trained = Gbt(feature_spec=PER_STORE, options=GbtOptions(rounds=1))
    trained.fit(programs, None, seed=0, progress=False)
    info = describe_model(trained, programs, device_id="acme-one", seed=0, licence="Apache-2.0")
    save_model(trained, tmp_path / "model", info)

    model = TvmCostModel(SearchModel(linear(np.full(172, -0.01)), method=Frozen(), seed=5))
    model.load(str(tmp_path / "model"))

    found = model.search_model
    assert (found.base.arch, found.method, found.seed) == ("gbt", Frozen(), 5)
