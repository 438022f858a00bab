from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from costhub.dataset.folder import DataFolder
from costhub.dataset.readme import readme_text, write_readme
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


@pytest.mark.filterwarnings("default")  # datasets' own
def test_datasets_loads_every_table_without_a_script(
    tmp_path: Path, measurement: Any, workload: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = pytest.importorskip("datasets")
    folder = DataFolder.create(tmp_path / "data")
    folder.put_device({"device_id": "cpu0", "kind": "cpu"})
    folder.put_workloads([workload(0)])
    with folder.writer("cpu0", compact_rows=2) as writer:
        for number in range(3):
            writer.append(measurement(number))

    def load(name: str) -> Any:
        return datasets.load_dataset(str(folder.path), name, split="train", cache_dir=str(tmp_path / "cache"))

    assert sorted(load("measurements")["record_id"]) == ["r00000", "r00001", "r00002"]
    assert load("workloads")[0]["networks"] == [{"name": "resnet18", "weight": 2.0}]
    assert load("devices")["device_id"][0] == "cpu0"
