from __future__ import annotations

import base64
import gzip
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tvm
import yaml
from tvm import te

from costhub.cli.main import run
from costhub.dataset.folder import DataFolder
from costhub.dataset.workload import module_to_json
from costhub.hub.catalogue.devices import load_devices
from tests.dataset.ansor.ansor_steps import MATMUL, Tiles

TRACE = [[["GetSBlock", [], ["B", "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l1"]]], []]


def record(run_secs: Any) -> bytes:
    arguments = [["TENSOR", "float32", [8]]] * 2
    return json.dumps([0, [TRACE, run_secs, {"kind": "llvm", "num-cores": 2}, arguments]]).encode()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    data = te.placeholder((8,), name="A")
    function = te.create_prim_func([data, te.compute((8,), lambda i: data[i] + 1.0, name="B")])
    text = module_to_json(tvm.IRModule({"main": function.with_attr("global_symbol", "main")})).encode()
    blob = base64.b64encode(len(text).to_bytes(8, "little") + text).decode()
    folder = tmp_path / "db"
    folder.mkdir()
    (folder / "database_workload.json").write_text(json.dumps(["1", blob]) + "\n")
    (folder / "database_tuning_record.json").write_bytes(b"\n".join([record([1e-3]), b"", record(None), b"[1"]))
    return folder


def run_import(database: Path, out: Path, *options: str, device: str = "my-board") -> int:
    fixed = ["--device", device, "--out", str(out), "--workers", "1"]
    return run(["import", "metaschedule", str(database), *fixed, *options])


def test_what_came_in_and_what_did_not_is_said(
    database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_import(database, tmp_path / "out") == 0

    *said, cost = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"It took \d+ s, [\d,]+ lines a second(, with at most [\d,]+ MiB in one process)?\.", cost)
    assert said == [
        "2 measurements of 1 workload were added: 1 ran, 1 failed on the device.",
        "2 lines were refused:",
        "  1 because the line is blank, first database_tuning_record.json line 2.",
        "  1 because it is not JSON; perhaps it was cut off, first database_tuning_record.json line 4.",
    ]
    folder = DataFolder.open(tmp_path / "out")
    assert folder.devices().select(["device_id", "kind"]).to_pylist() == [{"device_id": "my-board", "kind": "cpu"}]


def test_options_go_into_the_rows(database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = tmp_path / "names.json.gz"
    names.write_bytes(gzip.compress(b'[{"name": "plus_one", "networks": {"net": 2}}]'))
    options = ["--names", str(names), "--contributor", "Ada", "--licence", "MIT", "--json"]

    assert run_import(database, tmp_path / "out", *options) == 0

    said = json.loads(capsys.readouterr().out)
    assert (said["workloads"], said["ok"], said["failed"], said["refused"]) == (1, 1, 1, 2)
    assert said["reasons"]["the line is blank"] == 1
    assert said["refusals"][0] == {
        "file": "database_tuning_record.json",
        "line": 2,
        "why": "the line is blank",
    }
    folder = DataFolder.open(tmp_path / "out")
    assert folder.workloads()["name"].to_pylist() == ["plus_one"]
    rows = folder.measurements("my-board", ["contributor", "licence"]).to_pylist()
    assert rows == [{"contributor": "Ada", "licence": "MIT"}] * 2


def test_a_device_of_the_index_comes_with_what_is_known(database: Path, tmp_path: Path) -> None:
    known = next(device for device in load_devices() if device.kind == "cpu")

    assert run_import(database, tmp_path / "out", device=known.device_id) == 0

    [row] = DataFolder.open(tmp_path / "out").devices().to_pylist()
    assert (row["vendor"], row["cores"]) == (known.vendor, known.cores)


def test_nothing_imported_is_a_failure(database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # The records are of a CPU.
    assert run_import(database, tmp_path / "out", device="nvidia-h200") == 2

    said = capsys.readouterr().err
    assert said.startswith(f"costhub: Nothing could be imported from {database}.")
    assert "2 because its target is for the device kind cpu, not cuda" in said


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ("{", "cannot be read as JSON"),
        ("{}", "is not a JSON list"),
        ("[]", "number of names (0) differs from that of workloads (1)"),
        ("[7]", "Entry 0 of the names is 7"),
    ],
)
def test_bad_names_are_a_sentence(
    database: Path, tmp_path: Path, names: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "names.json").write_text(names)

    assert run_import(database, tmp_path / "out", "--names", str(tmp_path / "names.json")) == 2

    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_no_database_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_import(tmp_path, tmp_path / "out") == 2

    assert "is not a MetaSchedule database" in capsys.readouterr().err


