"""Provides the rules of check_folder: each yields (where, message) for every breach it finds."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from costhub.dataset.check.contents import Contents, Source
from costhub.dataset.latency import median_latency_s
from costhub.dataset.schema import STATUSES
from costhub.dataset.shard import TEMP_PREFIX
from costhub.dataset.shard_set import shard_name, shard_paths
from costhub.dataset.trace import program_id

Breaches = Iterator[tuple[str, str]]

PEAK_MARGIN = 1.2
"""Probes miss the true peak by some per cent; beyond this factor the measurement is wrong, not the probe."""

_NAMED = 3


def unreadable(contents: Contents) -> Breaches:
    """Finds files that are damaged."""
    yield from contents.unreadable


def foreign(contents: Contents) -> Breaches:
    """Finds Parquet files that are not shards of the table they lie in, or of a newer schema."""
    yield from contents.foreign


def duplicate_records(contents: Contents) -> Breaches:
    """Finds record ids that occur more than once in shards; the next writer clears a journal's by itself."""
    seen: set[str] = set()
    for source in contents.shards:
        doubled = []
        for record_id in source.read("record_id")["record_id"].to_pylist():
            if record_id in seen:
                doubled.append(record_id)
            seen.add(record_id)
        if doubled:
            yield (
                source.where,
                f"{_some(doubled)} {'occur' if len(doubled) > 1 else 'occurs'} more than once.",
            )


def unknown_workloads(contents: Contents) -> Breaches:
    """Finds measurements whose workload is not described."""
    known = set(contents.workloads["workload_id"].to_pylist())
    yield from _unknown(contents, "workload_id", known, "workloads")


def unknown_devices(contents: Contents) -> Breaches:
    """Finds measurements whose device is not described."""
    known = set(contents.devices["device_id"].to_pylist())
    yield from _unknown(contents, "device_id", known, "devices")


def _unknown(contents: Contents, column: str, known: set[str], table: str) -> Breaches:
    for source in contents.sources:
        missing = sorted(set(source.read(column)[column].to_pylist()) - known)
        if missing:
            yield source.where, f"{_some(missing)} {_are(missing)} not in the table {table}."


def bad_latencies(contents: Contents) -> Breaches:
    """Finds measurements that ran and have no, or impossible, latencies."""

    def is_bad(row: dict[str, Any]) -> bool:
        runs = np.array(row["run_s"], dtype=np.float64)
        return row["status"] == "ok" and not (len(runs) and np.isfinite(runs).all() and (runs > 0).all())

    message = "{} {} ok, with latencies that are missing, not finite or not positive."
    yield from _rows(contents, ("status", "run_s"), is_bad, message)


def bad_failures(contents: Contents) -> Breaches:
    """Finds failed measurements that have latencies, or do not say why they failed."""

    def is_bad(row: dict[str, Any]) -> bool:
        return row["status"] != "ok" and (bool(row["run_s"]) or not (row["error"] or "").strip())

    message = "{} {} failed, with latencies or without an error text."
    yield from _rows(contents, ("status", "run_s", "error"), is_bad, message)


def bad_json(contents: Contents) -> Breaches:
    """Finds traces and targets that TVM could not read."""
    targets: dict[str, bool] = {}

    def is_bad(row: dict[str, Any]) -> bool:
        target = row["target"]
        if target not in targets:
            targets[target] = _is_target(target)
        return not (targets[target] and _is_trace(row["trace"]))

    message = "{} {} a trace or target that is not the JSON TVM writes."
    yield from _rows(contents, ("trace", "target"), is_bad, message, verb=("has", "have"))


def _is_target(text: str) -> bool:
    value = _parse(text)
    return isinstance(value, dict) and isinstance(value.get("kind"), str)


def _is_trace(text: str) -> bool:
    """Whether the text has the form of a trace; null or a decision on no instruction would crash TVM."""
    value = _parse(text)
    if not (isinstance(value, list) and len(value) == 2 and all(isinstance(part, list) for part in value)):
        return False
    instructions, decisions = value
    return all(map(_is_instruction, instructions)) and all(
        isinstance(decision, list)
        and len(decision) == 2
        and decision[0] in range(len(instructions))
        and decision[1] is not None
        for decision in decisions
    )


def _is_instruction(value: Any) -> bool:
    """Whether the value is [kind, inputs, attributes, outputs]."""
    return (
        isinstance(value, list)
        and len(value) == 4
        and isinstance(value[0], str)
        and all(isinstance(part, list) and None not in part for part in value[1:])
    )


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def implausible_throughput(contents: Contents) -> Breaches:
    """Finds programs that would need more GFLOP/s than the device has, where its peak is known."""
    peaks = {
        row["device_id"]: row["peak_gflops"] for row in contents.devices.to_pylist() if row["peak_gflops"]
    }
    # Peaks are of float32: tensor cores and narrow types may well exceed them.
    rows = contents.workloads.select(["workload_id", "flop", "dtypes"]).to_pylist()
    flop = {row["workload_id"]: row["flop"] for row in rows if set(row["dtypes"]) <= {"float32", "float64"}}
    for source in contents.sources:
        table = source.read("record_id", "workload_id", "device_id", "run_s")
        latency_s = median_latency_s(table["run_s"])
        peak = np.array([peaks.get(device_id, np.inf) for device_id in table["device_id"].to_pylist()])
        work = np.array([flop.get(workload_id, 0.0) for workload_id in table["workload_id"].to_pylist()])
        # A latency that is zero or negative is another rule's finding; NaN compares as False.
        fast = (latency_s > 0) & (work > peak * 1e9 * PEAK_MARGIN * latency_s)
        if fast.any():
            ids = table.filter(fast)["record_id"].to_pylist()
            yield (
                source.where,
                f"{_some(ids)} {_are(ids)} above {PEAK_MARGIN} times the device's peak GFLOP/s.",
            )


