"""Databases are found in whatever form they have, and stock TVM is asked about them in a process of its own."""

from __future__ import annotations

import gzip
import lzma
import shutil
from pathlib import Path

from costhub.dataset.metaschedule.lines import RECORDS_FILE, WORKLOADS_FILE
from scripts.bench.data.doctor_folders import contents, loaded, read_database, real_databases


def test_databases_of_all_forms_are_found(searched: Path, tmp_path: Path) -> None:
    for name in ("gz", "xz", "no-workloads"):
        (tmp_path / "found" / name).mkdir(parents=True)
    for file in (RECORDS_FILE, WORKLOADS_FILE):
        content = (searched / file).read_bytes()
        (tmp_path / "found/gz" / f"{file}.gz").write_bytes(gzip.compress(content))
        (tmp_path / "found/xz" / f"{file}.xz").write_bytes(lzma.compress(content))
    shutil.copy(searched / RECORDS_FILE, tmp_path / "found/no-workloads")
    (tmp_path / "work").mkdir()

    found = list(real_databases(tmp_path / "found", tmp_path / "work", None))

    assert [each.name for each in found] == ["gz", "xz"]
    for each in found:
        assert each.records == (searched / RECORDS_FILE).read_bytes().splitlines()
        assert each.workloads == (searched / WORKLOADS_FILE).read_bytes().splitlines()
        assert each.lines == 12


def test_a_part_has_the_workloads_that_it_names(searched: Path) -> None:
    whole, part = read_database(searched), read_database(searched, most_records=2)

    assert (len(part.records), part.lines) == (2, 12)
    assert part.records == whole.records[:2]
    numbers = {int(line.partition(b",")[0][1:]) for line in part.records}
    assert part.workloads == whole.workloads[: max(numbers) + 1]


def test_records_are_known_by_their_workload_and_text(searched: Path) -> None:
    found = contents(searched)

    assert len(found) == len(set(found)) == 12
    assert len({workload for workload, _ in found}) == 2


def test_what_stock_tvm_does_is_one_word_or_a_number(searched: Path, tmp_path: Path) -> None:
    assert loaded(searched) == 12
    shutil.copytree(searched, tmp_path / "db")
    with (tmp_path / "db" / RECORDS_FILE).open("ab") as file:
        file.write(b"[0, {}]\n")

    assert loaded(tmp_path / "db") in ("refuses", "crashes")
