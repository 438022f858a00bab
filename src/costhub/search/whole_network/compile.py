"""Provides compile_network: a network as a library that stock TVM loads, with the schedules of a database."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from costhub.collector.build.linker import link
from costhub.collector.workloads.network_source import AS_IN_TORCH, Lowering, NetworkSource, read_network
from costhub.collector.workloads.relax_import import fuse
from costhub.dataset.intrinsics import load_intrinsics
from costhub.dataset.workload import argument_shapes
from costhub.errors import NetworkError, WorkloadError, class_and_line
from costhub.search.database import open_database
from costhub.search.strategies.search_space import read_records

MIN_ELEMENTS = 1 << 14
"""Of the largest argument. Below that, waking the other threads takes as long as the work they could take over."""
_TASKS_PER_CORE = 16
"""TVM's own number for CPUs (MetaSchedule's default rules for llvm)."""
_VECTOR_ELEMENTS = 64
"""The same."""


def parallelize_untuned(mod: Any, target: Any, scheduled: str) -> tuple[Any, int]:
    """Gives the kernels without a schedule the one that needs no search.

    It is MetaSchedule's own rule for kernels in which its CPU rules have nothing to choose, such as
    activations and normalisations: outer loops in parallel, the innermost one in vectors (Shao et al. 2022,
    appendix A.3: parallelise, vectorise, unroll). A search has only this one program to offer for most of
    them, which is why they are never among its tasks; left alone, they run on one thread.

    Args:
        mod: A module of relax functions and kernels.
        target: A ``tvm.target.Target``.
        scheduled: Name of the attribute of kernels that have a schedule; these are not changed.

    Returns:
        The module, and how many kernels were changed.
    """
    import tvm
    from tvm import relax

    # TVM itself would load the intrinsics of every target, which takes a quarter of a minute.
    load_intrinsics(str(target.kind.name))
    changed = {}
    for name, function in mod.functions.items():
        if isinstance(function, relax.Function) or scheduled in (function.attrs or {}):
            continue
        alone = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
        shared = _parallelized(alone, target) if _is_large(alone) else None
        if shared is not None:
            changed[name] = shared.with_attr("global_symbol", name.name_hint)
    if not changed:
        return mod, 0
    found = tvm.IRModule(dict(mod.functions), attrs=mod.attrs, global_infos=mod.global_infos)
    for name, function in changed.items():
        found.update_func(name, function)
    return found, len(changed)


def _is_large(mod: Any) -> bool:
    try:
        return max((prod(shape) for _, shape in argument_shapes(mod)), default=0) >= MIN_ELEMENTS
    except WorkloadError:
        return False  # Its sizes are not known before it runs.


def _parallelized(mod: Any, target: Any) -> Any:
    """The kernel with its loops distributed over threads; None if TVM finds none that it may distribute."""
    from tvm.s_tir import meta_schedule as ms

    space = ms.space_generator.PostOrderApply(
        sch_rules=[
            ms.schedule_rule.ParallelizeVectorizeUnroll(
                max_jobs_per_core=_TASKS_PER_CORE,
                max_vectorize_extent=_VECTOR_ELEMENTS,
                unroll_max_steps=[0],
                unroll_explicit=False,
            )
        ],
        postprocs=[ms.postproc.RewriteParallelVectorizeUnroll()],
        mutator_probs={},
    )
    context = ms.TuneContext(mod=mod, target=target, space_generator=space, rand_state=1, num_threads=1)
    try:
        (schedule, *_) = context.generate_design_space()
        if not all(rule.apply(schedule) for rule in space.postprocs):
            return None
    except Exception:  # Whatever TVM raises for a kernel that it cannot schedule; it is not changed.
        return None
    return schedule.mod["main"]


SCHEDULED = "tirx.is_scheduled"
"""The attribute that TVM sets on a kernel whose schedule it has applied."""


@dataclass(frozen=True)
class CompiledNetwork:
    """What became of a network."""

    kernels: int
    """Distinct kernels."""
    tuned: int
    """Those that have a schedule from the database."""
    shared: int = 0
    """Those without one that run on all cores; the others are plain loops on one thread."""
    names: tuple[str, ...] = ()
    """Of the functions that have a schedule from the database."""


def compile_network(
    source: NetworkSource, target: Any, database: Path | None, library: Path, *, fast_math: bool = False
) -> CompiledNetwork:
    """Writes a network as a shared library with a relax function ``main``, whose weights are in it.

    The kernels are fused as in the search and found in the database by their structure. Large ones without
    a record are distributed over the cores (`parallelize_untuned`). Small ones, and all if there is no database, stay
    as TVM's default pipeline for CPUs leaves them: plain loops on one thread, which LLVM vectorises.

    Args:
        source: The network.
        target: A ``tvm.target.Target``.
        database: The folder of a MetaSchedule database; None for the network as TVM compiles it untuned.
        library: The file to write.
        fast_math: As in the search (`costhub.collector.workloads.network_kernels.network_workloads`).

    Raises:
        Exception: Whatever TVM raises if it cannot compile the network.
    """
    from tvm import relax

    mod, shared = fuse(source.mod, target, fast_math=fast_math), 0
    if database is not None:
        mod, shared = parallelize_untuned(_with_schedules(mod, target, database), target, SCHEDULED)
    mod = _with_weights(mod, source)
    executable = _build(mod, target)
    library.parent.mkdir(parents=True, exist_ok=True)
    triple = target.attrs.get("mtriple")

    def linked(path: str, objects: Sequence[str], options: Sequence[str] = ()) -> None:
        link(triple, objects, path, options)

    executable.export_library(os.fspath(library), fcompile=linked)  # TVM would call a C compiler
    kernels = {var.name_hint: f for var, f in mod.functions.items() if not isinstance(f, relax.Function)}
    scheduled = tuple(sorted(name for name, f in kernels.items() if SCHEDULED in (f.attrs or {})))
    return CompiledNetwork(len(kernels), len(scheduled), shared, scheduled)


def _with_schedules(mod: Any, target: Any, database: Path) -> Any:
    from tvm import relax

    with target, _best_of(database, target):
        return relax.transform.MetaScheduleApplyDatabase()(mod)


def _best_of(database: Path, target: Any) -> Any:
    """The record with the best median for each workload, as the search reports it.

    TVM itself would take the best mean, and a record of any target.
    """
    from tvm.s_tir import meta_schedule as ms

    best: dict[Any, tuple[float, Any]] = {}
    for known in read_records(open_database(database), target, unmeasured=True):
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

    This is done only now: if they are constants when kernels are fused, TVM may compute with them, and the
    kernels would differ from those of the search.
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
    """TVM's default pipeline for CPUs, without the fusing, which is already done."""
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


