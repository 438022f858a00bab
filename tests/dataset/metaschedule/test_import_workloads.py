from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tvm
from tvm import te

from costhub.dataset.metaschedule.import_pool import ImportPool
from costhub.dataset.metaschedule.import_workloads import (
    UniqueNames,
    WorkloadNaming,
    default_name,
    load_workloads,
    name_workloads,
    parse_names,
)
from costhub.dataset.metaschedule.lines import ImportReport
from costhub.dataset.workload import module_to_json
from costhub.errors import DataError


def test_a_name_may_come_with_networks_or_be_left_open() -> None:
    given = ["a", {"name": "b", "networks": {"resnet18": 2}}, None, {"name": None}]

    assert parse_names(given, 4) == [
        WorkloadNaming("a"),
        WorkloadNaming("b", (("resnet18", 2.0),)),
        WorkloadNaming(),
        WorkloadNaming(),
    ]
    assert parse_names(None, 2) == [WorkloadNaming(), WorkloadNaming()]


BAD = [3, [], {}, "", " ", "\ud800", {"name": 5}]
BAD_NETWORKS = [{"name": "a", "networks": ["r"]}, {"name": "a", "networks": {"r": "x"}}]
BAD_WEIGHTS = [{"name": "a", "networks": {"r": weight}} for weight in (math.nan, math.inf, 0, -1)]


@pytest.mark.parametrize("given", [*BAD, *BAD_NETWORKS, *BAD_WEIGHTS])
def test_other_entries_are_refused(given: Any) -> None:
    with pytest.raises(DataError, match="Entry 1 of the names is"):
        parse_names(["a", given], 2)


def test_there_must_be_a_name_per_workload() -> None:
    with pytest.raises(DataError, match=r"The number of names \(1\) differs from that of workloads \(2\)"):
        parse_names(["a"], 2)


def test_made_names_are_unique() -> None:
    row = {"operator": "matmul", "shapes": "[[8, 8], []]"}
    names = UniqueNames()
    for expected in ("matmul_8x8_scalar", "matmul_8x8_scalar_2", "matmul_8x8_scalar_3"):
        assert names.take(default_name(row)) == expected
    names.release("matmul_8x8_scalar_2")
    assert names.take("matmul_8x8_scalar") == "matmul_8x8_scalar_2"
    twice = UniqueNames(["a", "a"])
    twice.release("a")
    assert twice.take("a") == "a_2"


def test_a_name_is_found_without_trying_all_numbers() -> None:
    class Counted(str):
        tried = 0

        def __format__(self, spec: str) -> str:
            Counted.tried += 1
            return str(self)

    names, name = UniqueNames(), Counted("matmul")
    made = [names.take(name) for _ in range(1000)]

    assert made[-1] == "matmul_1000"
    assert Counted.tried < 2000


