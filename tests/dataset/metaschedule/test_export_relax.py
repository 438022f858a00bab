"""Stock `compile_relax` takes the programs of an exported database for the layers of a network."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.s_tir import meta_schedule as ms

from costhub.dataset.folder import DataFolder
from costhub.dataset.metaschedule.export import export_database
from costhub.dataset.trace import program_id, replay, trace_to_json
from costhub.dataset.workload import workload_row
from tests.relax_networks import two_layers

Make = Callable[..., dict[str, Any]]

TARGET = '{"kind":"llvm","num-cores":2}'


@pytest.fixture(scope="module")
def network() -> tvm.IRModule:
    """relu(x w1) w2"""
    return two_layers(16)


def fused(network: tvm.IRModule) -> tvm.IRModule:
    """The network as TVM tunes it, and as `compile_relax` looks it up."""
    passes = relax.transform
    steps = [passes.LegalizeOps(), passes.AnnotateTIROpPattern(), passes.FoldConstant()]
    with tvm.target.Target(json.loads(TARGET)):
        return tvm.transform.Sequential([*steps, passes.FuseOps(), passes.FuseTIR()])(network)


def scheduled(mod: tvm.IRModule, *, parallel: bool) -> str:
    """A trace of the layer with its outer loop split, and parallel or not."""
    schedule = tvm.s_tir.Schedule(mod)
    outer, _ = schedule.split(schedule.get_loops(schedule.get_sblock("matmul"))[0], [None, 4])
    if parallel:
        schedule.parallel(outer)
    return trace_to_json(schedule.trace)


@pytest.fixture
def data(tmp_path: Path, network: tvm.IRModule, measurement: Make) -> DataFolder:
    """Two programs of each layer: the parallel one is the faster of the first layer's only."""
    folder = DataFolder.create(tmp_path / "data")
    tasks = ms.relax_integration.extract_tasks(fused(network), tvm.target.Target(json.loads(TARGET)))
    rows = [workload_row(t.dispatched[0], name=t.task_name, operator="matmul") for t in tasks]
    folder.put_workloads(rows)
    with folder.writer("cpu0") as writer:
        for task, row in zip(tasks, rows, strict=True):
            for parallel in (False, True):
                trace = scheduled(task.dispatched[0], parallel=parallel)
                about = {"workload_id": row["workload_id"], "trace": trace, "target": TARGET}
                fast = parallel == ("relu" in task.task_name)
                name = program_id(row["workload_id"], trace)
                writer.append(measurement(0, record_id=name, program_id=name, run_s=[1e-5 if fast else 1e-3], **about))
    return folder


def compiled(database: Any, network: tvm.IRModule) -> str:
    """The LLVM code of the network, once it has computed what it should."""
    target = tvm.target.Target(json.loads(TARGET))
    library = ms.relax_integration.compile_relax(database, network, target, None)
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=shape).astype("float32") for shape in ((32, 64), (64, 48), (48, 16))]
    machine = relax.VirtualMachine(library, tvm.cpu())
    found = machine["main"](*[tvm.runtime.tensor(value) for value in inputs]).numpy()
    expected = np.maximum(inputs[0] @ inputs[1], 0) @ inputs[2]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    return str(library.mod.imports[0].inspect_source())


def parallel_loops(code: str) -> int:
    """How many loops run in TVM's threads; TVM makes none so by itself on a CPU."""
    return sum(line.startswith("define") and "@__tvm_parallel_lambda" in line for line in code.splitlines())


def test_compile_relax_uses_the_best_program_of_every_layer(
    data: DataFolder, network: tvm.IRModule, tmp_path: Path
) -> None:
    report = export_database(data.path, tmp_path / "db", workers=1)

    database = ms.database.JSONDatabase(work_dir=str(tmp_path / "db"), allow_missing=False)
    assert (report.workloads, report.records, len(database)) == (2, 4, 4)
    without = compiled(ms.database.MemoryDatabase(), network)
    found = compiled(database, network)
    assert parallel_loops(without) == 0
    assert parallel_loops(found) == 1  # of the first layer, whose parallel program is the faster


def test_each_layer_becomes_the_schedule_that_was_exported(
    data: DataFolder, network: tvm.IRModule, tmp_path: Path
) -> None:
    export_database(data.path, tmp_path / "db", best=1, workers=1)

    database = ms.database.JSONDatabase(work_dir=str(tmp_path / "db"), allow_missing=False)
    before = fused(network)
    with tvm.target.Target(json.loads(TARGET)), database:
        after = relax.transform.MetaScheduleApplyDatabase()(before)
    layers = [v.name_hint for v in before.get_global_vars() if v.name_hint != "main"]
    assert len(layers) == 2
    for name in layers:
        mod = tvm.IRModule({"main": before[name].with_attr("global_symbol", "main")})
        expected = replay(mod, scheduled(mod, parallel="relu" in name)).mod["main"]
        assert after[name].attrs["tirx.is_scheduled"]
        tvm.ir.assert_structural_equal(after[name].body, expected.body, map_free_vars=True)