def wrong_workload_ids(contents: Contents) -> Breaches:
    """Finds workloads whose id is not the hash of their module, which TVM reads in a child process."""
    from costhub.dataset.workload_service import hash_modules

    ids = contents.workloads["workload_id"].to_pylist()
    for workload_id, found in zip(
        ids, hash_modules(contents.workloads["module_json"].to_pylist()), strict=True
    ):
        if found is None:
            yield "workloads", f"The module of {workload_id} cannot be read by this TVM."
        elif found != workload_id:
            yield "workloads", f"The module of {workload_id} has the hash {found}."


def leftover_journals(contents: Contents) -> Breaches:
    """Finds rows that an interrupted writer left in a journal, or that one is writing now."""
    for source in contents.sources:
        if source.is_journal:
            count = source.read("record_id").num_rows
            are = "row is" if count == 1 else "rows are"
            yield source.where, f"{count} {are} not in a shard yet; the next writer of the folder moves them."


def bad_names(contents: Contents) -> Breaches:
    """Finds shards whose names do not count 0 to N-1 of N, and half-written files."""
    for folder in contents.table_folders():
        found = [path.name for path in shard_paths(folder)]
        where = folder.relative_to(contents.root).as_posix()
        if found != [shard_name(number, len(found)) for number in range(len(found))]:
            yield where, f"The shards are named {_some(found)}; the next write there repairs the names."
        halves = sorted(path.name for path in folder.glob(f"{TEMP_PREFIX}*"))
        if halves:
            yield where, f"{_some(halves)} {_are(halves)} half-written; the next write there removes them."


def misplaced(contents: Contents) -> Breaches:
    """Finds measurements that lie in the folder of another device."""
    for source in contents.sources:
        others = sorted(set(source.read("device_id")["device_id"].to_pylist()) - {source.device_id})
        if others:
            yield source.where, f"It has measurements of {_some(others)}; move them to a folder of that name."


def wrong_program_ids(contents: Contents) -> Breaches:
    """Finds measurements whose program_id is not the hash of workload and trace."""

    def is_bad(row: dict[str, Any]) -> bool:
        return bool(row["program_id"] != program_id(row["workload_id"], row["trace"]))

    message = "{} {} a program_id that is not the hash of workload and trace."
    columns = ("program_id", "workload_id", "trace")
    yield from _rows(contents, columns, is_bad, message, verb=("has", "have"))


def unknown_statuses(contents: Contents) -> Breaches:
    """Finds measurements with a status of another name."""
    for source in contents.sources:
        others = sorted(set(source.read("status")["status"].to_pylist()) - set(STATUSES))
        if others:
            yield source.where, f"The status {_some(others)} is none of {', '.join(STATUSES)}."


def duplicate_keys(contents: Contents) -> Breaches:
    """Finds devices and workloads that occur more than once in their table."""
    for name, table in (("devices", contents.devices), ("workloads", contents.workloads)):
        counts = Counter(table[table.column_names[0]].to_pylist())
        doubled = [key for key, count in counts.items() if count > 1]
        if doubled:
            yield name, _more_than_once(doubled)


def _rows(
    contents: Contents,
    columns: Iterable[str],
    is_bad: Callable[[dict[str, Any]], bool],
    message: str,
    *,
    verb: tuple[str, str] = ("is", "are"),
) -> Breaches:
    """One breach per file that has bad rows, naming the first of them."""
    for source in contents.sources:
        bad = [row["record_id"] for row in _read(source, columns) if is_bad(row)]
        if bad:
            yield source.where, message.format(_some(bad), verb[len(bad) > 1])


def _read(source: Source, columns: Iterable[str]) -> Iterator[dict[str, Any]]:
    # In slices: as Python objects a shard of traces takes many times its size.
    for batch in source.read("record_id", *columns).to_batches(max_chunksize=1000):
        yield from batch.to_pylist()


def _more_than_once(names: list[str]) -> str:
    return f"{_some(names)} {'occur' if len(names) > 1 else 'occurs'} more than once."


def _some(names: list[str]) -> str:
    shown = [re.sub(r"[^\x20-\x7e]", "?", name)[:80] for name in names[:_NAMED]]
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def _are(names: list[str]) -> str:
    return "are" if len(names) > 1 else "is"
