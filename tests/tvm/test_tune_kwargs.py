"""Scripts that call MetaSchedule themselves search with our models."""

from __future__ import annotations

import logging
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import costhub.tvm
from costhub.collector.device.identity import identify
from costhub.collector.device.local import local_target
from costhub.collector.workloads.suites import SuiteWorkload, find_workload
from costhub.dataset.intrinsics import load_intrinsics
from costhub.errors import ArgumentError, CosthubError, UnknownNameError, WorkloadError
from costhub.papers.autotvm import Annealing
from costhub.papers.release import Ppo
from costhub.search.search_model import PositiveScores
from costhub.search.strategies.strategy import Evolutionary, RandomTopK

QUICK = Evolutionary(population=64, generations=1)


def test_three_lines_of_a_script_search_with_a_model_of_the_hub(tmp_path: Path) -> None:
    import tvm
    from tvm.s_tir import meta_schedule as ms

    mod, target = find_workload("matmul.128x128x128").module(), tvm.target.Target(local_target())
    arguments = costhub.tvm.tune_kwargs("auto", target=target, strategy=QUICK, trials_per_round=8)

    database = ms.tune_tir(mod, target, str(tmp_path), max_trials_global=16, seed=1, **arguments)

    records = database.get_all_tuning_records()
    assert len(records) == 16
    assert sum(float(record.run_secs[0]) < 1.0 for record in records) >= 15
    assert arguments["cost_model"].search_model.health.updates == 2
    assert ms.tir_integration.compile_tir(database, mod, target) is not None


@pytest.mark.parametrize(
    ("strategy", "pressure"), [("evolutionary", 3.0), (Evolutionary(pressure=2.0), 2.0), ("annealing", 1.0)]
)
def test_better_parents_are_preferred_as_in_a_search_of_costhub(strategy: Any, pressure: float) -> None:
    asked = []
    with pytest.MonkeyPatch.context() as patch:
        own = sys.modules["costhub.tvm.tune_kwargs"]  # the package has a function of that name
        patch.setattr(own, "CostModel", lambda *_, **options: asked.append(options["pressure"]))
        costhub.tvm.tune_kwargs("auto", target=local_target(), strategy=strategy)
    scores = np.array([0.0, 1.0, 2.0])
    model = costhub.tvm.CostModel("auto", pressure=pressure).search_model

    assert asked == [pressure]
    assert model._task("t").scores(scores).tolist() == PositiveScores(pressure)(scores).tolist()