def test_an_empty_database_adds_nothing(database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (database / "database_tuning_record.json").write_bytes(b"")

    assert run_import(database, tmp_path / "out", device="nvidia-h200") == 0

    assert capsys.readouterr().out.startswith("0 measurements of 1 workload were added")


@pytest.mark.parametrize("kind", ["endless", "pipe", "bomb"])
def test_names_that_never_end_are_a_sentence(
    kind: str, database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / ("names.json.gz" if kind == "bomb" else "names.json")
    if kind == "endless":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(gzip.compress(b" " * (65 << 20)))

    assert run_import(database, tmp_path / "out", "--names", str(path)) == 2
    assert re.search("is a device|is a named pipe|is longer than", capsys.readouterr().err)


ANSOR = (
    b'{"i": [["[\\"conv_layer\\", 1]", "cuda"], [[], []]], "r": [[1e-3], 0, 1.0, 1637575039], "v": "v0.6"}\n',
    json.dumps(
        {"i": [[MATMUL, "cuda"], [[], Tiles().steps()]], "r": [[1e-3], 0, 1.0, 1637575039], "v": "v0.6"}
    ).encode(),
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "a.log"
    path.write_bytes(b"".join(ANSOR))
    return path


def test_a_log_of_ansor_is_imported_and_what_is_left_out_is_said(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    credit = ["--licence", "MIT", "--contributor", "Ada", "--tvm-version", "0.8"]
    command = ["import", "ansor", str(log), "--device", "nvidia-h200", "--out", str(tmp_path / "out"), "--workers", "1"]

    assert run([*command, *credit]) == 0
    first, second, third, _ = capsys.readouterr().out.splitlines()
    assert run([*command, *credit, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)

    assert (first, second) == (
        "1 measurement of 1 workload was added: 1 ran, 0 failed on the device.",
        "1 lines were refused:",
    )
    assert third.startswith("  1 because its workload is 'conv_layer'; the known ones are conv2d_layer, ")
    assert (again["ok"], again["known"], again["refused"]) == (0, 1, 1)
    columns = ["contributor", "licence", "tvm_version", "proposed_by"]
    [row] = DataFolder.open(tmp_path / "out").measurements("nvidia-h200", columns).to_pylist()
    assert row == {"contributor": "Ada", "licence": "MIT", "tvm_version": "0.8", "proposed_by": "ansor"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--device", "my-gpu"], "has no target; give one with its architecture (--target"),
        (["--device", "nvidia-h200", "--target", "nonsense"], "does not accept the target"),
        (["--device", "nvidia-h200", "--target", '{"kind": "llvm"}'], "is for 'cpu'"),
    ],
)
def test_a_log_needs_a_target_of_its_device(
    log: Path, tmp_path: Path, options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["import", "ansor", str(log), "--out", str(tmp_path / "out"), *options]) == 2

    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_log_of_which_nothing_fits_is_a_failure(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.write_bytes(ANSOR[1].replace(b'"RE"', b'"RO"'))

    assert run(["import", "ansor", str(log), "--device", "nvidia-h200", "--out", str(tmp_path / "out")]) == 2

    said = capsys.readouterr().err
    assert said.startswith(f"costhub: Nothing could be imported from {log}.")
    assert "1 because its steps are not those of a tiled GPU program" in said


@pytest.fixture
def catalogue(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A catalogue whose only source is the database, in a git repository."""
    monkeypatch.setenv("COSTHUB_CACHE", str(tmp_path / "cache"))
    place = tmp_path / "origin"
    (place / "results").mkdir(parents=True)
    database.rename(place / "results/db")
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]):
        subprocess.run(["git", "-C", str(place), *words], check=True)
    head = subprocess.run(["git", "-C", str(place), "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    source = {"name": "lab/board", "folder": "results/db", "device": "my-board", "rows": 2, "rows_from": "records"}
    shared = {"repository": place.as_uri(), "revision": head.stdout.strip(), "licence": "MIT", "contributor": "Ada"}
    repositories = [{**shared, "format": "metaschedule", "sources": [source]}]
    (tmp_path / "sources.yaml").write_text(yaml.safe_dump({"version": 1, "repositories": repositories}))
    return tmp_path / "sources.yaml"


def test_a_source_is_fetched_and_imported(catalogue: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--catalogue", str(catalogue), "--out", str(tmp_path / "out"), "--workers", "1"]

    assert run(["import", "source", "lab/*", *words, "--json"]) == 0

    said = json.loads(capsys.readouterr().out)
    assert (said["lab/board"]["ok"], said["lab/board"]["failed"]) == (1, 1)
    rows = DataFolder.open(tmp_path / "out").measurements("my-board", ["contributor", "licence"]).to_pylist()
    assert rows == [{"contributor": "Ada", "licence": "MIT"}] * 2


def test_sources_are_listed(catalogue: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["import", "sources", "--catalogue", str(catalogue)]) == 0
    assert capsys.readouterr().out == "lab/board  my-board, 2 records, MIT\n"

    assert run(["import", "sources", "bennu/3700x-*", "--json"]) == 0
    assert [source["device"] for source in json.loads(capsys.readouterr().out)] == ["amd-ryzen-3700x"]


def test_an_unknown_source_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["import", "source", "benu/a100-resnet34", "--out", str(tmp_path / "out")]) == 2

    assert "Did you mean bennu/a100-resnet34" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
