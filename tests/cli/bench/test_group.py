"""`costhub bench`: the group that names its benchmarks."""

from __future__ import annotations

from typing import Any


def test_the_group_lists_its_benchmarks(costhub: Any) -> None:
    done = costhub("bench", "--help")

    assert done.code == 0
    assert "search  Replay searches among programs" in done.out


def test_a_mistyped_benchmark_is_named(costhub: Any) -> None:
    done = costhub("bench", "serch")

    assert done.code == 2
    assert "Did you mean search" in done.err
