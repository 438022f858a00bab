from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from costhub.dataset.check.files import UNCHANGED
from costhub.dataset.check.folder import check_folder
from costhub.dataset.folder import DataFolder
from costhub.dataset.schema import arrow_schema, stored_schema, table_from_rows
from costhub.dataset.shards.layout import RECORD_KEY, Layout, compact, record_key
from costhub.dataset.shards.shard import iter_shard, read_shard, write_seal, write_shard
from costhub.dataset.trace import program_id, record_id
from costhub.errors import DataError
from costhub.hub.catalogue.hubs import dataset_folders

REAL = dataset_folders()
TRACE = '[[["GetSBlock",[],["C","main"],["b0"]],["EnterPostproc",[],[],[]],["Parallel",["l1"],[],[]]],[[0,[2,4]]]]'
PLAIN = '[[["GetSBlock",[],["C","main"],["b0"]]],[]]'
WHEN = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=timezone.utc)


def real_row(number: int, trace: str = TRACE, **changes: Any) -> dict[str, Any]:
    """A row with the ids that a collection gives it."""
    row = {
        "workload_id": f"w{number % 3}",
        "device_id": "cpu0",
        "target": '{"kind":"llvm"}',
        "trace": trace,
        "status": "ok",
        "run_s": [1e-3, 1.1e-3, 2e-3 + number],
        "proposed_by": "random",
        "session": "0a",
        "timestamp": WHEN + timedelta(seconds=number),
    } | changes
    program = program_id(row["workload_id"], row["trace"])
    own = record_id(program, row["device_id"], row["session"], row["timestamp"])
    return {"record_id": own, "program_id": program} | row


def back(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    held = compact(table_from_rows("measurements", rows))
    names = arrow_schema("measurements").names
    return [row for batch in held.to_batches() for row in Layout("measurements").rows(batch, names).to_pylist()]


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return table_from_rows("measurements", rows).to_pylist()


def test_ids_are_shortened_and_a_trace_is_three_texts() -> None:
    row = real_row(0)

    held = compact(table_from_rows("measurements", [row])).to_pylist()[0]

    assert (held["record_id"], held["program_id"]) == (row["record_id"][:16], row["program_id"][:12])
    assert held["instructions"] == '[["GetSBlock",[],["C","main"],["b0"]]]'
    assert held["postproc"] == '[["EnterPostproc",[],[],[]],["Parallel",["l1"],[],[]]]'
    assert held["decisions"] == "[[0,[2,4]]]"
    assert back([row]) == plain([row])


ids = st.one_of(
    st.text(max_size=20),
    st.text("0123456789abcdef", min_size=12, max_size=16),
    st.text("0123456789abcdef", min_size=64, max_size=64),
    st.just("="),
)
traces = st.one_of(st.sampled_from([TRACE, PLAIN, "", "[", "[[],[]]"]), st.text('[],"0EnterPostproc', max_size=60))


@given(
    st.lists(
        st.tuples(
            st.none() | ids,
            st.none() | ids,
            traces,
            st.none() | st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)),
            st.none() | st.text(max_size=4),
        ),
        max_size=6,
    )
)
def test_any_row_comes_back_as_it_was(made: list[tuple[Any, ...]]) -> None:
    rows = []
    for number, (record, program, trace, when, session) in enumerate(made):
        time = when and when.replace(tzinfo=timezone.utc)
        row = real_row(number, trace, timestamp=time, session=session)
        own = {} if record is None else {"record_id": record}
        rows.append(row | own | ({} if program is None else {"program_id": program}))

    assert back(rows) == plain(rows)


def test_a_time_without_microseconds_is_written_as_python_writes_it() -> None:
    row = real_row(0, timestamp=WHEN.replace(microsecond=0))

    assert compact(table_from_rows("measurements", [row]))["record_id"][0].as_py() == row["record_id"][:16]


@pytest.mark.parametrize("name", sorted(REAL))
def test_every_trace_and_id_of_the_package_comes_back(name: str, tmp_path: Path) -> None:
    for path in sorted((REAL[name] / "measurements").glob("*/*.parquet")):
        rows = read_shard(path).slice(0, 400)
        held = compact(rows)
        whole = [Layout("measurements").rows(batch, rows.schema.names) for batch in held.to_batches()]
        assert pa.Table.from_batches(whole).equals(rows)
        assert held["decisions"].null_count == 0
        assert pc.all(pc.equal(pc.utf8_length(held["program_id"]), 12)).as_py()


