from __future__ import annotations

from typing import Any

import pytest

from costhub.dataset.features.feature_service import SERVICE, FeatureRequest
from costhub.isolation.child import Worker


@pytest.fixture(scope="module")
def worker() -> Any:
    # The service limits the memory of its process, so it is called in one of its own.
    with Worker(SERVICE) as worker:
        yield worker


def test_it_answers_with_features_or_none_for_each_program(worker: Worker, tiny_matmul: Any) -> None:
    traces = (tiny_matmul.traces[0], tiny_matmul.bad_trace, tiny_matmul.traces[1])
    found = worker.call(FeatureRequest(tiny_matmul.module_json, tiny_matmul.target, traces), timeout_s=120)

    assert [None if rows is None else rows.shape for rows in found] == [(1, 172), None, (1, 172)]


@pytest.mark.parametrize("broken", [{"module_json": "{}"}, {"target": "{}"}])
def test_a_bad_module_or_target_gives_no_features(worker: Worker, tiny_matmul: Any, broken: dict[str, str]) -> None:
    request = {"module_json": tiny_matmul.module_json, "target": tiny_matmul.target} | broken
    found = worker.call(FeatureRequest(**request, traces=tiny_matmul.traces[:2]), timeout_s=120)

    assert found == [None, None]


def test_a_request_without_traces_loads_what_is_needed(worker: Worker, tiny_matmul: Any) -> None:
    assert worker.call(FeatureRequest(tiny_matmul.module_json, tiny_matmul.target), timeout_s=120) == []


def test_the_request_names_the_spec(worker: Worker, tiny_matmul: Any) -> None:
    request = FeatureRequest(tiny_matmul.module_json, tiny_matmul.target, tiny_matmul.traces[:1], "relation@1")

    [rows] = worker.call(request, timeout_s=120)

    assert rows.shape == (3, 123)
