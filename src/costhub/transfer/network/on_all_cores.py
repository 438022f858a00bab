"""Provides on_all_cores: kernels that nobody tuned, with their outer loops shared among the cores."""

from __future__ import annotations

from math import prod
from typing import Any

from costhub.dataset.intrinsics import load_intrinsics
from costhub.dataset.workload import argument_shapes
from costhub.errors import WorkloadError

LEAST_ELEMENTS = 1 << 14
"""Of the largest argument. Below, waking the other threads takes as long as what they could take over."""
_TASKS_PER_CORE = 16
"""TVM's own number for CPUs (MetaSchedule's default rules for llvm)."""
_VECTOR_ELEMENTS = 64
"""The same."""


def on_all_cores(mod: Any, target: Any, scheduled: str) -> tuple[Any, int]:
    """Gives the kernels without a schedule the one that needs no search.

    It is MetaSchedule's own rule for kernels in which its CPU rules have nothing to choose, such as
    activations and normalisations: outer loops in parallel, the innermost one in vectors (Shao et al. 2022,
    appendix A.3: parallelise, vectorise, unroll). A search has only this one program to offer for most of
    them, which is why they are never among its tasks; left alone they run on one thread.

    Args:
        mod: A module of relax functions and kernels.
        target: A ``tvm.target.Target``.
        scheduled: Name of the attribute of kernels that have a schedule; they stay as they are.

    Returns:
        The module, and how many kernels were changed.
    """
    import tvm
    from tvm import relax

    load_intrinsics(
        str(target.kind.name)
    )  # TVM would load those of every target, which takes a quarter of a minute.
    changed = {}
    for name, function in mod.functions.items():
        if isinstance(function, relax.Function) or scheduled in (function.attrs or {}):
            continue
        alone = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
        shared = _shared(alone, target) if _is_large(alone) else None
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
        return max((prod(shape) for _, shape in argument_shapes(mod)), default=0) >= LEAST_ELEMENTS
    except WorkloadError:
        return False  # Its sizes are not known before it runs.


def _shared(mod: Any, target: Any) -> Any:
    """The kernel with its loops shared out; None where TVM finds none that it may share."""
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
    except Exception:  # Whatever TVM raises of a kernel that it cannot schedule; it stays as it is.
        return None
    return schedule.mod["main"]
