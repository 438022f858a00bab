"""What TVM makes of workloads and records, called here as the child processes call it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from costhub.dataset.doctor.in_children import (
    ExaminedTrace,
    ExaminedWorkload,
    examine_records,
    examine_workload,
)
from costhub.dataset.metaschedule.import_pool import ReplayedTraces


def texts(search: Any) -> tuple[str, str, list[str]]:
    """The module of workload 0, the target and the records of it."""
    workload = examine_workload(search.workloads[0])
    assert isinstance(workload, ExaminedWorkload)
    lines = [line.decode() for line in search.records if json.loads(line)[0] == 0]
    return workload.row["module_json"], json.dumps(json.loads(lines[0])[1][2]), lines


def test_a_line_of_today_stays_and_another_hash_is_mended(search: Any) -> None:
    sound = examine_workload(search.workloads[0])
    wrong = examine_workload(json.dumps(["1", json.loads(search.workloads[0])[1]]).encode())

    assert isinstance(sound, ExaminedWorkload)
    assert isinstance(wrong, ExaminedWorkload)
    assert (sound.line, sound.is_todays, sound.has_own_hash) == (search.workloads[0].decode(), True, True)
    assert (wrong.is_todays, wrong.has_own_hash) == (True, False)
    assert json.loads(wrong.line) == json.loads(search.workloads[0])
    assert wrong.structural_hash == sound.structural_hash


def test_a_workload_that_cannot_be_read_is_a_sentence(search: Any) -> None:
    assert "perhaps it was cut off" in str(examine_workload(search.workloads[0][:-300]))
    assert isinstance(examine_workload(b"{}"), str)


def test_records_stay_or_are_mended_or_say_why_not(search: Any) -> None:
    module, target, lines = texts(search)
    broken = json.loads(lines[1])
    broken[1][0][0][0][0] = "Levitate"

    reply = examine_records(module, target, [lines[0], json.dumps(broken)])

    assert isinstance(reply, ReplayedTraces)
    assert (json.loads(reply.target)["kind"], reply.device_kind) == ("llvm", "cpu")
    sound, why = reply.programs
    assert isinstance(sound, ExaminedTrace)
    assert sound.record is None
    assert "Levitate is not registered" in str(why)


def test_a_target_in_the_words_of_old_is_written_as_json(search: Any) -> None:
    module, _, lines = texts(search)
    record = json.loads(lines[0])
    record[1][2] = "llvm -num-cores 2"

    reply = examine_records(module, '"llvm -num-cores 2"', [json.dumps(record)])

    assert isinstance(reply, ReplayedTraces)
    [mended] = reply.programs
    assert isinstance(mended, ExaminedTrace)
    assert mended.record is not None
    _, run_s, target, _ = json.loads(mended.record)
    assert (run_s, target) == (record[1][1], {"kind": "llvm", "num-cores": 2})


def test_a_target_that_is_none_is_a_sentence(search: Any) -> None:
    module, _, lines = texts(search)

    assert "abacus" in str(examine_records(module, '{"kind": "abacus"}', lines))


def test_an_old_workload_is_written_in_the_form_of_today(real: Path) -> None:
    import gzip

    line = gzip.decompress((real / "bennu-tvm017/database_workload.json.gz").read_bytes()).splitlines()[0]

    old = examine_workload(line)
    assert isinstance(old, ExaminedWorkload)
    new = examine_workload(old.line.encode())

    assert isinstance(new, ExaminedWorkload)
    assert (old.is_todays, new.is_todays, new.has_own_hash) == (False, True, True)
    assert new.row["workload_id"] == old.row["workload_id"]
