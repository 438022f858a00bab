from __future__ import annotations

import base64
import json
from typing import Any

import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import te
from tvm.s_tir import meta_schedule as ms

from costhub.dataset.metaschedule.export_pool import (
    ExportPool,
    RecordsCall,
    WorkloadLine,
    record_texts,
    usable,
    workload_line,
)
from costhub.dataset.metaschedule.lines import STORED_FAILURE_S, parse_record
from costhub.dataset.trace import trace_to_json
from costhub.dataset.workload import module_from_json, module_to_json
from costhub.isolation.child import Child

# JSON of the right form; TVM 0.27 reads its null as a pointer.
CRASHING_TRACE = '[[["GetSBlock",[],["C","main"],["b0"]]],[[0,null]]]'
# Latencies from a nanosecond to hours, and whatever double lies between.
run_s = st.lists(st.floats(1e-9, 1e4), max_size=5).map(tuple)


def records(tiny: Any, *programs: tuple[str, tuple[float, ...]], target: str | None = None) -> Any:
    return record_texts(tiny.module_json, target or tiny.target, programs)


def test_a_workload_gets_the_line_that_tvm_writes(tiny_matmul: Any, tmp_path: Any) -> None:
    database = ms.database.JSONDatabase(work_dir=str(tmp_path))
    database.commit_workload(module_from_json(tiny_matmul.module_json))

    line = workload_line(tiny_matmul.module_json)

    assert isinstance(line, WorkloadLine)
    assert line.text + "\n" == (tmp_path / "database_workload.json").read_text()
    assert json.loads(line.text)[0] == line.structural_hash
    blob = base64.b64decode(json.loads(line.text)[1])
    assert int.from_bytes(blob[:8], "little") == len(blob) - 8


def test_what_is_no_module_gets_no_line() -> None:
    assert workload_line("{}") is None
    assert record_texts("{}", '{"kind":"llvm"}', [("[[],[]]", (1.0,))]) == [None]


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 3), run_s), max_size=4))
def test_tvm_reads_every_record_as_it_was_measured(
    tiny_matmul: Any, measured: list[tuple[int, tuple[float, ...]]]
) -> None:
    workload = ms.database.Workload(module_from_json(tiny_matmul.module_json))

    found = records(tiny_matmul, *((tiny_matmul.traces[i], seconds) for i, seconds in measured))

    for (i, seconds), text in zip(measured, found, strict=True):
        record = ms.database.TuningRecord.from_json(json.loads(text), workload)
        assert trace_to_json(record.trace) == tiny_matmul.traces[i]
        assert tuple(s.value for s in record.run_secs) == (seconds or (STORED_FAILURE_S,))
        assert str(record.target) == str(tvm.target.Target(json.loads(tiny_matmul.target)))
        ours = parse_record(f"[0,{text}]".encode())
        assert (ours.trace, ours.run_s, ours.target) == (tiny_matmul.traces[i], seconds, tiny_matmul.target)


def test_the_arguments_are_those_of_the_scheduled_program(tiny_matmul: Any) -> None:
    mod = module_from_json(tiny_matmul.module_json)
    schedule = tvm.s_tir.Schedule(mod)
    # What MetaSchedule's layout rewrite does: the caller of the program passes B as 4 x 16 x 4.
    schedule.transform_layout(schedule.get_sblock("C"), ("read", 1), lambda k, j: [j // 4, k, j % 4], pad_value=None)
    trace = trace_to_json(schedule.trace)

    [text] = records(tiny_matmul, (trace, (1e-3,)))

    expected = ms.arg_info.ArgInfo.from_entry_func(schedule.mod, remove_preproc=True)
    assert json.loads(text)[3] == [[*map(str, a.as_json()[:2]), list(a.shape)] for a in expected]
    assert [info[2] for info in json.loads(text)[3]] == [[16, 16], [4, 16, 4], [16, 16]]


@pytest.mark.parametrize("trace", ["", "{", "[[],[]", "[[NaN],[]]", "null", "[[],[],[]]"])
def test_a_trace_that_does_not_replay_costs_only_itself(tiny_matmul: Any, trace: str) -> None:
    found = records(tiny_matmul, (tiny_matmul.traces[0], (1.0,)), (trace, (1.0,)), (tiny_matmul.bad_trace, ()))

    assert [text is not None for text in found] == [True, False, False]


def test_what_tvm_would_not_load_is_refused(tiny_matmul: Any) -> None:
    # Python's JSON knows NaN and TVM's does not: one such record would make the database unreadable.
    annotated = '[[["GetSBlock",[],["C","main"],["b0"]],["Annotate",["b0",NaN],["x"],[]]],[]]'

    assert records(tiny_matmul, (annotated, (1.0,)), (tiny_matmul.traces[0], (float("nan"),))) == [None, None]
    assert records(tiny_matmul, (tiny_matmul.traces[0], (1.0,)), target='{"kind":"abacus"}') == [None]


def test_only_positive_finite_seconds_rank() -> None:
    assert usable((1e-3, 2e-3))
    for seconds in ((), (0.0,), (1e-3, -1.0), (float("inf"),), (float("nan"),), (1e-3, STORED_FAILURE_S)):
        assert not usable(seconds)


@pytest.mark.slow
def test_a_trace_may_name_the_tensor_intrinsics_of_its_target() -> None:
    a, b = te.placeholder((4,), "uint8", name="A"), te.placeholder((16, 4), "int8", name="B")
    k = te.reduce_axis((0, 4), name="k")
    product = te.compute((16,), lambda i: te.sum(a[k].astype("int32") * b[i, k].astype("int32"), axis=k), "C")
    mod = tvm.IRModule({"main": te.create_prim_func([a, b, product]).with_attr("global_symbol", "main")})
    trace = (
        '[[["GetSBlock",[],["C","main"],["b0"]],["GetLoops",["b0"],[],["l1","l2"]],'
        '["DecomposeReduction",["b0","l1"],[],["b3"]],["Tensorize",["l1"],["dot_16x4_vnni",true],[]]],[]]'
    )
    args = module_to_json(mod), '{"kind":"llvm","num-cores":2}', [(trace, (1e-3,))]

    with Child(is_shared=False) as child:  # a process in which nobody has asked for the intrinsics yet
        [text] = child.call(record_texts, *args, timeout_s=120)

    assert text is not None
    assert "dot_16x4_vnni" in text


def request(tiny: Any, *traces: str) -> RecordsCall:
    return (tiny.module_json, tiny.target, tuple((trace, (1e-3,)) for trace in traces))


@pytest.mark.slow
def test_records_come_in_the_order_of_their_requests(tiny_matmul: Any) -> None:
    requests = [request(tiny_matmul, trace) for trace in tiny_matmul.traces] * 3

    with ExportPool(workers=2) as pool:
        found = [records for [records] in pool.records(requests)]

    assert all(text and text.startswith(f"[{r[2][0][0]}") for text, r in zip(found, requests, strict=True))
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