def test_a_shard_gives_back_rows_columns_and_conditions(tmp_path: Path) -> None:
    path, rows = tmp_path / "x.parquet", [real_row(number) for number in range(9)]
    write_shard(table_from_rows("measurements", rows), path)
    chosen = [rows[4], rows[7]]

    where = pc.field("record_id").isin([row["record_id"] for row in chosen])
    assert read_shard(path, ["run_s", "program_id"], where=where).to_pylist() == [
        {"run_s": row["run_s"], "program_id": row["program_id"]} for row in chosen
    ]


def test_conditions_on_computed_columns_are_applied_in_batches(tmp_path: Path) -> None:
    path, rows = tmp_path / "x.parquet", [real_row(number, PLAIN if number % 2 else TRACE) for number in range(9)]
    write_shard(table_from_rows("measurements", rows), path)

    where = (pc.field("trace") == PLAIN) & (pc.field("workload_id") == "w0")
    found = [row for batch in iter_shard(path, ["record_id"], where=where, batch_rows=2) for row in batch.to_pylist()]

    assert found == [{"record_id": rows[3]["record_id"]}]


def test_a_key_tells_records_apart_whatever_the_version(tmp_path: Path) -> None:
    rows = [real_row(0), real_row(1, record_id="mine"), real_row(2, record_id="0123456789abcdef")]
    table = table_from_rows("measurements", rows)
    write_shard(table, tmp_path / "new.parquet")
    old = table.select(arrow_schema("measurements", version=2).names)
    pq.write_table(old.cast(arrow_schema("measurements", version=2)), tmp_path / "old.parquet")

    expected = [record_key(row["record_id"]) for row in rows]
    assert expected == [rows[0]["record_id"][:16], "mine", "0123456789abcdef"]
    for name in ("new", "old"):
        assert read_shard(tmp_path / f"{name}.parquet", [RECORD_KEY])[RECORD_KEY].to_pylist() == expected


def test_a_shard_of_version_2_is_read(tmp_path: Path) -> None:
    rows = [real_row(number) for number in range(4)]
    table = table_from_rows("measurements", rows).drop_columns(["transplanted_from"])
    pq.write_table(table.cast(arrow_schema("measurements", version=2)), tmp_path / "old.parquet")

    found = read_shard(tmp_path / "old.parquet", where=pc.field("record_id") != rows[0]["record_id"])

    assert found.to_pylist() == plain(rows[1:])


def test_duckdb_and_pandas_read_what_is_there_and_sql_puts_a_trace_together(tmp_path: Path) -> None:
    path, rows = tmp_path / "x.parquet", [real_row(number, PLAIN if number % 2 else TRACE) for number in range(4)]
    write_shard(table_from_rows("measurements", rows), path)

    parts = "'[' || left(instructions, -1) || coalesce(',' || substr(postproc, 2), ']') || ',' || decisions || ']'"
    query = f"select {parts} from '{path}' order by timestamp"  # noqa: S608
    assert [trace for (trace,) in duckdb.sql(query).fetchall()] == [row["trace"] for row in rows]
    frame = pq.read_table(path).to_pandas()
    assert set(frame.instructions) == {'[["GetSBlock",[],["C","main"],["b0"]]]'}
    assert frame.run_s[0].tolist() == rows[0]["run_s"]


@pytest.fixture
def real(tmp_path: Path) -> Path:
    """A data folder with some rows of the package."""
    source = DataFolder.open(REAL["costhub/amd-epyc-zen5"])
    folder = DataFolder.create(tmp_path / "data")
    device = "amd-epyc-zen5-2c"
    folder.put_device(next(row for row in source.devices().to_pylist() if row["device_id"] == device))
    first = source.workloads(["workload_id"])["workload_id"][0].as_py()
    folder.put_workloads([row for row in source.workloads().to_pylist() if row["workload_id"] == first])
    rows = source.select_measurements([device], where=pc.field("workload_id") == first)
    with folder.writer(device) as writer:
        writer.extend(rows)
    return folder.path


