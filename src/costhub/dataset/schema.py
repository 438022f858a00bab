"""Provides the columns of the three tables, devices, workloads and measurements, and tables from rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from costhub.errors import DataError

SCHEMA_VERSION = 3
"""Raised with every change of the columns. An added column names that version as `since`; older shards read
as null there. Since version 3 shards of measurements hold `STORED` columns in place of what follows from them."""
MOST_TARGET_BYTES = 16 << 10
"""The longest target that a row, or a record of a database, may have; TVM parses each."""
HUB_LICENCES = frozenset({"apache-2.0", "mit", "bsd-3-clause", "cc-by-4.0", "cc-by-sa-4.0", "cc0-1.0", "odc-by"})
"""Licences, in small letters, that the Hugging Face hub knows by name, and that rows of a contribution may have."""
IMPORTED = "imported"
"""`proposed_by` of rows from databases of MetaSchedule, which do not record which search proposed a program."""

TABLE_KEY = b"costhub.table"
VERSION_KEY = b"costhub.schema_version"
DOC_KEY = b"doc"

STATUSES = (
    "ok",
    "build_error",
    "build_timeout",
    "run_error",
    "run_timeout",
    "wrong_output",
    "unknown_error",
)
"""Outcomes of a measurement; only `ok` has latencies.

