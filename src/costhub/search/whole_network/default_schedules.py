"""Provides schedule_untuned: schedules that need no search, for the kernels of a network that none has touched."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from costhub.dataset.intrinsics import load_intrinsics
from costhub.dataset.workload import argument_shapes
from costhub.errors import WorkloadError
from costhub.search.whole_network.one_pass import in_one_pass, in_one_region

SCHEDULED = "tirx.is_scheduled"
"""The attribute that TVM sets on a kernel whose schedule it has applied."""
MIN_ELEMENTS = 1 << 14
"""Of the largest argument. Below that, waking the other threads takes as long as the work they could take over."""
_TASKS_PER_CORE = 16
"""TVM's own number for CPUs (MetaSchedule's default rules for llvm)."""
_VECTOR_ELEMENTS = 64
"""The same."""


def schedule_untuned(mod: Any, target: Any) -> tuple[Any, int]:
    """Gives the kernels without a schedule one that needs no search.

    On CPUs, large kernels that move numbers do so in one pass, and those that end in a large step do all of theirs in
    it (``one_pass``). Other large ones get MetaSchedule's own rule for kernels in which its CPU rules have nothing to
    choose, such as activations and normalisations: outer loops in parallel, the innermost one in vectors (Shao et al.
    2022, appendix A.3: parallelise, vectorise, unroll). A search has only this one program to offer for most of them,
    which is why they are never among its tasks; left alone, they run on one thread. Small ones stay as they are.

    On GPUs, every kernel gets a schedule of TVM's dlight (``tvm/s_tir/dlight/gpu``): no kernel runs without threads.

    Args:
        mod: A module of relax functions and kernels; those with the attribute `SCHEDULED` are not changed.
        target: A ``tvm.target.Target``.

    Returns:
        The module, and how many kernels were changed.
    """
    # TVM itself would load the intrinsics of every target, which takes a quarter of a minute.
    load_intrinsics(str(target.kind.name))
    return _on_gpu(mod, target) if is_gpu(target) else _on_cores(mod, target)


def is_gpu(target: Any) -> bool:
    """Whether a ``tvm.target.Target`` is for GPUs, on which no kernel runs without a schedule."""
    return "gpu" in target.keys


def _on_gpu(mod: Any, target: Any) -> tuple[Any, int]:
    from tvm.s_tir import dlight

    rules = dlight.gpu  # In TVM's own order (tvm/relax/backend/gpu_generic/pipeline.py).
    in_order = (rules.Matmul(), rules.GEMV(), rules.Reduction(), rules.GeneralReduction(), rules.Fallback())
    before = len(scheduled_kernels(mod))  # TVM changes the module in place.
    with target:
        mod = dlight.ApplyDefaultSchedule(*in_order)(mod)
    return mod, len(scheduled_kernels(mod)) - before


def _on_cores(mod: Any, target: Any) -> tuple[Any, int]:
    import tvm
    from tvm import relax

    cores, changed = int(target.attrs.get("num-cores", 1)), {}
    for name, function in mod.functions.items():
        if isinstance(function, relax.Function) or SCHEDULED in (function.attrs or {}):
            continue
        alone = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
        shared = None
        if _is_large(alone):
            shared = in_one_pass(alone, cores) or in_one_region(alone, cores) or _parallelized(alone, target)
        if shared is not None:
            changed[name] = shared.with_attr("global_symbol", name.name_hint)
    return with_functions(mod, changed), len(changed)


def with_functions(mod: Any, changed: Mapping[Any, Any]) -> Any:
    """A module with other functions under some of its names; the module itself if there are none.

    Args:
        mod: The module, which is not changed.
        changed: ``GlobalVar`` of the module -> function.
    """
    import tvm

    if not changed:
        return mod
    found = tvm.IRModule(dict(mod.functions), attrs=mod.attrs, global_infos=mod.global_infos)
    for name, function in changed.items():
        found.update_func(name, function)
    return found


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


def scheduled_kernels(mod: Any) -> tuple[str, ...]:
    """The names of the kernels that have a schedule, in order.

    Args:
        mod: A module of relax functions and kernels.
    """
    from tvm import relax

    kernels = {v.name_hint: f for v, f in mod.functions.items() if not isinstance(f, relax.Function)}
    return tuple(sorted(name for name, f in kernels.items() if SCHEDULED in (f.attrs or {})))
