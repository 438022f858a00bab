from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.schema import STATUSES, TABLES, Column, arrow_schema, columns_of, document, table_from_rows
from costhub.errors import DataError


@pytest.mark.parametrize("table", TABLES)
def test_the_schema_names_its_table_and_version_and_documents_every_column(table: str) -> None:
    schema = arrow_schema(table)

    assert schema.metadata == {b"costhub.table": table.encode(), b"costhub.schema_version": b"3"}
    assert [field.metadata[b"doc"].decode() for field in schema] == [column.doc for column in TABLES[table]]


@pytest.mark.parametrize("table", TABLES)
def test_the_documentation_has_a_line_per_column(table: str) -> None:
    lines = document(table).splitlines()

    assert len(lines) == 2 + len(TABLES[table])
    for column, line in zip(TABLES[table], lines[2:], strict=True):
        assert line.startswith(f"| `{column.name}` | {column.type} | {column.doc}")


def test_the_documentation_lists_the_statuses() -> None:
    line = next(line for line in document("measurements").splitlines() if "`status`" in line)

    assert all(f"`{status}`" in line for status in STATUSES)


def test_no_column_name_occurs_twice() -> None:
    for columns in TABLES.values():
        names = [column.name for column in columns]
        assert len(set(names)) == len(names)


def test_an_unknown_table_is_refused_with_the_names_of_the_tables() -> None:
    with pytest.raises(DataError, match="'runs' is not a table; the tables are devices, workloads, measurements"):
        columns_of("runs")


def test_nullable_columns_may_be_left_out(measurement: Any) -> None:
    row = table_from_rows("measurements", [measurement(0)]).to_pylist()[0]

    assert row["build_s"] is None
    assert row["run_s"] == [1e-3, 1.1e-3, 2e-3]


def test_numpy_scalars_fit(measurement: Any) -> None:
    row = measurement(0, run_s=np.array([1.5, 2.5]), predicted_score=np.float32(0.5), cache_flush=np.bool_(True))

    stored = table_from_rows("measurements", [row]).to_pylist()[0]

    assert stored["run_s"] == [1.5, 2.5]
    assert stored["predicted_score"] == 0.5
    assert stored["cache_flush"] is True


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"trace": None}, "Row 1 of measurements lacks the column 'trace'"),
        ({"speed": 1}, "Row 1 of measurements has the unknown column 'speed'"),
        (
            {"run_s": ["fast"]},
            r"Row 1 of measurements has run_s = \['fast'\], which does not fit the type list",
        ),
        (
            {"build_s": "long"},
            "Row 1 of measurements has build_s = 'long', which does not fit the type double",
        ),
        ({"target": 3}, "Row 1 of measurements has target = 3, which does not fit the type string"),
        ({"evaluator_number": 2**40}, "Row 1 of measurements has evaluator_number = 1099511627776"),
        ({"error": "\ud800"}, "Row 1 of measurements has error"),
        ({"status": "fine"}, "Row 1 of measurements has status = 'fine'; it must be one of ok, build_error"),
    ],
)
def test_a_row_that_does_not_fit_is_named_with_its_column(measurement: Any, change: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        table_from_rows("measurements", [measurement(0), measurement(1, **change)])


VALUES = {
    pa.string(): st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.float32(): st.floats(allow_nan=False, width=32),
    pa.bool_(): st.booleans(),
    pa.list_(pa.float64()): st.lists(st.floats(allow_nan=False), max_size=3),
}


def values_of(column: Column) -> st.SearchStrategy[Any]:
    if column.allowed:
        return st.sampled_from(column.allowed)
    values = VALUES.get(column.type, st.none())
    return st.none() | values if column.nullable else values


@given(st.fixed_dictionaries({column.name: values_of(column) for column in TABLES["measurements"]}))
def test_any_row_that_fits_comes_back_as_it_was(row: dict[str, Any]) -> None:
    assert table_from_rows("measurements", [row]).to_pylist() == [row]