def test_copies_of_a_workload_share_its_text_and_too_many_are_refused(
    tmp_path: Path, database: Any, pool: ImportPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "w.json"
    path.write_bytes((database.workloads[0] + b"\n") * 3)

    found = load_workloads(path, pool, ImportReport(), names=["a", None, None]).found

    assert found[0].row["module_json"] is found[2].row["module_json"]
    assert [found[number].row["name"] for number in range(3)] == ["a", "", ""]
    monkeypatch.setattr("costhub.dataset.metaschedule.import_workloads.MOST_WORKLOADS", 2, raising=False)
    with pytest.raises(DataError, match="has more than 2 workloads"):
        load_workloads(path, pool, ImportReport(), names=None)


def test_workloads_that_together_would_fill_the_memory_are_refused(
    tmp_path: Path, database: Any, pool: ImportPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "w.json"
    path.write_bytes((database.workloads[0] + b"\n") * 3)
    size = len(database.workloads[0])

    monkeypatch.setattr("costhub.dataset.metaschedule.import_workloads.MOST_WORKLOADS_BYTES", 3 * size)
    assert len(load_workloads(path, pool, ImportReport(), names=None).found) == 3

    monkeypatch.setattr("costhub.dataset.metaschedule.import_workloads.MOST_WORKLOADS_BYTES", 3 * size - 1)
    with pytest.raises(DataError, match=f"take more than {3 * size - 1:,} bytes"):
        load_workloads(path, pool, ImportReport(), names=None)


@pytest.fixture(scope="module")
def pool() -> Iterator[ImportPool]:
    with ImportPool(workers=1) as started:
        yield started


@pytest.fixture(scope="module")
def relu_line(old_format: ModuleType) -> bytes:
    data = te.placeholder((16, 16), name="A")
    function = te.create_prim_func([data, te.compute((16, 16), lambda i, j: te.max(data[i, j], 0.0), name="B")])
    mod = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    line: bytes = old_format.workload_line(module_to_json(mod))
    return line


def test_blank_lines_are_no_workloads_and_torn_ones_are(
    tmp_path: Path, database: Any, relu_line: bytes, pool: ImportPool
) -> None:
    path = tmp_path / "w.json"
    matmul = database.workloads[0]
    path.write_bytes(b"\n" + matmul[:-9] + b"\n\n" + matmul + b"\n" + relu_line + b"\n" + matmul)
    report = ImportReport()

    found = load_workloads(path, pool, report, names=[None, "mm", None, {"name": None, "networks": {"net": 2}}])

    assert sorted(found.found) == [1, 2, 3]
    assert found.lost == {0: "its workload (line 2) could not be imported"}
    assert sorted((r.file, r.line) for r in report.refusals) == [("w.json", 1), ("w.json", 2), ("w.json", 3)]
    assert found.found[1].arguments == (("float32", (16, 16)),) * 3
    assert found.found[2].row["operator"] == "elementwise"
    # The third and the fifth line are the same workload; the first name counts.
    names = [(row["name"], row["networks"]) for row in name_workloads(found, [])]
    assert names == [("mm", []), ("elementwise_16x16_16x16", [])]


def test_rows_that_are_there_stay_unless_they_are_named(
    tmp_path: Path, database: Any, relu_line: bytes, pool: ImportPool
) -> None:
    path = tmp_path / "w.json"
    path.write_bytes(database.workloads[0] + b"\n" + relu_line)

    def rows(names: Any, there: Any) -> list[str]:
        found = load_workloads(path, pool, ImportReport(), names=names)
        return [row["name"] for row in name_workloads(found, there)]

    found = load_workloads(path, pool, ImportReport(), names=None)
    matmul = {**found.found[0].row, "name": "elementwise_16x16_16x16"}
    assert rows(None, [matmul]) == ["elementwise_16x16_16x16_2"]
    assert rows(["mine", None], [matmul]) == ["mine", "elementwise_16x16_16x16"]


def test_a_row_that_is_there_keeps_its_networks_and_its_name_unless_another_is_given(
    tmp_path: Path, database: Any, pool: ImportPool
) -> None:
    path = tmp_path / "w.json"
    path.write_bytes(database.workloads[0])
    there = load_workloads(path, pool, ImportReport(), names=[{"name": "mine", "networks": {"a": 1, "b": 1}}])
    held = name_workloads(there, [])

    def row(given: Any) -> tuple[str, dict[str, float]]:
        found = load_workloads(path, pool, ImportReport(), names=[given])
        [row] = name_workloads(found, held)
        return row["name"], {network["name"]: network["weight"] for network in row["networks"]}

    assert row({"name": None, "networks": {"b": 2, "c": 3}}) == ("mine", {"a": 1.0, "b": 2.0, "c": 3.0})
    assert row("other") == ("other", {"a": 1.0, "b": 1.0})


@pytest.mark.parametrize("content", [b"", b"\n\n", b'[0,[[[],[]],[0.001],{"kind":"llvm"},[]]]\n'])
def test_a_file_without_workloads_is_refused(tmp_path: Path, pool: ImportPool, content: bytes) -> None:
    path = tmp_path / "w.json"
    path.write_bytes(content)

    with pytest.raises(DataError, match="holds no workload"):
        load_workloads(path, pool, ImportReport(), names=None)


def test_names_must_fit_the_lines(tmp_path: Path, database: Any, pool: ImportPool) -> None:
    path = tmp_path / "w.json"
    path.write_bytes(database.workloads[0])

    with pytest.raises(DataError, match=r"The number of names \(2\) differs from that of workloads \(1\)"):
        load_workloads(path, pool, ImportReport(), names=["a", "b"])
