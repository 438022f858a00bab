from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from costhub import crash_pool
from costhub.dataset.metaschedule.export_pool import ExportPool
from costhub.dataset.metaschedule.export_service import RecordsRequest

# JSON of the right form; TVM 0.27 reads its null as a pointer.
CRASHING = '[[["GetSBlock",[],["C","main"],["b0"]]],[[0,null]]]'


def request(tiny: Any, *traces: str) -> RecordsRequest:
    return RecordsRequest(tiny.module_json, tiny.target, tuple((trace, (1e-3,)) for trace in traces))


def test_records_come_in_the_order_of_their_requests(tiny_matmul: Any) -> None:
    requests = [request(tiny_matmul, trace) for trace in tiny_matmul.traces] * 3

    with ExportPool(workers=2) as pool:
        found = [records for [records] in pool.records(requests)]

    assert [text and text.startswith(f"[{r.programs[0][0]}") for text, r in zip(found, requests, strict=True)]
    assert found[:4] == found[4:8] == found[8:]
    assert len(set(found)) == 4


def test_a_program_that_brings_tvm_down_costs_only_itself(tiny_matmul: Any) -> None:
    good = tiny_matmul.traces

    with ExportPool(workers=1) as pool:
        [found] = pool.records([request(tiny_matmul, good[0], CRASHING, good[1])])
        [after] = pool.records([request(tiny_matmul, good[2])])

    assert [text is not None for text in found] == [True, False, True]
    assert after[0] is not None


def test_requests_are_taken_as_they_are_needed(tiny_matmul: Any) -> None:
    taken = 0

    def requests() -> Iterator[RecordsRequest]:
        nonlocal taken
        for _ in range(20):
            taken += 1
            yield request(tiny_matmul, tiny_matmul.traces[0])

    with ExportPool(workers=1) as pool:
        found = pool.records(requests())
        next(found)

        assert taken == 2


def test_leaving_in_the_middle_ends_the_children(tiny_matmul: Any) -> None:
    before = threading.active_count()

    with ExportPool(workers=1) as pool:
        next(iter(pool.records([request(tiny_matmul, tiny_matmul.traces[0])] * 9)))

    assert threading.active_count() == before


@pytest.mark.parametrize(("record_timeout_s", "good"), [(60.0, True), (0.0, False)])
def test_a_request_that_takes_too_long_is_tried_record_by_record(
    tiny_matmul: Any, record_timeout_s: float, good: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crash_pool, "_REQUEST_TIMEOUT_S", 0.0)
    monkeypatch.setattr(crash_pool, "_PIECE_TIMEOUT_S", record_timeout_s)

    with ExportPool(workers=1) as pool:
        [found] = pool.records([request(tiny_matmul, *tiny_matmul.traces[:2])])

    assert [text is not None for text in found] == [good, good]


def test_a_workload_that_tvm_cannot_read_has_no_line(tiny_matmul: Any) -> None:
    with ExportPool(workers=1) as pool:
        assert pool.workload("{}") is None
        assert pool.workload(tiny_matmul.module_json) is not None
