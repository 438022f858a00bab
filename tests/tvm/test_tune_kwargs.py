"""Scripts that call MetaSchedule themselves search with our models."""

from __future__ import annotations

from pathlib import Path

import pytest

import costhub.tvm
from costhub.collector.suite import find_workload
from costhub.collector.target import local_target
from costhub.errors import UnknownNameError, WorkloadError
from costhub.transfer.search.result import SearchOptions

QUICK = SearchOptions(population=64, generations=1, trials_per_round=8)


def test_three_lines_of_a_script_search_with_a_model_of_the_hub(tmp_path: Path) -> None:
    import tvm
    from tvm.s_tir import meta_schedule as ms

    mod, target = find_workload("matmul.128x128x128").module(), tvm.target.Target(local_target())
    arguments = costhub.tvm.tune_kwargs("auto", target=target, options=QUICK)

    database = ms.tune_tir(mod, target, str(tmp_path), max_trials_global=16, seed=1, **arguments)

    records = database.get_all_tuning_records()
    assert len(records) == 16
    assert sum(float(record.run_secs[0]) < 1.0 for record in records) >= 15
    assert arguments["cost_model"].search_model.health.updates == 2
    assert ms.tir_integration.compile_tir(database, mod, target) is not None


def test_a_target_tvm_does_not_know_is_a_sentence() -> None:
    with pytest.raises(WorkloadError, match="TVM does not know the target 'no-such-kind'"):
        costhub.tvm.tune_kwargs("auto", target="no-such-kind")


def test_an_unknown_model_or_method_is_refused_with_close_names() -> None:
    with pytest.raises(UnknownNameError, match="fine-tune"):
        costhub.tvm.CostModel("amd-epyc-zen5-1c", method="fine-tun")
