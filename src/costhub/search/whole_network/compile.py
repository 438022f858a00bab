"""Provides compile_network: a network as a library that stock TVM loads, with the schedules of a database."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from costhub.collector.build.linker import export_linked
from costhub.collector.workloads.network_source import AS_IN_TORCH, Lowering, NetworkSource, read_network
from costhub.collector.workloads.relax_import import fuse
from costhub.dataset.intrinsics import load_intrinsics
from costhub.errors import NetworkError, class_and_line
from costhub.search.database import open_database
from costhub.search.result import READING, StageTimer
from costhub.search.strategies.search_space import read_records
from costhub.search.whole_network.default_schedules import is_gpu, schedule_untuned, scheduled_kernels
from costhub.search.whole_network.prefetch import prefetch_weights

COMPILING, COMPILING_UNTUNED = "compiling", "compiling untuned"
"""Stages: compiling a network with the schedules of a database, and as TVM does by default."""


@dataclass(frozen=True)
class CompiledNetwork:
    """What became of a network."""

    kernels: int
    """Distinct kernels."""
    tuned: int
    """Those that have a schedule from the database."""
    shared: int = 0
    """Those without one that have a default schedule; the others are plain loops on one thread."""
    names: tuple[str, ...] = ()
    """Of the functions that have a schedule from the database."""


def compile_network(
    source: NetworkSource,
    target: Any,
    database: Path | None,
    library: Path,
    *,
    fast_math: bool = False,
    prefetch: bool = True,
) -> CompiledNetwork:
    """Writes a network as a shared library with a relax function ``main``, whose weights are in it.

    The kernels are fused as in the search and found in the database by their structure. Those without a record get
    default schedules (`schedule_untuned`). On a CPU, small kernels, and all kernels if there is no database, are left
    as TVM's default pipeline makes them: plain loops on one thread, which LLVM vectorises.

    Args:
        source: The network.
        target: A ``tvm.target.Target``.
        database: The folder of a MetaSchedule database; None for the network as TVM compiles it untuned.
        library: The file to write.
        fast_math: As in the search (`costhub.collector.workloads.network_kernels.network_workloads`).
        prefetch: Whether scheduled kernels fetch their weights ahead (`prefetch_weights`).

    Raises:
        Exception: Whatever TVM raises if it cannot compile the network.
    """
    from tvm import relax

    names: tuple[str, ...] = ()
    mod, shared = fuse(source.mod, target, fast_math=fast_math), 0
    if database is not None:
        mod = _with_schedules(mod, target, database)
        names = scheduled_kernels(mod)
    if database is not None or is_gpu(target):
        mod, shared = schedule_untuned(mod, target)
    if prefetch:
        mod, _ = prefetch_weights(mod, target)
    kernels = sum(not isinstance(function, relax.Function) for function in mod.functions.values())
    executable = _build(_with_weights(mod, source), target)
    library.parent.mkdir(parents=True, exist_ok=True)
    host = target if target.host is None else target.host
    export_linked(executable, os.fspath(library), host.attrs.get("mtriple"))
    return CompiledNetwork(kernels, len(names), shared, names)


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
    """TVM's default pipeline for the target, without the fusing and the schedules, which are already done."""
    import tvm
    from tvm import relax
    from tvm.relax.backend import cpu_generic, gpu_generic

    # (TVM's pipeline for CUDA differs from that of all GPUs by a pass that is off unless asked for.)
    pipeline = (gpu_generic if is_gpu(target) else cpu_generic).pipeline
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
    stages: dict[str, float] = field(default_factory=dict)
    """Stage -> seconds: reading the network, and compiling it once or twice."""


def build_network(
    network: str, target: str, database: str, *, tuned: str, untuned: str | None, lowering: Lowering = AS_IN_TORCH
) -> BuiltNetwork:
    """Compiles a network, with `untuned` twice, which may crash TVM: to be called in a child process.

    Args:
        network: What `read_network` takes.
        target: The TVM target, as JSON.
        database: The folder of the MetaSchedule database.
        tuned: The library to write with the database.
        untuned: The library to write without it, as TVM does by default; None for no such library.
        lowering: That of the first library, as in the search; the second has the kernels that TVM makes on its own.

    Raises:
        NetworkError: Torch or TVM fails.
    """
    stages = StageTimer(READING)
    import numpy as np
    import tvm

    try:
        tvm_target = tvm.target.Target(json.loads(target))
        load_intrinsics(str(tvm_target.kind.name))
        lanes, bf16_unit = lowering.lanes(target), lowering.bf16_unit(target)
        # The plain form takes seconds to make, and nothing but the untuned library has a use for it.
        first: dict[str, Any] = {"lanes": lanes, "bf16_unit": bf16_unit} if untuned is None else {}
        source = read_network(network, **first)
        tuned_source = source if untuned is None else source.in_blocks(lanes, bf16_unit=bf16_unit)
        with stages.during(COMPILING):
            compiled = compile_network(
                tuned_source, tvm_target, Path(database), Path(tuned), fast_math=lowering.fast_math
            )
        if untuned is not None:
            with stages.during(COMPILING_UNTUNED):
                compile_network(source, tvm_target, None, Path(untuned))
    except Exception as error:
        raise NetworkError(class_and_line(error)) from error
    inputs = tuple(distinguishing_input(np.asarray(value)) for value in source.inputs)
    return BuiltNetwork(compiled, inputs, stages.seconds())


def build_untuned(network: str, target: str, untuned: str) -> CompiledNetwork:
    """Compiles a network as TVM does by default, which may crash TVM: to be called in a child process.

    Args:
        network: What `read_network` takes.
        target: The TVM target, as JSON.
        untuned: The library to write.

    Raises:
        NetworkError: Torch or TVM fails.
    """
    import tvm

    try:
        return compile_network(read_network(network), tvm.target.Target(json.loads(target)), None, Path(untuned))
    except Exception as error:
        raise NetworkError(class_and_line(error)) from error


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
