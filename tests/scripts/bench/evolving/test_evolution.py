"""Searches with other evolutions are compared by the time of all kernels, or not at all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import click
import pytest

from scripts.bench.evolving.evolution import total_us


def results(*best_us: float | None) -> Any:
    return [SimpleNamespace(workload=f"k{number}", best_us=each) for number, each in enumerate(best_us)]


def test_the_calls_of_all_kernels_are_added_up() -> None:
    assert total_us(results(2.0, 3.0), {"k0": 1.0, "k1": 4.0}) == 14.0


def test_a_search_that_lacks_a_kernel_is_no_faster_for_it() -> None:
    with pytest.raises(click.ClickException, match="No program of k1 ran"):
        total_us(results(2.0, None), {"k0": 1.0, "k1": 4.0})