@dataclass(frozen=True)
class BuiltNetwork:
    """A network with the schedules of a database, and without."""

    compiled: CompiledNetwork
    inputs: tuple[Any, ...]
    """An example of each input, as NumPy arrays."""


def build_network(
    network: str, target: str, database: str, *, tuned: str, untuned: str, lowering: Lowering = AS_IN_TORCH
) -> BuiltNetwork:
    """Compiles a network twice, which may crash TVM: to be called in a child process.

    Args:
        network: What `read_network` takes.
        target: The TVM target, as JSON.
        database: The folder of the MetaSchedule database.
        tuned: The library to write with the database.
        untuned: The library to write without it, as TVM does by default.
        lowering: That of the first library, as in the search; the second has the kernels that TVM makes on its own.

    Raises:
        NetworkError: Torch or TVM fails.
    """
    import numpy as np
    import tvm

    try:
        tvm_target = tvm.target.Target(json.loads(target))
        load_intrinsics(str(tvm_target.kind.name))
        source = read_network(network)
        tuned_source = source.in_blocks(lowering.lanes(target), bf16_unit=lowering.bf16_unit(target))
        compiled = compile_network(tuned_source, tvm_target, Path(database), Path(tuned), fast_math=lowering.fast_math)
        compile_network(source, tvm_target, None, Path(untuned))
    except Exception as error:
        raise NetworkError(class_and_line(error)) from error
    return BuiltNetwork(compiled, tuple(distinguishing_input(np.asarray(value)) for value in source.inputs))


def distinguishing_input(example: Any) -> Any:
    """An input whose outputs tell networks apart: floating point numbers that are all equal become random in [0.1, 1).

    People export networks with `torch.zeros`. Integers may be indices, so they stay; a network may take the
    root of a number, so none is negative.

    Example:
        >>> import numpy as np
        >>> bool(distinguishing_input(np.zeros(2)).std() > 0), distinguishing_input(np.array([1.0, 2.0]))
        (True, array([1., 2.]))
    """
    import numpy as np

    if example.dtype.kind != "f" or example.size < 2 or example.std() > 0:
        return example
    return np.random.default_rng(0).uniform(0.1, 1.0, example.shape).astype(example.dtype)
