"""Provides in_rotation: one task after the other, for comparison."""

from __future__ import annotations

from costhub.transfer.controller.task import Task


def in_rotation(task: Task) -> float:
    """A `Priority`: the task with the fewest batches comes next.

    Example:
        >>> in_rotation(Task("conv", weight=9.0)) == in_rotation(Task("relu"))
        True
    """
    return -float(len(task.batches))
