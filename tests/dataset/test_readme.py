from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from costhub.dataset.folder import DataFolder
from costhub.dataset.readme import EXAMPLE_QUERY, readme_text, write_readme
from costhub.dataset.schema import TABLES


def test_the_front_matter_names_a_configuration_per_table() -> None:
    matter = yaml.safe_load(readme_text().split("---")[1])

    assert {config["config_name"] for config in matter["configs"]} == set(TABLES)
    assert [c["config_name"] for c in matter["configs"] if c.get("default")] == ["measurements"]


def test_every_column_is_documented() -> None:
    text = readme_text()

    for columns in TABLES.values():
        assert all(f"| `{column.name}` |" in text for column in columns)


def test_a_readme_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    write_readme(tmp_path)

    assert (tmp_path / "README.md").read_text() == "mine"


@pytest.fixture
def folder(tmp_path: Path, measurement: Any, workload: Any) -> DataFolder:
    """Five measurements in two shards and one still in the journal, of two workloads on two devices."""
    folder = DataFolder.create(tmp_path / "data")
    folder.put_device({"device_id": "cpu0", "kind": "cpu"})
    folder.put_workloads([workload(0), workload(1)])
    for device_id, numbers in (("cpu0", (0, 1, 3)), ("cpu1", (4, 6))):
        with folder.writer(device_id, compact_rows=2) as writer:
            for number in numbers:
                failed = {"status": "run_error", "run_s": []} if number == 6 else {}
                writer.append(measurement(number, device_id=device_id, **failed))
    return folder


@pytest.mark.filterwarnings("default")  # datasets' own
def test_datasets_loads_every_table_without_a_script(folder: DataFolder, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")

    def load(name: str) -> Any:
        cache = str(tmp_path / "cache")
        whole = datasets.load_dataset(str(folder.path), name, split="train", cache_dir=cache)
        streamed = datasets.load_dataset(str(folder.path), name, split="train", streaming=True, cache_dir=cache)
        assert list(streamed) == list(whole)
        return whole

    assert sorted(load("measurements")["record_id"]) == ["r00000", "r00001", "r00003", "r00004", "r00006"]
    assert load("workloads")[0]["networks"] == [{"name": "resnet18", "weight": 2.0}]
    assert load("devices")["device_id"][0] == "cpu0"


def test_duckdb_reads_the_same_files(folder: DataFolder) -> None:
    duckdb = pytest.importorskip("duckdb")
    # The query of the README, as it stands there but for the paths.
    query = EXAMPLE_QUERY.replace("'measurements/", f"'{folder.path}/measurements/")
    query = query.replace("'workloads/", f"'{folder.path}/workloads/")

    assert EXAMPLE_QUERY in readme_text()
    assert duckdb.sql(query).fetchall() == [("matmul0", 2, 1.1e-3), ("matmul1", 2, 1.1e-3)]
