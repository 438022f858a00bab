from __future__ import annotations

import json
from pathlib import Path

import pytest

from costhub.cli.main import run
from costhub.dataset.check.folder import RULES
from costhub.dataset.folder import DataFolder

ROW = {
    "record_id": "r0",
    "program_id": "p0",
    "workload_id": "w0",
    "device_id": "cpu0",
    "target": '{"kind":"llvm"}',
    "trace": "[[],[]]",
    "status": "ok",
    "run_s": [1e-3],
    "proposed_by": "random",
}


@pytest.fixture
def root(tmp_path: Path) -> DataFolder:
    return DataFolder.create(tmp_path / "data")


@pytest.fixture
def broken(root: DataFolder) -> DataFolder:
    root.put_device({"device_id": "cpu0", "kind": "cpu"})
    with root.writer("cpu0") as writer:
        writer.append(ROW)
    return root


def test_a_sound_folder_exits_with_0(root: DataFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(root.path)]) == 0
    assert capsys.readouterr().out == f"{root.path}: {len(RULES) - 1} rules, none broken, 0 findings.\n"


def test_findings_exit_with_1_and_are_listed(broken: DataFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(broken.path)]) == 1

    lines = capsys.readouterr().out.splitlines()
    assert [line[:4] for line in lines[:-1]] == ["D004", "D014"]
    assert lines[0].endswith("train-00000-of-00001.parquet: w0 is not in the table workloads.")
    assert lines[-1].endswith("2 broken, 2 findings.")


def test_findings_can_be_had_as_json(broken: DataFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--json", str(broken.path)]) == 1

    found = json.loads(capsys.readouterr().out)
    assert found["folder"] == str(broken.path)
    assert [finding["rule"] for finding in found["findings"]] == ["D004", "D014"]
    assert found["findings"][0].keys() == {"rule", "where", "message"}


@pytest.mark.parametrize("name", ["nothing", "file"])
def test_what_cannot_be_read_exits_with_2_and_a_sentence(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()

    assert run(["check", str(tmp_path / name)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("costhub: There is no folder")
    assert captured.err.count("\n") == 1


def test_the_rules_are_listed_without_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--rules"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line[:4] for line in lines] == list(RULES)
    assert lines[9].endswith("(with --deep)")


def test_deep_applies_every_rule(root: DataFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--deep", str(root.path)]) == 0
    assert f"{len(RULES)} rules" in capsys.readouterr().out


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--help"]) == 0
    assert "costhub check measurements/" in capsys.readouterr().out
