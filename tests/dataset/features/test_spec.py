from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costhub.dataset.features.spec import features_of_modules, replay_schedules, slog
from costhub.dataset.workload import module_from_json
from costhub.errors import WorkloadError


@pytest.mark.parametrize(
    ("x", "expected"), [(0, 0), (1, 1), (-3, -2), (float("inf"), 0), (10**400, 1328.771237954945), (True, 1)]
)
def test_counts_are_on_a_log_scale_whatever_they_are(x: float, expected: float) -> None:
    assert slog(x) == pytest.approx(expected)


def test_what_does_not_replay_is_none_and_costs_only_itself(tiny_matmul: Any) -> None:
    traces = [tiny_matmul.traces[0], tiny_matmul.bad_trace, "[1]", tiny_matmul.traces[1]]

    found = replay_schedules(module_from_json(tiny_matmul.module_json), traces, tiny_matmul.target)

    assert [schedule is not None for schedule in found] == [True, False, False, True]


def test_a_target_that_tvm_does_not_accept_is_refused(tiny_matmul: Any) -> None:
    with pytest.raises(WorkloadError):
        replay_schedules(module_from_json(tiny_matmul.module_json), tiny_matmul.traces, '{"kind":"abacus"}')


def test_a_module_that_cannot_be_read_has_no_features(tiny_matmul: Any) -> None:
    schedules = replay_schedules(module_from_json(tiny_matmul.module_json), tiny_matmul.traces[:2], tiny_matmul.target)
    answers = iter([np.ones((1, 2), np.float32), np.full((1, 2), np.nan, np.float32)])

    assert [rows is not None for rows in features_of_modules(lambda _: next(answers), schedules)] == [True, False]
    assert features_of_modules(lambda mod: mod.nothing_of_this_name, [*schedules, None]) == [None, None, None]
