from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.metaschedule.record import parse_record
from costhub.errors import DataError

TRACE = [[["EnterPostproc", [], [], []]], []]
ARGUMENTS = [["TENSOR", "float32", [16, 16]]]


def line(
    run_secs: Any = (1e-3,), *, workload: Any = 0, trace: Any = TRACE, arguments: Any = ARGUMENTS
) -> bytes:
    return json.dumps([workload, [trace, run_secs, {"kind": "llvm"}, arguments]]).encode()


def test_a_record_has_what_the_line_says() -> None:
    record = parse_record(line((1e-3, 2e-3), workload=7))

    assert (record.workload, record.run_s, record.target) == (7, (1e-3, 2e-3), '{"kind":"llvm"}')
    assert json.loads(record.trace) == TRACE
    assert record.arguments == (("float32", (16, 16)),)


@pytest.mark.parametrize("run_secs", [None, [1e10], [1e9], [1e-3, 1e10]])
def test_a_failure_has_no_times(run_secs: Any) -> None:
    assert parse_record(line(run_secs)).run_s == ()


@pytest.mark.parametrize("run_secs", [[], [0], [-1.0], [1e-3, float("nan")], [float("inf")], [-(10**400)]])
def test_times_that_no_program_takes_are_refused(run_secs: Any) -> None:
    with pytest.raises(DataError, match="are not all positive and finite"):
        parse_record(line(run_secs))


@pytest.mark.parametrize("run_secs", [["1"], 1.0, [True], [None], {"a": 1}])
def test_times_that_are_no_numbers_are_refused(run_secs: Any) -> None:
    with pytest.raises(DataError, match="are not a list of numbers"):
        parse_record(line(run_secs))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (line()[:-9], "it is not JSON; perhaps it was cut off"),
        (b"\xff\xfe\xfa", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"7", "it is not .workload, .trace"),
        (b'["1234","aGVsbG8="]', "it is not .workload, .trace"),
        (b'{"a":1,"b":2}', "it is not .workload, .trace"),
        (line(workload=-1), "its workload -1 is not a number from 0"),
        (line(workload=True), "its workload True"),
        (line(workload="0"), "its workload '0'"),
        (line(trace=[{}, []]), "its trace is not a pair"),
        (line(arguments=[["TENSOR", "float32"]]), "its arguments are not like"),
        (line(arguments=[["TENSOR", "float32", ["x"]]]), "its arguments are not like"),
    ],
)
def test_other_lines_are_refused(text: bytes, why: str) -> None:
    with pytest.raises(DataError, match=why):
        parse_record(text)


@given(st.binary(max_size=60) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(
    lambda value: json.dumps(value).encode()
))  # fmt: skip
def test_nothing_but_a_data_error_comes_of_any_line(text: bytes) -> None:
    with pytest.raises(DataError):
        parse_record(text)


def test_the_id_names_the_record_and_nothing_else() -> None:
    one, spaced = parse_record(line()), parse_record(json.dumps(json.loads(line()), indent=1).encode())
    others = [parse_record(line([2e-3])), parse_record(line(None)), parse_record(line(trace=[[], []]))]

    assert one.record_id("d", "w") == spaced.record_id("d", "w")
    ids = {one.record_id("d", "w"), one.record_id("e", "w"), one.record_id("d", "x")}
    assert len(ids | {other.record_id("d", "w") for other in others}) == 6
