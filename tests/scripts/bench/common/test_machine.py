"""Result files: each says where, when and by which command it was made."""

from __future__ import annotations

import json
from pathlib import Path

from scripts.bench.common.fresh import result_of, run_module
from scripts.bench.common.machine import ROOT, write_result

SCRIPT = "import json; from scripts.bench.common.machine import command; print(json.dumps(command()))"


def test_a_result_has_the_machine_the_versions_and_the_command_beside_its_figures(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_result(path, {"rows": [1]})

    result = json.loads(path.read_text())

    assert result["rows"] == [1]
    assert result.keys() >= {"device", "machine", "versions", "date", "command", "load_average"}
    assert result["versions"].keys() >= {"tvm", "costhub"}


def test_without_a_path_nothing_is_written() -> None:
    write_result(None, {"rows": object()})


def test_the_command_is_the_one_to_type(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text(SCRIPT)
    (tmp_path / "package" / "part.py").write_text(SCRIPT)

    assert result_of("package", "a b", 1, cwd=tmp_path) == "python -m package 'a b' 1"
    assert result_of("package.part", cwd=tmp_path) == "python -m package.part"


def test_a_module_runs_from_any_folder(tmp_path: Path) -> None:
    done = run_module("scripts.tables", "--help", cwd=tmp_path, capture_output=True)

    assert "python -m scripts.tables" in done.stdout
    assert (ROOT / "scripts" / "tables").is_dir()
