from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costhub.dataset.features.replayed import of_modules, replayed
from costhub.dataset.workload import module_from_json
from costhub.errors import WorkloadError


def test_what_does_not_replay_is_none_and_costs_only_itself(tiny_matmul: Any) -> None:
    traces = [tiny_matmul.traces[0], tiny_matmul.bad_trace, "[1]", tiny_matmul.traces[1]]

    found = replayed(module_from_json(tiny_matmul.module_json), traces, tiny_matmul.target)

    assert [schedule is not None for schedule in found] == [True, False, False, True]


def test_a_target_that_is_none_of_tvm_is_refused(tiny_matmul: Any) -> None:
    with pytest.raises(WorkloadError):
        replayed(module_from_json(tiny_matmul.module_json), tiny_matmul.traces, '{"kind":"abacus"}')


def test_a_module_that_cannot_be_read_has_no_features(tiny_matmul: Any) -> None:
    schedules = replayed(
        module_from_json(tiny_matmul.module_json), tiny_matmul.traces[:2], tiny_matmul.target
    )
    answers = iter([np.ones((1, 2), np.float32), np.full((1, 2), np.nan, np.float32)])

    assert [rows is not None for rows in of_modules(lambda _: next(answers), schedules)] == [True, False]
    assert of_modules(lambda mod: mod.nothing_of_this_name, [*schedules, None]) == [None, None, None]
