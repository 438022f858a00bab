from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.folder import DataFolder
from costhub.errors import DataError
from costhub.hub.data_facts import data_facts


def test_rows_licences_and_versions_are_counted(measured: Any, tmp_path: Path) -> None:
    folder = measured(tmp_path / "data", 13_700, 60)
    table = DataFolder.open(folder).measurements()

    facts = data_facts(folder)

    assert facts.rows == {"amd-epyc-zen5-1c": 60}
    assert facts.total == 60
    assert facts.ok == table["status"].to_pylist().count("ok")
    assert facts.workloads == len(set(table["workload_id"].to_pylist()))
    assert facts.licences == ("CC-BY-4.0",)
    assert facts.tvm_versions == ("0.27.0.post1",)


def test_an_empty_folder_has_no_rows(tmp_path: Path) -> None:
    DataFolder.create(tmp_path / "data")

    assert data_facts(tmp_path / "data").total == 0
    with pytest.raises(DataError):
        data_facts(tmp_path / "nothing")
