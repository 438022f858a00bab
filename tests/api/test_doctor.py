from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import costhub
from costhub.api.doctor import CleanCopy
from costhub.errors import ArgumentError, DataError, DeviceError, UnknownNameError, WorkloadError


def test_a_diagnosis_prints_as_the_command_does(searched: Path, tmp_path: Path) -> None:
    found = costhub.doctor(searched, fix=tmp_path / "clean", workers=1, progress=False)

    assert (found.errors, found.warnings, list(found.findings)) == (0, 0, [])
    assert list(found.to_pandas().columns) == ["rule", "severity", "where", "message"]
    assert str(found).endswith(f"Wrote 12 records of 2 workloads to {tmp_path / 'clean'}.")
    assert found.manifest()["identity"] == found.identity
    assert costhub.doctor(tmp_path / "clean", workers=1, progress=False).identity == found.identity


@pytest.mark.slow
def test_each_untuned_kernel_of_a_network_is_one_finding_whatever_the_layouts(searched: Path) -> None:
    found = costhub.doctor(searched, network="bert_tiny", workers=1, progress=False)

    assert found.coverage is not None
    assert found.coverage.tuned == 0
    assert found.examination.log.counts["DB15"] == len(found.coverage.kernels) > 1
    assert found.coverage.default_schedule["too little work"] > 1
    frame = found.to_pandas()
    assert list(frame.columns) == ["rule", "severity", "where", "message"]
    assert list(frame["message"]) == [finding.message for finding in found.findings]
    assert list(frame["rule"]).count("DB15") == len(found.coverage.kernels)


def with_targets(searched: Path, place: Path, more: dict[str, Any]) -> Path:
    """A copy of a database whose records have other targets."""
    shutil.copytree(searched, place)
    records = place / "database_tuning_record.json"
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    for _, record in lines:
        record[2] |= more
    records.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return place


def test_a_machine_on_which_llvm_crashes_costs_a_child(searched: Path, tmp_path: Path) -> None:
    folder = with_targets(searched, tmp_path / "db", {"mtriple": "../../x-linux-gnu"})

    with pytest.raises(
        DataError, match=r"LLVM crashes on the target of the records, .*x-linux-gnu.* Leave --network out"
    ):
        costhub.doctor(folder, network="bert_tiny", replay=False, workers=1, progress=False)


@pytest.mark.slow
def test_llvm_does_not_print_a_cpu_of_a_database_here(
    searched: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = with_targets(searched, tmp_path / "db", {"mcpu": "no-such-cpu"})

    found = costhub.doctor(folder, network="bert_tiny", replay=False, workers=1, progress=False)

    assert found.coverage is not None
    assert "no-such-cpu" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("change", "why"),
    [({"mcpu": "\x1b[31mRED"}, "cannot be printed"), ({"cl-opt": ["-x:bool=1"]}, "no options of LLVM")],
)
def test_a_target_that_tune_would_refuse_is_no_good_record(
    searched: Path, tmp_path: Path, change: dict[str, Any], why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = with_targets(searched, tmp_path / "db", change)

    found = costhub.doctor(folder, replay=False, workers=1, progress=False)

    assert why in str(found)
    assert "\x1b" not in str(found) + capfd.readouterr().err
    with pytest.raises(DataError, match="has no good record"):
        costhub.doctor(folder, network="bert_tiny", replay=False, workers=1, progress=False)


def test_folders_are_merged(searched: Path, tmp_path: Path) -> None:
    report = costhub.merge([searched, searched], tmp_path / "all", workers=1, progress=False)

    assert (report.records, report.duplicates) == (12, 12)


def test_what_cannot_be_done_is_said_before_anything_is_read(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"

    with pytest.raises(ArgumentError, match="run is 0; it must be 1 or more"):
        costhub.doctor(nowhere, run=0)
    with pytest.raises(ArgumentError, match="need replayed schedules"):
        costhub.doctor(nowhere, replay=False, run="all")
    (tmp_path / "net.onnx").write_bytes(b"")
    with pytest.raises(WorkloadError, match="is an ONNX model"):
        costhub.doctor(nowhere, network=str(tmp_path / "net.onnx"))


def test_a_target_is_attributes_or_a_device(searched: Path) -> None:
    assert len(costhub.doctor(searched, target='{"kind": "llvm"}', replay=False).examination.records) == 12
    assert len(costhub.doctor(searched, target="auto", replay=False).examination.records) == 12
    with pytest.raises(DataError, match=r'"arch": "sm_80"\}, only for '):
        costhub.doctor(searched, target="nvidia-a100", replay=False)
    for text, words in (("{", "is not JSON; write for example"), ("{}", "is empty; write for example")):
        with pytest.raises(ArgumentError, match=words):
            costhub.doctor(searched, target=text)
    with pytest.raises(UnknownNameError, match="There is no device named 'nvidia-a101'"):
        costhub.doctor(searched, target="nvidia-a101")
    with pytest.raises(DeviceError, match="has no target in the index of devices"):
        costhub.doctor(searched, target="any-cpu")


def test_a_copy_may_leave_failures_out(searched: Path, tmp_path: Path) -> None:
    lines = (searched / "database_tuning_record.json").read_text().splitlines()
    record = json.loads(lines[0])
    record[1][1] = [1e10]
    shutil.copytree(searched, tmp_path / "db")
    (tmp_path / "db" / "database_tuning_record.json").write_text("\n".join([json.dumps(record), *lines[1:]]) + "\n")

    found = costhub.doctor(
        tmp_path / "db", fix=CleanCopy(tmp_path / "clean", failures=False), workers=1, progress=False
    )

    assert found.copy is not None
    assert (found.copy.records, found.copy.failures) == (11, 1)
