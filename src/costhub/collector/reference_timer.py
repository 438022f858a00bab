"""Provides time_reference: the reference kernel on this machine, in 30 ms or in two."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from costhub.collector.arguments import on_device
from costhub.collector.reference import ARGUMENTS, reference_module

QUICK_CALLS = 3

Timer = Callable[[], tuple[float, ...]]


def time_reference(device_kind: str, target: str, *, quick: bool) -> tuple[float, ...]:
    """Seconds per call of the reference kernel, whose median is to be taken.

    Three repeats of at least 10 ms; `quick`: three single calls; the first may find cold caches.
    """
    full, calls = _timers(device_kind, target)
    return calls() if quick else full()


@cache
def _timers(device_kind: str, target: str) -> tuple[Timer, Timer]:
    import tvm

    from costhub.collector.build_service import prepare

    device = tvm.device(device_kind, 0)
    module = tvm.compile(reference_module(device_kind), target=prepare(target)).mod
    arguments = on_device(ARGUMENTS, device_kind, device)

    def timer(repeat: int, min_repeat_ms: int) -> Timer:
        evaluator = module.time_evaluator(
            "main", device, number=1, repeat=repeat, min_repeat_ms=min_repeat_ms
        )
        return lambda: tuple(float(s) for s in evaluator(*arguments).results)

    return timer(3, 10), timer(QUICK_CALLS, 0)
