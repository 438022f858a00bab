from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costhub.cli.main import run
from costhub.dataset.check.rules import RULES
from costhub.dataset.folder import DataFolder
from costhub.dataset.trace import program_id

ROW = {
    "record_id": "r0",
    "program_id": program_id("w0", "[[],[]]"),
    "workload_id": "w0",
    "device_id": "cpu0",
    "target": '{"kind":"llvm"}',
    "trace": "[[],[]]",
    "status": "ok",
    "run_s": [1e-3],
    "proposed_by": "random",
    "licence": "CC-BY-4.0",
}
WORKLOAD = {
    "workload_id": "w0",
    "name": "matmul",
    "operator": "matmul",
    "shapes": "[[8,8]]",
    "dtypes": ["float32"],
    "flop": 1024.0,
    "bytes": 256.0,
    "module_json": "{}",
}


@pytest.fixture
def root(tmp_path: Path) -> DataFolder:
    root = DataFolder.create(tmp_path / "data")
    root.put_device({"device_id": "cpu0", "kind": "cpu"})
    root.put_workloads([WORKLOAD])
    return root


def add(root: DataFolder, **changes: object) -> None:
    with root.writer("cpu0") as writer:
        writer.append(ROW | changes)


def test_a_model_cannot_paint_the_terminal(costhub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    (tmp_path / "config.json").write_text("{}")
    told = SimpleNamespace(arch="\x1b[2Jmlp", device_id="\x1b]0;x")
    monkeypatch.setattr("costhub.hub.model_check.model_gate.check_model", lambda *_, **__: told)

    assert "\x1b" not in costhub("check", str(tmp_path)).out


def test_a_sound_folder_exits_with_0(root: DataFolder, capsys: pytest.CaptureFixture[str]) -> None:
    add(root)

    assert run(["check", str(root.path)]) == 0
    assert capsys.readouterr().out == f"{root.path}: no errors, no warnings.\n"


def test_an_error_exits_with_1_and_says_what_to_do(root: DataFolder, capsys: pytest.CaptureFixture[str]) -> None:
    add(root, run_s=[])

    assert run(["check", str(root.path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "CH026 error: an ok measurement has finite, positive latencies",
        "  measurements/cpu0/train-00000-of-00001.parquet",
        "    1 row (r0): status is ok, but run_s is empty or holds values that are not seconds above 0.",
        f"  To do: {RULES['CH026'].fix}",
        "",
        f"{root.path}: 1 error, no warnings.",
    ]


def test_a_warning_counts_in_strict_only(root: DataFolder, capsys: pytest.CaptureFixture[str]) -> None:
    add(root, licence=None)

    assert run(["check", str(root.path)]) == 0
    assert "no errors, 1 warning." in capsys.readouterr().out
    assert run(["check", "--strict", str(root.path)]) == 1
    # Strict is deep, too: the module is none.
    said = capsys.readouterr().out
    assert "CH021" in said
    assert said.endswith("warning. Under --strict, warnings count as errors.\n")


def test_deep_loads_the_modules(root: DataFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(root.path)]) == 0
    assert run(["check", "--deep", str(root.path)]) == 1
    assert "cannot read module_json as a module" in capsys.readouterr().out


def test_many_places_are_cut_short(root: DataFolder, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(9):
        (root.path / f"measurements/cpu{number}").mkdir()
        (root.path / f"measurements/cpu{number}/train-00000-of-00001.parquet").write_bytes(b"PAR1")

    assert run(["check", str(root.path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert sum("train-" in line for line in lines) == 5
    assert "  ... and 4 more; --json lists them all" in lines


def test_findings_can_be_had_as_json(root: DataFolder, capsys: pytest.CaptureFixture[str]) -> None:
    add(root, run_s=[])

    assert run(["check", "--json", str(root.path)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["folder"] == str(root.path)
    [finding] = found["findings"]
    assert finding.keys() == {"rule", "severity", "where", "message", "fix", "rows"}
    assert (finding["rule"], finding["rows"]) == ("CH026", 1)


@pytest.mark.parametrize("name", ["nothing", "file"])
def test_what_cannot_be_read_exits_with_2_and_a_sentence(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()

    assert run(["check", str(tmp_path / name)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"costhub: {'The folder ' if name == 'nothing' else ''}{tmp_path / name} ")
    assert captured.err.count("\n") == 1


def test_the_rules_are_listed_without_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--rules"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line[:5] for line in lines] == list(RULES)
    assert sum(line.endswith("(with --deep)") for line in lines) == 3


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--help"]) == 0
    assert "costhub check --strict measurements/" in capsys.readouterr().out


def test_a_model_folder_is_checked_as_a_hub_does(
    costhub: Any, sound_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("costhub.hub.model_check.model_gate.load_in_child", lambda folder: None)
    folder = sound_model("gbt")

    assert costhub("check", str(folder)).out == f"{folder}: a sound gbt model for amd-epyc-zen5-2c.\n"
    assert '"findings": []' in costhub("check", str(folder), "--json").out

    (folder / "x.pkl").write_bytes(b"\x80\x04.")
    done = costhub("check", str(folder))
    assert (done.code, done.out) == (2, "")
    assert "x.pkl" in done.err
