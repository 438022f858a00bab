from __future__ import annotations

from typing import Any

import pytest

from costhub.dataset.check.workloads import impossible_workloads


def test_a_sound_workload(workload: Any) -> None:
    assert list(impossible_workloads(workload(0))) == []
    assert list(impossible_workloads(workload(0, networks=None))) == []
    # numpy does not know every dtype of TVM, and then says nothing of bytes.
    assert list(impossible_workloads(workload(0, dtypes=["custom[posit]8"] * 3, bytes=1.0))) == []


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"flop": -1.0}, "flop"),
        ({"flop": float("nan")}, "flop"),
        ({"shapes": "8x8"}, "shapes is not the JSON"),
        ({"shapes": "[[8,8],[8,8],[8,-8]]"}, "shapes is not the JSON"),
        ({"shapes": "[[8,8]]"}, "another number of arguments"),
        ({"dtypes": ["float16"] * 3}, "bytes is not"),
        ({"dtypes": [None] * 3}, "dtypes"),
        ({"bytes": float("nan")}, "bytes is not"),
        ({"networks": [{"name": "n", "weight": -1.0}]}, "weight"),
        ({"networks": [{"name": "n", "weight": None}]}, "weight"),
    ],
)
def test_a_workload_that_does_not_go_together(workload: Any, values: dict[str, Any], word: str) -> None:
    [message] = impossible_workloads(workload(0, **values))

    assert word in message
