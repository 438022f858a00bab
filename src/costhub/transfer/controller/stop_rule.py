"""Provides StopRule: the interface of rules that decide when the measuring of a task ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from costhub.transfer.controller.batch import Batch


class StopRule(Protocol):
    """Looks at all batches of a task; one rule serves any number of tasks."""

    def goes_on(self, batches: Sequence[Batch]) -> bool:
        """Whether the task should be measured further.

        Args:
            batches: All that was measured of it, one batch at the least, in the order of measuring.
        """