`unknown_error` is a failure whose source did not record the stage: MetaSchedule stores 1e10 seconds for all.
"""

TIMESTAMP = pa.timestamp("us", tz="UTC")
FLOAT_LIST = pa.list_(pa.float64())
STRING_LIST = pa.list_(pa.string())
LADDER = pa.list_(pa.struct([("bytes", pa.int64()), ("gbs", pa.float64())]))
NETWORK_LIST = pa.list_(pa.struct([("name", pa.string()), ("weight", pa.float64())]))


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str
    type: pa.DataType
    doc: str
    nullable: bool = False
    """Whether a row may leave the column out."""
    repeats: bool = False
    """Whether the column has few distinct values, so that a Parquet dictionary pays."""
    allowed: tuple[str, ...] = ()
    """The values that the column may hold; empty where any is allowed."""
    since: int = 1
    """The schema version that added the column."""


DEVICES = (
    Column("device_id", pa.string(), "Name of the device, such as `nvidia-h200` or `amd-epyc-zen5-2c`."),
    Column("aliases", STRING_LIST, "Other names of the device.", nullable=True),
    Column("kind", pa.string(), "TVM device kind: `cpu`, `cuda`, ...", repeats=True),
    Column("vendor", pa.string(), "Maker of the chip.", nullable=True),
    Column("microarchitecture", pa.string(), "Microarchitecture, such as `zen5` or `sm_90`.", nullable=True),
    Column("model_name", pa.string(), "Name the device gives itself.", nullable=True),
    Column("cores", pa.int32(), "Cores (CPU) or multiprocessors (GPU) a program may use.", nullable=True),
    Column("simd_bits", pa.int32(), "Width of a vector register in bits.", nullable=True),
    Column("l1d_bytes", pa.int64(), "Level 1 data cache of one core, in bytes.", nullable=True),
    Column("l2_bytes", pa.int64(), "Level 2 cache, in bytes.", nullable=True),
    Column("l3_bytes", pa.int64(), "Level 3 cache, in bytes.", nullable=True),
    Column("memory_bytes", pa.int64(), "Main or device memory, in bytes.", nullable=True),
    Column("driver", pa.string(), "Driver or kernel version.", nullable=True),
    Column("isa_features", STRING_LIST, "Instruction set features, such as `avx512f`.", nullable=True),
    Column("target", pa.string(), "TVM target as JSON.", nullable=True),
    Column("peak_gflops", pa.float64(), "Highest float32 GFLOP/s reached by a probe.", nullable=True),
    Column("l1_gbs", pa.float64(), "Bandwidth out of level 1 in GB/s, probed.", nullable=True),
    Column("l2_gbs", pa.float64(), "Bandwidth out of level 2 in GB/s, probed.", nullable=True),
    Column("l3_gbs", pa.float64(), "Bandwidth out of level 3 in GB/s, probed.", nullable=True),
    Column("dram_gbs", pa.float64(), "Bandwidth out of memory in GB/s, probed.", nullable=True),
    Column("launch_overhead_us", pa.float64(), "Time of an empty program in microseconds.", nullable=True),
    Column("peak_gflops_float64", pa.float64(), "The same in float64.", nullable=True, since=2),
    Column("peak_gflops_float16", pa.float64(), "The same in float16.", nullable=True, since=2),
    Column("peak_gflops_bfloat16", pa.float64(), "The same in bfloat16.", nullable=True, since=2),
    Column("peak_gops_int8", pa.float64(), "Operations on int8, in 10^9 per s.", nullable=True, since=2),
    Column("bandwidth_ladder", LADDER, "GB/s read from arrays of growing size.", nullable=True, since=2),
    Column("thread_scaling", FLOAT_LIST, "Speed with 1, 2, ... threads over 1.", nullable=True, since=2),
    Column("governor", pa.string(), "Frequency governor when it was probed.", nullable=True, since=2),
    Column("probe_method", pa.string(), "How the probed numbers were taken.", nullable=True),
    Column("probed_at", TIMESTAMP, "When the probed numbers were taken.", nullable=True),
)
PROBED = (
    *("peak_gflops", "peak_gflops_float64", "peak_gflops_float16", "peak_gflops_bfloat16", "peak_gops_int8"),
    *("l1_gbs", "l2_gbs", "l3_gbs", "dram_gbs", "bandwidth_ladder", "launch_overhead_us"),
    *("thread_scaling", "governor", "probe_method", "probed_at"),
)
"""The columns of the devices table that a probe fills."""

WORKLOADS = (
    Column("workload_id", pa.string(), "sha256 of the normalised TVMScript of the module."),
    Column("name", pa.string(), "Name people read, such as `conv2d_56x56x64`."),
    Column("operator", pa.string(), "Operator family: `conv`, `matmul`, `softmax`, ...", repeats=True),
    Column("shapes", pa.string(), "Shapes of the arguments as JSON."),
    Column("dtypes", STRING_LIST, "Data types of the arguments."),
    Column("flop", pa.float64(), "Floating-point operations of one run."),
    Column("bytes", pa.float64(), "Bytes of all arguments."),
    Column("module_json", pa.string(), "The TVM module as JSON."),
    Column("networks", NETWORK_LIST, "Networks that use the workload, and how often each.", nullable=True),
)

MEASUREMENTS = (
    Column(
        "record_id",
        pa.string(),
        "Name of this measurement, unique everywhere. Shards hold its first 16 digits where it follows from the row.",
    ),
    Column(
        "program_id",
        pa.string(),
        "Name of the program: the workload with one schedule. Shards hold its first 12 digits.",
    ),
    Column("workload_id", pa.string(), "Workload of the program.", repeats=True),
    Column("device_id", pa.string(), "Device it was measured on.", repeats=True),
    Column("target", pa.string(), "TVM target as JSON.", repeats=True),
    Column(
        "trace",
        pa.string(),
        "Schedule trace as JSON; replayed on the workload it gives the program. Shards hold it as `instructions`, "
        "`decisions` and `postproc`.",
    ),
    Column("status", pa.string(), "What became of the attempt.", repeats=True, allowed=STATUSES),
    Column("error", pa.string(), "Error text of a failed attempt.", nullable=True),
    Column("run_s", FLOAT_LIST, "Seconds of every repeat; empty where the attempt failed."),
    Column("evaluator_number", pa.int32(), "Runs per repeat asked for.", nullable=True),
    Column("evaluator_repeat", pa.int32(), "Repeats allowed; fewer where they agree.", nullable=True),
    Column("evaluator_min_repeat_ms", pa.int32(), "Shortest repeat, in ms.", nullable=True),
    Column("cache_flush", pa.bool_(), "Whether caches were flushed before every repeat.", nullable=True),
    Column("build_s", pa.float64(), "Seconds of the build; CPU time, as it may be paused.", nullable=True),
    Column("run_wall_s", pa.float64(), "Wall seconds of loading and running.", nullable=True),
    Column("load_average", pa.float32(), "One-minute load average before the run.", nullable=True),
    Column("reference_s", pa.float64(), "Seconds of the reference kernel of the batch.", nullable=True),
    Column(
        "reference_drift",
        pa.float32(),
        "`reference_s` / the fastest of the device in this session so far - 1.",
        nullable=True,
    ),
    Column("reference_after_s", pa.float64(), "The same right after the program.", nullable=True, since=2),
    Column("output_checked", pa.bool_(), "Whether outputs were compared.", nullable=True, since=2),
    Column("cpu_affinity", pa.string(), "Cores it could use: `0-1`.", nullable=True, repeats=True, since=2),
    Column("governor", pa.string(), "Frequency governor.", nullable=True, repeats=True, since=2),
    Column("board", pa.string(), "Which board of its session.", nullable=True, repeats=True, since=2),
    Column("clock_mhz", pa.float32(), "Clock in MHz, where it can be read.", nullable=True),
    Column("temperature_c", pa.float32(), "Temperature in Celsius, where it can be read.", nullable=True),
    Column("proposed_by", pa.string(), "Who proposed it: `random`, `mutation`, `model`, `imported`, ...", repeats=True),
    Column("space", pa.string(), "Design space it was drawn from.", nullable=True, repeats=True, since=2),
    Column("predicted_score", pa.float32(), "Score a model gave it beforehand.", nullable=True),
    Column("timestamp", TIMESTAMP, "When it was measured.", nullable=True),
    Column("session", pa.string(), "Name of the run that measured it.", nullable=True, repeats=True),
    Column("contributor", pa.string(), "Who measured it.", nullable=True, repeats=True),
    Column("licence", pa.string(), "SPDX name of the licence of this row.", nullable=True, repeats=True),
    Column("tvm_version", pa.string(), "Version of TVM.", nullable=True, repeats=True),
    Column("compiler_version", pa.string(), "Version of LLVM, if it compiled.", nullable=True, repeats=True),
    Column("driver_version", pa.string(), "Version of the driver.", nullable=True, repeats=True),
    Column("costhub_version", pa.string(), "Version of costhub.", nullable=True, repeats=True),
    Column(
        "transplanted_from",
        pa.string(),
        "Compiler that made the measured code, where TVM only replays its schedule: `ansor`. Null for TVM's own code.",
        nullable=True,
        repeats=True,
        since=3,
    ),
)

RECORD_DIGITS, PROGRAM_DIGITS = 16, 12
"""Of an id that can be computed again, a shard holds so many digits: rows differ in them, and a changed row too."""

STORED: dict[str, tuple[Column, ...]] = {
    "record_id": (
        Column(
            "record_id",
            pa.string(),
            f"Name of this measurement. Its first {RECORD_DIGITS} digits where the rest can be computed: it is then "
            "the sha256 of `program_id device_id session timestamp`, with ids in full, ISO 8601 and `None` for null.",
        ),
    ),
    "program_id": (
        Column(
            "program_id",
            pa.string(),
            f"Name of the program: the first {PROGRAM_DIGITS} digits of the sha256 of `workload_id`, a line feed and "
            "the trace.",
        ),
    ),
    "trace": (
        Column(
            "instructions",
            pa.string(),
            "Instructions of the trace as JSON, without those of post-processing.",
            repeats=True,
        ),
        Column("decisions", pa.string(), "Decisions of the trace as JSON: instruction, value.", nullable=True),
        Column(
            "postproc",
            pa.string(),
            "Instructions of the trace's post-processing as JSON.",
            nullable=True,
            repeats=True,
        ),
    ),
}
"""Columns that shards of measurements hold in place of one that follows from them, since version 3."""

COMPACT_SINCE = 3

TABLES: dict[str, tuple[Column, ...]] = {
    "devices": DEVICES,
    "workloads": WORKLOADS,
    "measurements": MEASUREMENTS,
}


def arrow_schema(table: str, *, version: int = SCHEMA_VERSION) -> pa.Schema:
    """Builds the Arrow schema of the rows of `table`, with every column's documentation and the schema version.

    Args:
        table: `devices`, `workloads` or `measurements`.
        version: The schema version; older ones have fewer columns.

    Example:
        >>> arrow_schema("devices").field("kind").type
        DataType(string)
    """
    return _arrow_schema(table, [column for column in columns_of(table) if column.since <= version], version)


def _arrow_schema(table: str, columns: Sequence[Column], version: int) -> pa.Schema:
    fields = [
        pa.field(column.name, column.type, nullable=column.nullable, metadata={DOC_KEY: column.doc.encode()})
        for column in columns
    ]
    return pa.schema(fields, metadata={TABLE_KEY: table.encode(), VERSION_KEY: str(version).encode()})


def stored_columns_of(table: str, version: int = SCHEMA_VERSION) -> tuple[Column, ...]:
    """Returns the columns that a shard of `table` has in a schema version.

    Raises:
        DataError: The table does not exist.

    Example:
        >>> [column.name for column in stored_columns_of("measurements")][4:8]
        ['target', 'instructions', 'decisions', 'postproc']
    """
    columns = tuple(column for column in columns_of(table) if column.since <= version)
    if table != "measurements" or version < COMPACT_SINCE:
        return columns
    return tuple(stored for column in columns for stored in STORED.get(column.name, (column,)))


def stored_schema(table: str, version: int = SCHEMA_VERSION) -> pa.Schema:
    """Builds the Arrow schema of the shards of `table` in a schema version.

    Example:
        >>> stored_schema("devices", 2).equals(arrow_schema("devices"))
        True
    """
    return _arrow_schema(table, stored_columns_of(table, version), version)


def columns_of(table: str) -> tuple[Column, ...]:
    """Returns the columns of `table`.

    Raises:
        DataError: The table does not exist.
    """
    if table not in TABLES:
        raise DataError(f"{table!r} is not a table; the tables are {', '.join(TABLES)}.")
    return TABLES[table]


def document(table: str, columns: Sequence[Column] | None = None) -> str:
    """Renders the columns of `table`, or others, as a markdown table.

    Example:
        >>> print(document("workloads").splitlines()[2])
        | `workload_id` | string | sha256 of the normalised TVMScript of the module. |
    """
    lines = ["| column | type | meaning |", "|---|---|---|"]
    for column in columns_of(table) if columns is None else columns:
        meaning = column.doc
        if column.allowed:
            meaning += " One of " + ", ".join(f"`{value}`" for value in column.allowed) + "."
        if column.nullable:
            meaning += " May be null."
        lines.append(f"| `{column.name}` | {column.type} | {meaning} |")
    return "\n".join(lines)


def table_from_rows(table: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Builds an Arrow table from rows; nullable columns that a row leaves out become null.

    Raises:
        DataError: A row lacks a column, has an unknown one, or holds a value of the wrong type.

    Example:
        >>> table_from_rows("devices", [{"device_id": "amd-epyc", "kind": "cpu", "cores": 2}]).num_rows
        1
    """
    columns = columns_of(table)
    names = {column.name: None for column in columns}
    for number, row in enumerate(rows):
        unknown = row.keys() - names.keys()
        if unknown:
            raise DataError(
                f"Row {number} of {table} has the unknown column {min(unknown)!r}; the columns are {', '.join(names)}."
            )
    schema = arrow_schema(table)
    return pa.table([_array(table, column, rows) for column in columns], schema=schema)


