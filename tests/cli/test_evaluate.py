from __future__ import annotations

import json
import runpy
from pathlib import Path

import pyarrow as pa
import pytest

from costhub.cli.main import run
from costhub.dataset.features.specs import find_spec
from costhub.dataset.folder import DataFolder
from costhub.dataset.shards.shard import new_parquet
from costhub.dataset.splits.split import Split, save_split
from costhub.versions import installed_versions

_measured = runpy.run_path(str(Path(__file__).with_name("measured_folder.py")))
build_data, WORKLOADS = _measured["build_data"], _measured["WORKLOADS"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return build_data(tmp_path / "data")


@pytest.fixture
def model(data: Path, tmp_path: Path) -> Path:
    """A model that has learned from all workloads but conv2d0 and matmul0."""
    folder: Path = _measured["train_model"](data, tmp_path)
    return folder


def test_workloads_the_model_has_learned_from_are_left_out(
    model: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()

    assert run(["evaluate", str(model), "--data", str(data)]) == 0

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["workload", "operator", "programs", "top_1", "top_5", "pairwise", "spearman"]
    assert [line[:3] for line in lines[1:3]] == [["conv2d0", "conv2d", "12"], ["matmul0", "matmul", "12"]]
    assert lines[3][:3] == ["mean", "of", "2"]


def test_features_that_come_with_the_data_are_not_believed(
    model: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As costhub 0.1 kept them, sealed, but all zero."""
    words = ["evaluate", str(model), "--data", str(data), "--all", "--json"]
    capsys.readouterr()
    assert run(words) == 0
    before = capsys.readouterr().out
    spec = find_spec("tiles@1")
    place = data / "features" / spec.name / "acme-one"
    place.mkdir(parents=True)
    ids = DataFolder.open(data).measurements("acme-one", ["record_id"])["record_id"].to_pylist()
    made_with = {"spec": spec.name, "columns": spec.columns_hash, "tvm": installed_versions().get("tvm")}
    fields = [("record_id", pa.string(), ids), ("n_rows", pa.int32(), [3] * len(ids))]
    fields += [("rows", pa.binary(), [bytes(12 * spec.width)] * len(ids))]
    schema = pa.schema(
        [pa.field(name, kind, nullable=False) for name, kind, _ in fields],
        metadata={b"costhub.features": json.dumps(made_with, sort_keys=True).encode()},
    )
    with new_parquet(place / "part-0.parquet", schema) as writer:
        writer.write_table(pa.table([values for *_, values in fields], schema=schema))

    assert run(words) == 0

    assert capsys.readouterr().out == before


def test_all_workloads_can_be_had(model: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()

    assert run(["evaluate", str(model), "--data", str(data), "--all", "--json"]) == 0
    told = capsys.readouterr()

    assert "that the model was trained on may be among these: this is no test, unless the model has" in told.err
    found = json.loads(told.out)
    assert [w["workload"] for w in found["workloads"]] == WORKLOADS
    assert set(found["totals"]) == {"top_1", "top_5", "pairwise", "spearman"}


def test_a_split_names_the_workloads(
    model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_split(Split("one", (), ("id-matmul0", "id-matmul1"), 0), tmp_path / "one.json")
    capsys.readouterr()

    assert run(["evaluate", str(model), "--data", str(data), "--split", str(tmp_path / "one.json"), "--json"]) == 0

    # matmul1 is in the split too, but the model has learned from it.
    assert [w["workload"] for w in json.loads(capsys.readouterr().out)["workloads"]] == ["matmul0"]


def test_nothing_new_to_evaluate_on_is_said_so(
    model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_split(Split("seen", (), ("id-matmul1",), 0), tmp_path / "seen.json")
    capsys.readouterr()

    assert run(["evaluate", str(model), "--data", str(data), "--split", str(tmp_path / "seen.json")]) == 2
    assert "has learned from all of these workloads. Use --all" in capsys.readouterr().err


def test_workloads_with_nothing_to_rank_are_counted(
    model: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()

    assert run(["evaluate", str(model), "--data", str(data), "--noise-floor", "0.9999"]) == 2
    assert "None of the 2 workloads has two programs that differ" in capsys.readouterr().err


def test_errors_families_and_networks_are_told(model: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = DataFolder.open(data)
    uses = [{"name": "net-a", "weight": 3.0}]
    folder.put_workloads([{**row, "networks": uses} for row in folder.workloads().to_pylist()])
    capsys.readouterr()

    assert run(["evaluate", str(model), "--data", str(data), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert run(["evaluate", str(model), "--data", str(data)]) == 0
    text = capsys.readouterr().out

    assert [row["operator"] for row in found["operators"]] == ["conv2d", "matmul"]
    assert found["operators"][0]["standard_errors"]["top_1"] is None  # of one workload
    assert found["standard_errors"]["top_1"] >= 0.0
    (network,) = found["networks"]
    assert (network["network"], network["workloads"]) == ("net-a", 2)
    assert found["variants"]["top_1_tenset"] == pytest.approx(network["top_1_weighted"])
    assert found["variants"]["top_5_tlp"] == pytest.approx(found["variants"]["top_5_tenset"])
    assert "standard error" in text
    assert "net-a" in text
    assert "top_1_tlp" in text


def test_several_devices_are_told_apart(model: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build_data(data, device_id="acme-two")
    capsys.readouterr()
    command = ["evaluate", str(model), "--data", str(data), "--json"]

    assert run(command) == 2
    assert "name one of them" in capsys.readouterr().err
    assert run([*command, "--device", "acme-one", "--device", "acme-two"]) == 0

    found = [(row["workload"], row["device_id"]) for row in json.loads(capsys.readouterr().out)["workloads"]]
    assert found == [
        ("conv2d0", "acme-one"),
        ("conv2d0", "acme-two"),
        ("matmul0", "acme-one"),
        ("matmul0", "acme-two"),
    ]


def test_a_folder_that_is_no_model_exits_with_2(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", str(data), "--data", str(data)]) == 2
    assert capsys.readouterr().err.startswith("costhub: ")


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", "--help"]) == 0
    assert "costhub evaluate nvidia-h200 --data measurements/" in capsys.readouterr().out


def test_a_model_of_ones_own_is_named_by_its_file(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "class Longest:\n    def predict(self, rows, counts):\n        return {}\n"
    (tmp_path / "mine.py").write_text(code.format("-counts"))
    capsys.readouterr()

    assert run(["evaluate", f"{tmp_path}/mine.py:Longest", "--data", str(data), "--json"]) == 0
    out, err = capsys.readouterr()
    assert f"Model Longest, from {tmp_path}/mine.py:Longest." in err
    assert 0 <= json.loads(out)["totals"]["top_1"] <= 1

    (tmp_path / "mine.py").write_text(code.format("1 / 0"))
    assert run(["evaluate", f"{tmp_path}/mine.py:Longest", "--data", str(data)]) == 2
    assert "`predict` of Longest failed (ZeroDivisionError" in capsys.readouterr().err
    assert run(["evaluate", f"{tmp_path}/mine.py:Shortest", "--data", str(data)]) == 2
    assert "has nothing named Shortest" in capsys.readouterr().err
