"""Provides replayed, schedules from traces, and spec_of_modules, for specs that look at a program in TVM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from costhub.dataset.features.spec import Features, FeatureSpec, checked
from costhub.dataset.programs import FloatArray
from costhub.dataset.target import parse_target
from costhub.errors import WorkloadError


def replayed(mod: Any, traces: Sequence[str], target: str) -> list[Any | None]:
    """Replays traces on one workload.

    Args:
        mod: The workload (``tvm.IRModule``).
        traces: One schedule trace as JSON per program.
        target: The TVM target as JSON; the intrinsics that its schedules may name are loaded first.

    Returns:
        One ``tvm.s_tir.Schedule`` per trace; None where it does not replay.

    Raises:
        WorkloadError: The target is not one of TVM.
    """
    from costhub.dataset.intrinsics import load_intrinsics

    load_intrinsics(str(parse_target(target).kind.name))
    return [_schedule(mod, trace) for trace in traces]


def _schedule(mod: Any, trace: str) -> Any | None:
    from costhub.dataset.trace import replay

    try:
        return replay(mod, trace)
    except WorkloadError:
        return None


def spec_of_modules(
    name: str, columns: tuple[str, ...], compute: Callable[[Any], FloatArray], *, leads: bool = False
) -> FeatureSpec:
    """A feature spec that is computed from each scheduled module by itself, before it is lowered.

    Args:
        name: Name and version.
        columns: One name per column.
        compute: From a ``tvm.IRModule`` to its rows.
        leads: As in `FeatureSpec`.
    """

    def extract(mod: Any, traces: Sequence[str], target: str) -> Features:
        return of_modules(compute, replayed(mod, traces, target))

    def extract_candidates(context: Any, candidates: Sequence[Any]) -> Features:
        del context
        return of_modules(compute, [candidate.sch for candidate in candidates])

    return FeatureSpec(name, columns, extract, extract_candidates, leads=leads)


def of_modules(compute: Callable[[Any], FloatArray], schedules: Sequence[Any | None]) -> Features:
    """Computes the features of each scheduled module by itself.

    Args:
        compute: From a ``tvm.IRModule`` to its rows.
        schedules: As `replayed` returns them.

    Returns:
        One array per schedule; None where there is no schedule or `compute` cannot read it.
    """
    return [None if schedule is None else _one(compute, schedule.mod) for schedule in schedules]


def _one(compute: Callable[[Any], FloatArray], mod: Any) -> FloatArray | None:
    try:
        return checked(compute(mod))
    except Exception:
        # TIR from strangers holds nodes that nobody has thought of; such a program has no features.
        return None
