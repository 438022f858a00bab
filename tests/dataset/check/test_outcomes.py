from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costhub.dataset.check.outcomes import (
    bad_failures,
    bad_latencies,
    contradictions,
    shorter_than_its_repeats,
    unknown_statuses,
)
from costhub.dataset.schema import STATUSES


def messages(found: Any) -> list[str]:
    return [message for message, mask in found if mask.any()]


def test_every_status_of_the_schema_is_known(batch: Any) -> None:
    rows = batch(status=[*STATUSES, "fine"])
    [(_, mask)] = unknown_statuses(rows)

    assert np.flatnonzero(mask).tolist() == [len(STATUSES)]


@pytest.mark.parametrize("run_s", [[], [0.0], [1e-3, -1e-3], [float("nan")], [float("inf")], [1e-3, None]])
def test_an_ok_measurement_without_good_latencies(batch: Any, run_s: list[float]) -> None:
    [(_, mask)] = bad_latencies(batch(run_s=[[1e-3], run_s]))

    assert mask.tolist() == [False, True]


@pytest.mark.parametrize(
    ("error", "run_s", "count"),
    [("x", [], 0), (None, [], 1), (" ", [], 1), ("x", [1.0], 1), (None, [1.0], 2)],
)
def test_a_failure_with_latencies_or_without_words(batch: Any, error: str, run_s: Any, count: int) -> None:
    assert len(messages(bad_failures(batch(status=["run_error"], error=[error], run_s=[run_s])))) == count


@pytest.mark.parametrize(
    ("columns", "count"),
    [
        ({"status": ["ok"], "error": ["?"]}, 1),
        ({"status": ["build_timeout"], "run_s": [[]], "run_wall_s": [0.1]}, 1),
        ({"status": ["unknown_error"], "run_s": [[]], "run_wall_s": [0.1]}, 0),
        ({"evaluator_repeat": [3], "run_s": [[1.0, 2.0, 3.0]]}, 0),
        ({"evaluator_repeat": [3], "run_s": [[1.0]]}, 0),  # a slow program is called once
        ({"evaluator_repeat": [3], "run_s": [[1.0, 2.0]]}, 0),  # they agreed
        ({"evaluator_repeat": [3], "run_s": [[1.0, 2.0, 3.0, 4.0]]}, 1),
        ({"evaluator_repeat": [-1], "run_s": [[1.0]]}, 1),
        ({"build_s": [float("nan")]}, 1),
        ({"run_wall_s": [-1.0]}, 1),
    ],
)
def test_columns_that_cannot_be_so_together(batch: Any, columns: dict[str, Any], count: int) -> None:
    assert len(messages(contradictions(batch(**columns)))) == count


@pytest.mark.parametrize(
    ("wall_s", "number", "short"), [(6.1, 1, False), (5.0, 1, True), (6.1, 2, True), (None, 1, False)]
)
def test_a_run_shorter_than_its_repeats(batch: Any, wall_s: float, number: int, short: bool) -> None:
    rows = batch(run_s=[[1.0, 2.0, 3.0]], run_wall_s=[wall_s], evaluator_number=[number])
    [(_, mask)] = shorter_than_its_repeats(rows)

    assert mask.tolist() == [short]
