"""Provides compile_network: a network as a library that stock TVM loads, with the schedules of a database."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costhub.collector.linker import link
from costhub.collector.network_source import NetworkSource
from costhub.collector.relax_import import fuse
from costhub.transfer.network.on_all_cores import on_all_cores
from costhub.transfer.search.database import all_known

SCHEDULED = "tirx.is_scheduled"
"""What TVM writes into a kernel whose schedule it has applied."""


@dataclass(frozen=True)
class Compiled:
    """What became of a network."""

    kernels: int
    """Distinct kernels."""
    tuned: int
    """Those of them that have a schedule of the database."""
    shared: int = 0
    """Those without one that run on all cores; the others are plain loops on one thread."""


def compile_network(
    source: NetworkSource, target: Any, database: Path | None, library: Path, *, fast_math: bool = False
) -> Compiled:
    """Writes a network as a shared library with a relax function ``main``, whose weights are in it.

    The kernels are fused as for the search and found in the database by their structure. Large ones without
    a record are shared among the cores (`on_all_cores`). Small ones, and all where there is no database, stay
    as TVM's default pipeline for CPUs leaves them: plain loops on one thread, which LLVM vectorises.

    Args:
        source: The network.
        target: A ``tvm.target.Target``.
        database: The folder of a MetaSchedule database; None for the network as TVM compiles it untuned.
        library: The file to write.
        fast_math: As in the search (`costhub.collector.network.network_workloads`).

    Raises:
        Exception: Whatever TVM raises where it cannot compile the network.
    """
    from tvm import relax

    mod, shared = fuse(source.mod, target, fast_math=fast_math), 0
    if database is not None:
        mod, shared = on_all_cores(_with_schedules(mod, target, database), target, SCHEDULED)
    mod = _with_weights(mod, source)
    executable = _build(mod, target)
    library.parent.mkdir(parents=True, exist_ok=True)
    triple = target.attrs.get("mtriple")

    def linked(path: str, objects: Sequence[str], options: Sequence[str] = ()) -> None:
        link(triple, objects, path, options)

    executable.export_library(os.fspath(library), fcompile=linked)  # TVM would call a C compiler
    kernels = [f for f in mod.functions.values() if not isinstance(f, relax.Function)]
    return Compiled(len(kernels), sum(SCHEDULED in (f.attrs or {}) for f in kernels), shared)


def _with_schedules(mod: Any, target: Any, database: Path) -> Any:
    from tvm import relax

    with target, _best_of(database, target):
        return relax.transform.MetaScheduleApplyDatabase()(mod)


def _best_of(database: Path, target: Any) -> Any:
    """The record of the best median for each workload, as the search reports it.

    TVM itself would take the best mean, and a record of any target.
    """
    from tvm.s_tir import meta_schedule as ms

    best: dict[Any, tuple[float, Any]] = {}
    for known in all_known(ms.database.JSONDatabase(work_dir=os.fspath(database)), target):
        latency_s, workload = known.latency_s, known.record.workload
        if latency_s is not None and latency_s < best.get(workload, (math.inf, None))[0]:
            best[workload] = latency_s, known.record
    chosen = ms.database.MemoryDatabase()
    for workload, (latency_s, record) in best.items():
        chosen.commit_tuning_record(
            ms.database.TuningRecord(
                record.trace, chosen.commit_workload(workload.mod), [latency_s], target, record.args_info
            )
        )
    return chosen


def _with_weights(mod: Any, source: NetworkSource) -> Any:
    """The network with its weights as constants.

    Only now: where they are constants when kernels are fused, TVM may compute with them, and the kernels
    would be others than those of the search.
    """
    import tvm
    from tvm import relax

    if source.transform is None:
        return mod
    # The weights are made here, wherever the network will run.
    machine = relax.VirtualMachine(tvm.compile(source.transform, tvm.target.Target("llvm")), tvm.cpu())
    tensors = [tvm.runtime.tensor(w.detach().contiguous().numpy()) for w in source.weights]
    params = list(mod["main"].params)[len(source.inputs) :]
    values = dict(zip(params, machine["main"](tensors), strict=True))
    return relax.transform.BindParams("main", values)(mod)


def _build(mod: Any, target: Any) -> Any:
    """TVM's default pipeline for CPUs, less the fusing that is done already."""
    import tvm
    from tvm import relax
    from tvm.relax.backend.cpu_generic import pipeline

    passes = [
        *pipeline.library_dispatch_passes(target),
        *pipeline.dataflow_lower_passes(target),
        *pipeline.finalize_passes(target),
    ]
    with target, tvm.transform.PassContext(opt_level=3):
        return relax.build(mod, target=target, relax_pipeline=tvm.transform.Sequential(passes))
