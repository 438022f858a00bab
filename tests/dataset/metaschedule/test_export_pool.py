from __future__ import annotations

from typing import Any

import pytest

from costhub.dataset.metaschedule.export_pool import ExportPool
from costhub.dataset.metaschedule.export_service import RecordsRequest

# JSON of the right form; TVM 0.27 reads its null as a pointer.
CRASHING_TRACE = '[[["GetSBlock",[],["C","main"],["b0"]]],[[0,null]]]'


def request(tiny: Any, *traces: str) -> RecordsRequest:
    return RecordsRequest(tiny.module_json, tiny.target, tuple((trace, (1e-3,)) for trace in traces))


def test_records_come_in_the_order_of_their_requests(tiny_matmul: Any) -> None:
    requests = [request(tiny_matmul, trace) for trace in tiny_matmul.traces] * 3

    with ExportPool(workers=2) as pool:
        found = [records for [records] in pool.records(requests)]

    assert [text and text.startswith(f"[{r.programs[0][0]}") for text, r in zip(found, requests, strict=True)]
    assert found[:4] == found[4:8] == found[8:]
    assert len(set(found)) == 4


@pytest.mark.slow
def test_a_program_that_brings_tvm_down_costs_only_itself(tiny_matmul: Any) -> None:
    good = tiny_matmul.traces

    with ExportPool(workers=1) as pool:
        [found] = pool.records([request(tiny_matmul, good[0], CRASHING_TRACE, good[1])])
        [after] = pool.records([request(tiny_matmul, good[2])])

    assert [text is not None for text in found] == [True, False, True]
    assert after[0] is not None


def test_a_workload_that_tvm_cannot_read_has_no_line(tiny_matmul: Any) -> None:
    with ExportPool(workers=1) as pool:
        assert pool.workload("{}") is None
        assert pool.workload(tiny_matmul.module_json) is not None
