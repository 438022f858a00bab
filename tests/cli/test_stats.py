from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costhub.cli.main import run
from costhub.dataset.folder import DataFolder
from costhub.dataset.schema import SCHEMA_VERSION
from costhub.hub.dataset_documents import tables_revision


def row(number: int, **changes: Any) -> dict[str, Any]:
    fields = {
        "record_id": f"r{number}",
        "program_id": f"p{number}",
        "workload_id": "w0",
        "device_id": "cpu0",
        "target": '{"kind":"llvm"}',
        "trace": "[[],[]]",
        "status": "ok",
        "run_s": [number * 1e-3],
        "proposed_by": "random",
    }
    return fields | changes


@pytest.fixture
def root(tmp_path: Path) -> DataFolder:
    root = DataFolder.create(tmp_path / "data")
    with root.writer("cpu0") as writer:
        for number in range(1, 4):
            writer.append(row(number))
        writer.append(row(4, status="run_error", error="killed by SIGSEGV\nat 0x0", run_s=[]))
    return root


def test_the_counts_are_shown_as_tables(root: DataFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stats", str(root.path)]) == 0

    out = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == "4 measurements of 4 programs"
    assert {"cpu0 all 1 3 4", "ok 3 75.0%", "run_error 1 25.0%", "random 100.0%"} <= set(lines)
    assert "run_error killed by SIGSEGV 1" in lines
    assert "(not in workloads) w0 4 3 1,000.0 2,000 3,000 3 -" in lines
    assert "cpu0 1,000.0 1,100.0 1,500.0 2,000 2,500 2,900 3,000" in lines


def test_a_page_is_written(root: DataFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stats", str(root.path), "--page", str(tmp_path / "new/page.html")]) == 0

    page = (tmp_path / "new/page.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "<svg" in page
    assert capsys.readouterr().out.startswith("4 measurements")


def test_a_dataset_of_the_hubs_is_counted_by_its_name(
    small_hub: Path, root: DataFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    (small_hub / "datasets/acme").mkdir(parents=True)
    (small_hub / "datasets/acme/boards").symlink_to(root.path)

    assert run(["stats", "boards", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["measurements"] == 4
    assert run(["stats", "boards"]) == 0
    source, counts, *_ = capsys.readouterr().out.splitlines()
    assert source == f"acme/boards, data revision {tables_revision(root.path)}, schema version {SCHEMA_VERSION}"
    assert counts == "4 measurements of 4 programs"


def test_the_counts_can_be_had_as_json(root: DataFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stats", "--json", str(root.path)]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["statuses"] == {"ok": 3, "run_error": 1}
    assert found["latency_us"]["cpu0"]["50"] == pytest.approx(2000.0)
    assert found["workloads"][0]["measured"] == 4


def test_an_empty_folder_is_said_to_be_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    DataFolder.create(tmp_path / "data")

    assert run(["stats", str(tmp_path / "data")]) == 0
    assert capsys.readouterr().out == "0 measurements of 0 programs\n"


def test_the_latencies_can_be_drawn(root: DataFolder, tmp_path: Path) -> None:
    assert run(["stats", str(root.path), "--plot", str(tmp_path / "plot.png")]) == 0
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_a_missing_folder_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stats", str(tmp_path / "nothing")]) == 2
    assert capsys.readouterr().err.startswith("costhub: The folder ")


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stats", "--help"]) == 0
    assert "costhub stats measurements/" in capsys.readouterr().out


def test_of_a_device_its_own_measurements_are_counted(
    small_hub: Path, root: DataFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    with root.writer("acme-one") as writer:
        writer.append(row(5, device_id="acme-one"))
    (small_hub / "datasets/acme").mkdir(parents=True)
    (small_hub / "datasets/acme/boards").symlink_to(root.path)

    assert run(["stats", "acme-one", "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert (found["measurements"], found["devices"]) == (1, {"acme-one": 1})


def test_a_picture_of_another_kind_is_refused_before_the_work(
    root: DataFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["stats", str(root.path), "--plot", str(tmp_path / "plot.txt")]) == 2
    assert "it must end in .png or .svg" in capsys.readouterr().err
