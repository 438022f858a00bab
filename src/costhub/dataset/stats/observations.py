"""Provides read_observations: measurements reduced to the columns that counts and latencies need."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.latency import median_latency_s
from costhub.dataset.load import Folder
from costhub.dataset.shards.layout import PROGRAM_KEY, empty_table
from costhub.dataset.stats.noise import relative_spread

UNKNOWN_OPERATOR = "(not in workloads)"
NO_ERROR_TEXT = "(no error text)"
VERSIONS = ("tvm_version", "compiler_version", "driver_version", "costhub_version")

_ERROR_CHARACTERS = 120
_NAMES = ("device_id", "workload_id", "status", "proposed_by", "licence", "contributor", *VERSIONS)
"""Columns with few distinct values, read as dictionaries."""


def read_observations(folder: Folder, device_ids: Sequence[str] | None = None) -> pa.Table:
    """Reads the columns needed for statistics, about 120 bytes per row, without traces.

    Args:
        folder: The data folder.
        device_ids: The devices; all by default.

    Returns:
        A table with program_key, latency_us and spread (NaN if the attempt failed), failure (the first line
        of the error; null if it ran), operator, and the columns with few distinct values.

    Raises:
        DataError: The folder cannot be read, or has no such device.
    """
    columns = [PROGRAM_KEY, "error", "run_s", *_NAMES]
    nothing = pa.RecordBatch.from_pylist([], schema=empty_table("measurements", columns).schema)
    batches = folder.read_batches(lambda read: [_reduced(batch) for batch in read], device_ids, columns)
    # One dictionary for all batches: Arrow cannot group by columns whose chunks have different ones.
    table = pa.Table.from_batches(batches, _reduced(nothing).schema).unify_dictionaries().combine_chunks()
    return table.append_column("operator", _operators(table, folder.workloads(["workload_id", "operator"])))


def _operators(table: pa.Table, workloads: pa.Table) -> pa.ChunkedArray:
    family = dict(zip(workloads["workload_id"].to_pylist(), workloads["operator"].to_pylist(), strict=True))
    ids = table["workload_id"].combine_chunks()
    names = pa.array([family.get(key, UNKNOWN_OPERATOR) for key in ids.dictionary.to_pylist()], pa.string())
    # Encoded again: a dictionary that names a family twice would give two groups.
    encoded = names.dictionary_encode()
    return pa.DictionaryArray.from_arrays(encoded.indices.take(ids.indices), encoded.dictionary)


def _reduced(batch: pa.RecordBatch) -> pa.RecordBatch:
    arrays = {name: pc.dictionary_encode(batch[name]) for name in _NAMES}
    failed = pc.not_equal(batch["status"], "ok")
    is_failed = failed.to_numpy(zero_copy_only=False)
    line = pc.if_else(failed, _first_lines(batch["error"]), pa.scalar(None, pa.string()))
    return pa.RecordBatch.from_pydict(
        {
            **arrays,
            PROGRAM_KEY: batch[PROGRAM_KEY],
            "failure": pc.dictionary_encode(line),
            "latency_us": pa.array(np.where(is_failed, np.nan, median_latency_s(batch["run_s"]) * 1e6)),
            "spread": pa.array(np.where(is_failed, np.nan, relative_spread(batch["run_s"]))),
        }
    )


def _first_lines(errors: pa.StringArray) -> pa.StringArray:
    text = pc.utf8_trim_whitespace(errors.fill_null(""))
    first = pc.list_element(pc.split_pattern_regex(text, r"[\r\n]", max_splits=1), 0)
    short = pc.utf8_slice_codeunits(first, 0, _ERROR_CHARACTERS)
    return pc.if_else(pc.equal(short, ""), NO_ERROR_TEXT, short)