def check_table(table: str, rows: pa.Table) -> None:
    """Checks that an Arrow table is one that `table_from_rows` could have built.

    Raises:
        DataError: It has other columns, a null in a required column, or a value that is not allowed.
    """
    if not rows.schema.equals(arrow_schema(table)):
        raise DataError(f"The rows do not have the schema of {table}; build them with table_from_rows.")
    for column in columns_of(table):
        values = rows[column.name]
        if values.null_count and not column.nullable:
            raise DataError(f"A row of {table} lacks the column {column.name!r}, which every row must have.")
        if column.allowed:
            others = pc.unique(values.filter(pc.invert(pc.is_in(values, value_set=pa.array(column.allowed)))))
            if len(others):
                raise DataError(
                    f"A row of {table} has {column.name} = {others[0].as_py()!r}; "
                    f"it must be one of {', '.join(column.allowed)}."
                )


def _array(table: str, column: Column, rows: Sequence[Mapping[str, Any]]) -> pa.Array:
    values = [row.get(column.name) for row in rows]
    for number, value in enumerate(values):
        if value is None and not column.nullable:
            raise DataError(f"Row {number} of {table} lacks the column {column.name!r}, which every row must have.")
        if column.allowed and value not in column.allowed:
            raise DataError(
                f"Row {number} of {table} has {column.name} = {value!r}; it must be one of {', '.join(column.allowed)}."
            )
    try:
        return pa.array(values, type=column.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        number = _first_misfit(values, column.type)
        raise DataError(
            f"Row {number} of {table} has {column.name} = {values[number]!r:.80}, "
            f"which does not fit the type {column.type}."
        ) from error


def _first_misfit(values: Sequence[Any], type_: pa.DataType) -> int:
    """Returns the position of the first value that Arrow refuses, which Arrow's own message does not name."""
    for number, value in enumerate(values):
        try:
            pa.array([value], type=type_)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return number
    return 0