@pytest.mark.slow
def test_tvms_own_loop_measures_on_boards(
    tmp_path: Path, two_boards: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import tvm
    from tvm.s_tir import meta_schedule as ms

    # As below: a second search in one process.
    monkeypatch.setattr(ms.tir_integration, "get_loggers_from_work_dir", lambda *_: [logging.getLogger("costhub.tvm")])
    mod, target = find_workload("matmul.128x128x128").module(), tvm.target.Target(local_target())
    tracker, key = two_boards
    arguments = costhub.tvm.tune_kwargs(
        "auto", target=target, tracker=tracker, key=key, strategy=QUICK, trials_per_round=8
    )

    database = ms.tune_tir(mod, target, str(tmp_path), max_trials_global=8, seed=1, **arguments)

    assert [float(record.run_secs[0]) < 1.0 for record in database.get_all_tuning_records()] == [True] * 8


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["annealing", "ppo", "random-top-k"])
def test_tvms_own_loop_takes_our_strategies(tmp_path: Path, strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import tvm
    from tvm.s_tir import meta_schedule as ms

    small = {"annealing": Annealing(8, 3), "ppo": Ppo(8, 3, 2), "random-top-k": RandomTopK(32)}
    monkeypatch.setattr("costhub.search.strategies.by_name.find_strategy", small.__getitem__)
    load_intrinsics("llvm")  # before TVM loads those of all devices
    # TVM 0.27 cannot make the log files of a second search in one process while pytest captures its output.
    monkeypatch.setattr(ms.tir_integration, "get_loggers_from_work_dir", lambda *_: [logging.getLogger("costhub.tvm")])
    mod, target = SuiteWorkload("matmul.64", "matmul", (64, 64, 64)).module(), tvm.target.Target(local_target())
    arguments = costhub.tvm.tune_kwargs("auto", target=target, strategy=strategy, trials_per_round=8)

    database = ms.tune_tir(mod, target, str(tmp_path), max_trials_global=12, seed=1, **arguments)

    records = database.get_all_tuning_records()
    assert len({str(record.trace) for record in records}) == len(records) == 12
    assert sum(float(record.run_secs[0]) < 1.0 for record in records) >= 11


def test_an_unknown_strategy_is_refused_with_close_names() -> None:
    with pytest.raises(UnknownNameError, match="annealing"):
        costhub.tvm.tune_kwargs("auto", target=local_target(), strategy="anealing")


def test_a_target_tvm_does_not_know_is_a_sentence() -> None:
    with pytest.raises(WorkloadError, match="TVM does not know the target 'no-such-kind'"):
        costhub.tvm.tune_kwargs("auto", target="no-such-kind")


def test_a_tracker_without_a_key_is_a_sentence() -> None:
    for half in ({"tracker": "127.0.0.1:9190"}, {"key": "pi4"}):
        with pytest.raises(ArgumentError, match="belong together"):
            costhub.tvm.tune_kwargs("auto", target=local_target(), **half)


def test_a_target_that_this_machine_does_not_measure_is_a_sentence() -> None:
    with pytest.raises(ArgumentError, match="only those for its CPU"):
        costhub.tvm.tune_kwargs("auto", target="opencl")


def test_a_target_of_rocm_is_told_what_tvm_lacks() -> None:
    with pytest.raises(ArgumentError, match=r"Programs for rocm .* built without ROCm.*`costhub\.tvm\.CostModel"):
        costhub.tvm.tune_kwargs("auto", target={"kind": "rocm", "mcpu": "gfx906"})


def test_what_is_said_of_rocm_works() -> None:
    assert costhub.tvm.CostModel("amd-mi50", device=costhub.devices("amd-mi50")) is not None


def test_a_target_of_a_cpu_without_its_cores_is_a_sentence() -> None:
    import tvm

    without = {name: value for name, value in local_target().items() if name != "num-cores"}
    for target in (without, tvm.target.Target(without), "llvm"):
        with pytest.raises(ArgumentError, match=r"has no num-cores, .* Add it, as in .*local_target\(\) is the target"):
            costhub.tvm.tune_kwargs("auto", target=target)


def test_the_model_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "costhub"):
        costhub.tvm.CostModel("amd-epyc-zen5-1c")

    assert "Model costhub/" in caplog.text


@pytest.mark.skipif(platform.machine() != "x86_64", reason="an instruction set of x86")
def test_the_model_gets_the_figures_of_the_part_of_this_machine_that_the_target_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("INFO", "costhub"):
        arguments = costhub.tvm.tune_kwargs("auto", target=local_target(isa="sse4.2", threads=1))

    assert f"for {identify(isa='sse4.2', threads=1)['device_id']}." in caplog.text
    assert arguments["runner"].measurer.devices[0].target["mcpu"] == "x86-64-v2"


def test_an_unknown_model_or_method_is_refused_with_close_names() -> None:
    with pytest.raises(UnknownNameError, match="fine-tune"):
        costhub.tvm.CostModel("amd-epyc-zen5-1c", method="fine-tun")


def test_a_model_of_gpus_is_refused_for_a_cpu() -> None:
    with pytest.raises(CosthubError, match=r"is a model for cuda devices, but .* is a cpu device"):
        costhub.tvm.CostModel("nvidia-h200")
    with pytest.raises(CosthubError, match="is a model for cuda devices"):
        costhub.tvm.tune_kwargs("nvidia-h200", target=local_target())
    assert costhub.tvm.CostModel("nvidia-h200", allow_other_kind=True) is not None