def change(folder: Path, column: str, edit: Callable[[Any], Any]) -> None:
    """Changes a column of the first row in a shard, and seals the shard again."""
    (path,) = (folder / "measurements").glob("*/*.parquet")
    held = pq.read_table(path)
    values = held[column].to_pylist()
    values[0] = edit(values[0])
    place = held.schema.get_field_index(column)
    held = held.set_column(place, held.schema.field(place), pa.array(values, held.schema.field(place).type))
    pq.write_table(held.replace_schema_metadata(stored_schema("measurements").metadata), path)
    with pq.ParquetWriter(path, held.schema, compression="zstd", write_page_checksum=True) as writer:
        writer.write_table(held)
        writer.add_key_value_metadata({"costhub.seal": "0" * 64})
    write_seal(path)


def errors(folder: Path) -> set[str]:
    return {finding.rule for finding in check_folder(folder, progress=False) if finding.severity == "error"}


def test_rows_that_nobody_changed_are_clean(real: Path) -> None:
    assert errors(real) == set()


@pytest.mark.parametrize(
    ("column", "edit", "rules"),
    [
        ("decisions", lambda text: text.replace("[", "[ ", 1), {"CH011", "CH059"}),
        ("instructions", lambda text: text.replace("GetSBlock", "GetsBlock", 1), {"CH011", "CH059"}),
        ("postproc", lambda text: text[:-1] + ",[]]", {"CH011", "CH017", "CH059"}),
        ("program_id", lambda text: "0" * 12, {"CH011"}),
        ("program_id", lambda text: text[:11], {"CH011"}),
        ("record_id", lambda text: "0" * 16, {"CH059"}),
        ("session", lambda text: "another", {"CH059"}),
        ("timestamp", lambda time: time + timedelta(seconds=1), {"CH059"}),
    ],
)
def test_a_row_that_was_changed_and_sealed_again_is_found(
    real: Path, column: str, edit: Callable[[Any], Any], rules: set[str]
) -> None:
    change(real, column, edit)

    assert rules <= errors(real)


def test_a_copied_row_is_found(real: Path) -> None:
    (path,) = (real / "measurements").glob("*/*.parquet")
    rows = read_shard(path)
    write_shard(pa.concat_tables([rows, rows.slice(0, 1)]), path)

    assert "CH010" in errors(real)


def test_a_changed_byte_breaks_the_seal(real: Path) -> None:
    (path,) = (real / "measurements").glob("*/*.parquet")
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)

    assert errors(real) == {UNCHANGED.id}


def test_a_null_where_none_may_be_is_a_finding_and_costs_its_row_only(real: Path) -> None:
    (path,) = (real / "measurements").glob("*/*.parquet")
    held = pq.read_table(path)
    values = [None, *held["instructions"].to_pylist()[1:]]
    place = held.schema.get_field_index("instructions")
    field = held.schema.field(place).with_nullable(True)
    pq.write_table(held.set_column(place, field, pa.array(values, pa.string())), path)

    found = [finding for finding in check_folder(real, progress=False) if "instructions is null" in finding.message]

    assert [finding.rows for finding in found] == [1]


def test_text_that_is_not_utf8_is_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    held = compact(table_from_rows("measurements", [real_row(0)]))
    place = held.schema.get_field_index("postproc")
    bad = pa.array([b"[\xff"]).view(pa.string())
    pq.write_table(held.set_column(place, held.schema.field(place), bad), path)

    with pytest.raises(DataError, match="cannot be read"):
        read_shard(path, ["trace"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 30), unique=True, max_size=12))
def test_a_writer_of_today_goes_on_where_one_of_version_2_stopped(tmp_path: Path, numbers: list[int]) -> None:
    shutil.rmtree(tmp_path / "data", ignore_errors=True)
    root = DataFolder.create(tmp_path / "data")
    folder = root.path / "measurements" / "cpu0"
    folder.mkdir()
    table = table_from_rows("measurements", [real_row(n) for n in numbers]).drop_columns(["transplanted_from"])
    pq.write_table(table.cast(arrow_schema("measurements", version=2)), folder / "train-00000-of-00001.parquet")

    with root.writer("cpu0") as writer:
        for number in (0, 31):
            if number not in numbers:
                writer.append(real_row(number))
            else:
                with pytest.raises(DataError, match="ids must be unique"):
                    writer.append(real_row(number))

    found = root.measurements(columns=["record_id"])["record_id"].to_pylist()
    assert sorted(found) == sorted(real_row(number)["record_id"] for number in {*numbers, 0, 31})
