from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import costhub
from costhub.dataset.check import folder as reader_module
from costhub.dataset.check.files import Listing, TableFile
from costhub.dataset.check.folder import Reader, check_folder, time_limit_s
from costhub.dataset.check.measurements import CheckContext
from costhub.dataset.check.rule import Breach
from costhub.dataset.folder import DataFolder
from costhub.dataset.schema import stored_schema, table_from_rows
from costhub.dataset.shards.shard import (
    BLANK_SEAL,
    MOST_SHARD_BYTES,
    SEAL_KEY,
    SealState,
    read_shard,
    write_seal,
    write_shard,
)
from costhub.errors import DataError
from costhub.isolation.child import ChildTimeout


def sources(path: Path) -> list[TableFile]:
    return list(Listing(path).sources())


def test_pieces_count_their_rows(damaged: Any, reader: Reader) -> None:
    counts: list[int] = []
    pieces = list(reader.read(sources(damaged.path)[2], 0, counts.append))

    assert sum(counts) == pieces[0].rows == len(damaged.rows())
    assert [piece.is_last for piece in pieces] == [False, False, True]


def test_a_file_that_takes_too_long_is_a_breach_and_the_next_is_read(
    damaged: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, next_one = sources(damaged.path)[:2]

    def late(*_: object, timeout_s: float) -> None:
        assert 0 < timeout_s <= time_limit_s(slow)
        raise ChildTimeout

    with Reader() as reader:
        monkeypatch.setattr(reader._child, "call", late)
        assert reader.seal(slow) is None
        [piece] = reader.read(slow, 0, lambda _: None)
        monkeypatch.undo()
        again = list(reader.read(next_one, 1, lambda _: None))

    [breach] = piece.breaches
    assert (breach.rule, breach.where, piece.is_last) == ("CH001", slow.where, True)
    assert "took more than 10 s" in breach.message
    assert len(again) == 3


def test_what_is_done_between_the_pieces_of_a_file_takes_none_of_its_time(
    damaged: Any, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = 0.0
    monkeypatch.setattr(reader_module.time, "monotonic", lambda: time.perf_counter() + passed)
    pieces = reader.read(sources(damaged.path)[2], 0, lambda _: None)

    found = [next(pieces)]
    passed = 1000.0
    found += pieces

    assert [piece.is_last for piece in found] == [False, False, True]
    assert sum(piece.rows for piece in found[1:]) == len(damaged.rows())


def test_modules_that_cannot_be_read_are_told_by_the_deep_rules(damaged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Reader.read

    def torn(self: Reader, source: TableFile, number: int, on_rows: Any, *, as_dicts: bool = False) -> Any:
        if as_dicts:
            yield reader_module.FileChunk(breaches=[Breach("CH001", source.where, "torn")], is_last=True)
        else:
            yield from read(self, source, number, on_rows)

    monkeypatch.setattr(Reader, "read", torn)

    assert "torn" in [finding.message for finding in check_folder(damaged.path, deep=True, progress=False)]


class Counting(Reader):
    """A reader that says which seals it looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_at: list[str] = []

    def seal(self, source: TableFile) -> SealState | None:
        self.looked_at.append(source.where)
        return super().seal(source)


def test_a_file_that_is_too_large_is_not_hashed(damaged: Any) -> None:
    [large] = damaged.path.glob("measurements/*/*.parquet")
    with large.open("r+b") as file:
        file.truncate(1 << 40)

    with Counting() as reader:
        [finding] = check_folder(damaged.path, progress=False, reader=reader)

    assert finding.rule == "CH006"
    assert reader.looked_at == ["devices/train-00000-of-00001.parquet", "workloads/train-00000-of-00001.parquet"]


def test_a_footer_that_claims_gigabytes_is_not_read(damaged: Any, reader: Reader) -> None:
    [large] = damaged.path.glob("measurements/*/*.parquet")
    with large.open("r+b") as file:
        file.truncate(MOST_SHARD_BYTES - 8)
        file.seek(0, os.SEEK_END)
        file.write((MOST_SHARD_BYTES - 20).to_bytes(4, "little") + b"PAR1")

    [finding] = check_folder(damaged.path, progress=False, reader=reader)

    assert finding.rule == "CH006"
    assert "footer" in finding.message


def test_a_child_that_has_read_a_folder_serves_no_other(damaged: Any) -> None:
    with Reader() as reader:
        check_folder(damaged.path, progress=False, reader=reader)
        pid = reader._child.pid
    assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.slow
@pytest.mark.parametrize("column", ["error", "instructions"])
def test_a_file_that_unfolds_to_more_than_the_memory_is_a_breach(damaged: Any, reader: Reader, column: str) -> None:
    # 2 MB whose dictionary unfolds to 4 GiB of text within one batch; the footer tells of the 2 MB.
    schema = stored_schema("measurements")
    source = sources(damaged.path)[2]
    row, count = pq.ParquetFile(source.path).read().to_pylist()[0], 4096
    columns = [pa.array([row[field.name]] * count, field.type) for field in schema]
    at = schema.get_field_index(column)
    columns[at] = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array(["x" * (1 << 20)]))
    folded = schema.set(at, pa.field(column, columns[at].type, schema.field(at).nullable))
    with pq.ParquetWriter(source.path, folded, use_dictionary=[column], store_schema=False) as writer:
        writer.write_table(pa.table(columns, schema=folded))
        writer.add_key_value_metadata({**schema.metadata, SEAL_KEY: BLANK_SEAL})
    write_seal(source.path)

    [breach] = [breach for piece in reader.read(source, 0, lambda _: None) for breach in piece.breaches]
    assert (breach.rule, breach.where) == ("CH001", source.where)
    assert "memory" in breach.message
    assert len(list(reader.read(sources(damaged.path)[0], 0, lambda _: None))) == 3


def test_the_time_limit_grows_with_the_file(damaged: Any) -> None:
    source = sources(damaged.path)[2]

    assert 10 < time_limit_s(source) < 12


def test_an_empty_folder_is_sound(tmp_path: Path) -> None:
    assert check_folder(DataFolder.create(tmp_path / "data").path, deep=True) == []


@pytest.mark.slow
def test_findings_are_joined_over_batches_and_apart_by_file(damaged: Any) -> None:
    device = damaged.path / "measurements/amd-epyc-zen5-1c"
    rows = damaged.rows()
    table = table_from_rows(
        "measurements", [row | {"record_id": f"{n}", "licence": None} for n, row in enumerate(rows * 60)]
    )
    write_shard(table, device / "train-00000-of-00002.parquet")
    write_shard(table_from_rows("measurements", rows), device / "train-00001-of-00002.parquet")
    (device / "train-00000-of-00001.parquet").unlink()

    [licence] = [finding for finding in damaged.findings() if finding.rule == "CH048"]
    assert licence.rows == len(rows) * 60
    assert licence.where.endswith("train-00000-of-00002.parquet")


def test_checking_changes_nothing(damaged: Any) -> None:
    (damaged.path / "measurements/amd-epyc-zen5-1c/journal.jsonl").write_bytes(b'{"torn')
    before = {p: p.stat().st_mtime_ns for p in damaged.path.rglob("*")}

    damaged.findings(deep=True)
    assert {p: p.stat().st_mtime_ns for p in damaged.path.rglob("*")} == before


@dataclass
class Beside(Reader):
    """A reader beside which another program takes a shard away, before its rows are read."""

    taken: Path

    def __post_init__(self) -> None:
        super().__init__()

    def know(self, context: CheckContext) -> None:
        super().know(context)
        self.taken.unlink(missing_ok=True)


def test_a_folder_that_changes_meanwhile_is_an_error(damaged: Any) -> None:
    [taken] = damaged.path.glob("measurements/*/*.parquet")

    with Beside(taken) as reader, pytest.raises(DataError, match="when nothing writes there"):
        check_folder(damaged.path, progress=False, reader=reader)


def test_no_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"The folder .* does not exist"):
        check_folder(tmp_path / "nothing")


@pytest.mark.parametrize("name", ["amd-epyc-zen5", "nvidia-h200"])
def test_the_embedded_sets_break_no_rule(name: str) -> None:
    path = Path(costhub.__file__).parent / "hub/embedded/datasets/costhub" / name

    assert check_folder(path) == []


@pytest.mark.slow
def test_the_embedded_set_breaks_no_rule_when_its_programs_are_replayed() -> None:
    path = Path(costhub.__file__).parent / "hub/embedded/datasets/costhub/amd-epyc-zen5"

    assert check_folder(path, deep=True) == []


@pytest.mark.slow
def test_an_imported_database_breaks_no_rule(tmp_path: Path) -> None:
    source = os.environ.get("COSTHUB_METASCHEDULE_DATA")
    if not source:
        pytest.skip("COSTHUB_METASCHEDULE_DATA names no database")
    from costhub.dataset.metaschedule.import_database import import_database

    device = {"device_id": "imported", "kind": "cuda"}
    import_database(source, tmp_path / "data", device=device, licence="CC-BY-4.0", progress=False)

    assert check_folder(tmp_path / "data", deep=True) == []
    assert read_shard(next((tmp_path / "data/measurements/imported").glob("*.parquet"))).num_rows


def test_a_table_of_too_many_rows_is_not_read_to_its_end(damaged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files may hold any number of equal rows, of which a check keeps something each."""
    [shard] = damaged.path.glob("measurements/*/*.parquet")
    rows = damaged.rows()
    write_shard(table_from_rows("measurements", rows[:9]), shard.with_name("train-00000-of-00002.parquet"))
    write_shard(table_from_rows("measurements", rows[9:]), shard.with_name("train-00001-of-00002.parquet"))
    shard.unlink()
    monkeypatch.setitem(reader_module.MOST_ROWS_IN_ALL, "measurements", 5)

    with Reader() as reader:
        [finding] = check_folder(damaged.path, progress=False, reader=reader)

    assert finding.rule == "CH006"
    assert finding.where.endswith("train-00001-of-00002.parquet")


def test_little_of_a_device_leaves_the_child(damaged: Any, reader: Reader) -> None:
    device = damaged.rows("devices/train-00000-of-00001.parquet")[0]
    device |= {"vendor": "A" * 100_000, "aliases": ["a" * 100_000] * 3}
    damaged.write([device], "devices/train-00000-of-00001.parquet")

    pieces = list(reader.read(sources(damaged.path)[0], 0, lambda _: None))

    [row] = [row for piece in pieces for row in piece.devices]
    assert (len(row["vendor"]), row["aliases"], row["device_id"]) == (256, None, device["device_id"])
