from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tvm
from tvm import te

from costhub.dataset.metaschedule.children import Children
from costhub.dataset.metaschedule.report import ImportReport
from costhub.dataset.metaschedule.workloads import load_workloads, name_workloads
from costhub.dataset.workload import module_to_json
from costhub.errors import DataError


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    with Children(workers=1) as started:
        yield started


@pytest.fixture(scope="module")
def relu_line(old_format: ModuleType) -> bytes:
    data = te.placeholder((16, 16), name="A")
    function = te.create_prim_func(
        [data, te.compute((16, 16), lambda i, j: te.max(data[i, j], 0.0), name="B")]
    )
    mod = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    line: bytes = old_format.workload_line(module_to_json(mod))
    return line


def test_blank_lines_are_no_workloads_and_torn_ones_are(
    tmp_path: Path, database: Any, relu_line: bytes, children: Children
) -> None:
    path = tmp_path / "w.json"
    matmul = database.workloads[0]
    path.write_bytes(b"\n" + matmul[:-9] + b"\n\n" + matmul + b"\n" + relu_line + b"\n" + matmul)
    report = ImportReport()

    found = load_workloads(
        path, children, report, names=[None, "mm", None, {"name": None, "networks": {"net": 2}}]
    )

    assert sorted(found.found) == [1, 2, 3]
    assert found.lost == {0: 2}
    assert sorted((r.file, r.line) for r in report.refusals) == [("w.json", 1), ("w.json", 2), ("w.json", 3)]
    assert found.found[1].arguments == (("float32", (16, 16)),) * 3
    assert found.found[2].row["operator"] == "elementwise"
    # The third and the fifth line are the same workload; the first name counts.
    names = [(row["name"], row["networks"]) for row in name_workloads(found, [])]
    assert names == [("mm", []), ("elementwise_16x16_16x16", [])]


def test_rows_that_are_there_stay_unless_they_are_named(
    tmp_path: Path, database: Any, relu_line: bytes, children: Children
) -> None:
    path = tmp_path / "w.json"
    path.write_bytes(database.workloads[0] + b"\n" + relu_line)

    def rows(names: Any, there: Any) -> list[str]:
        found = load_workloads(path, children, ImportReport(), names=names)
        return [row["name"] for row in name_workloads(found, there)]

    found = load_workloads(path, children, ImportReport(), names=None)
    matmul = {**found.found[0].row, "name": "elementwise_16x16_16x16"}
    assert rows(None, [matmul]) == ["elementwise_16x16_16x16_2"]
    assert rows(["mine", None], [matmul]) == ["mine", "elementwise_16x16_16x16"]


@pytest.mark.parametrize("content", [b"", b"\n\n", b'[0,[[[],[]],[0.001],{"kind":"llvm"},[]]]\n'])
def test_a_file_without_workloads_is_refused(tmp_path: Path, children: Children, content: bytes) -> None:
    path = tmp_path / "w.json"
    path.write_bytes(content)

    with pytest.raises(DataError, match="holds no workload"):
        load_workloads(path, children, ImportReport(), names=None)


def test_names_must_fit_the_lines(tmp_path: Path, database: Any, children: Children) -> None:
    path = tmp_path / "w.json"
    path.write_bytes(database.workloads[0])

    with pytest.raises(DataError, match="There are 2 names for 1 workloads"):
        load_workloads(path, children, ImportReport(), names=["a", "b"])
