from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

RECORDS = "database_tuning_record.json"


def test_folders_are_merged_and_different_targets_refused(costhub: Any, searched: Path, tmp_path: Path) -> None:
    folder = searched
    other = shutil.copytree(folder, tmp_path / "other")
    lines = [json.loads(line) for line in (other / RECORDS).read_text().splitlines()]
    for line in lines:
        line[1][2] = {"kind": "llvm", "num-cores": 96}
    (other / RECORDS).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    twin = shutil.copytree(folder, tmp_path / "twin")

    merged = costhub("merge", str(folder), str(twin), "--out", str(tmp_path / "all"), "--json")
    refused = costhub("merge", str(folder), str(other), "--out", str(tmp_path / "mixed"))

    assert merged.code == 0, merged.err
    assert (json.loads(merged.out)["records"], json.loads(merged.out)["duplicates"]) == (12, 12)
    assert refused.code == 2
    assert "merge only folders of one target" in refused.err
    assert not (tmp_path / "mixed").exists()
