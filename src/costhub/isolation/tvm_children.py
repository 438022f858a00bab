"""Provides tvm_child and tvm_pool: child processes in which TVM reads what strangers wrote."""

from __future__ import annotations

from collections.abc import Mapping

from costhub.isolation.child import Child
from costhub.isolation.limits import FOR_STRANGERS, Limits
from costhub.isolation.pool import ChildPool
from costhub.isolation.process import WITHOUT_TORCH


def tvm_child(
    *, limits: Limits = FOR_STRANGERS, environment: Mapping[str, str] | None = None, is_shared: bool = True
) -> Child:
    """A child process with TVM and without PyTorch, for modules, traces and targets that may crash it.

    Args:
        limits: As for `Child`.
        environment: As for `Child`; the variable that keeps PyTorch out is added.
        is_shared: As for `Child`.

    Example:
        >>> with tvm_child() as child:
        ...     child.call(sorted, [3, 1, 2], timeout_s=60)
        [1, 2, 3]
    """
    return Child(
        prepare=load_tvm, environment={**(environment or {}), **WITHOUT_TORCH}, limits=limits, is_shared=is_shared
    )


def tvm_pool(size: int | None = None) -> ChildPool:
    """A pool of child processes like those of `tvm_child`.

    Args:
        size: As for `ChildPool`.

    Example:
        >>> with tvm_pool(1) as pool:
        ...     pool.call(sorted, [3, 1, 2])
        [1, 2, 3]
    """
    return ChildPool(size, prepare=load_tvm, environment=WITHOUT_TORCH, limits=FOR_STRANGERS)


def load_tvm() -> None:
    """Imports TVM, for `prepare`: this takes seconds, which then do not count towards any call."""
    import tvm  # noqa: F401
