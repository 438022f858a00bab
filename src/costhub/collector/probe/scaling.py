"""Provides thread_scaling: how much faster more threads are."""

from __future__ import annotations

from collections.abc import Sequence


def thread_scaling(gflops: Sequence[float]) -> list[float]:
    """Speed with 1, 2, ... threads relative to 1 thread.

    It ends under the number of threads where cores share a clock limit, an FPU or a hypervisor's quota.

    Example:
        >>> thread_scaling([50.0, 100.0])
        [1.0, 2.0]
    """
    return [speed / gflops[0] for speed in gflops]
