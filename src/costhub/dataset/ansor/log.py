"""Provides AnsorLog: the records of Ansor's logs, parsed line by line."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from costhub.dataset.ansor.named_workloads import WorkloadKey, parse_key
from costhub.dataset.metaschedule.lines import FAILED_FROM_S, Record
from costhub.errors import DataError, WorkloadError

SUFFIXES = (".json", ".jsonl", ".log", ".txt")
COMPRESSIONS = (".gz", ".xz")
MOST_KEY, MOST_KEYS = 1000, 100_000
"""Characters of a workload's key, and workloads in a log; beyond, records are refused."""
MOST_DRIFT = 2.0
"""Times of one program that differ by more than this factor contradict each other."""

_LAYOUT_REWRITE = 3
"""Place of the task's LayoutRewriteOption behind its key (0: none; older logs have no such place)."""

# MeasureErrorNo of TVM 0.7 (include/tvm/auto_scheduler/measure.h); the texts of failures are not in the logs.
_FAILURES = {
    1: ("build_error", "INSTANTIATION_ERROR"),
    2: ("build_error", "COMPILE_HOST"),
    3: ("build_error", "COMPILE_DEVICE"),
    4: ("run_error", "RUNTIME_DEVICE"),
    5: ("wrong_output", "WRONG_ANSWER"),
    6: ("build_timeout", "BUILD_TIMEOUT"),
    7: ("run_timeout", "RUN_TIMEOUT"),
    8: ("unknown_error", "UNKNOWN_ERROR"),
}


def log_files(path: Path) -> list[Path]:
    """The logs at `path`: the file itself, or all files below the folder.

    Raises:
        DataError: There is none.
    """
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.rglob("*") if _is_log(file) and file.is_file() and not file.is_symlink())
    if not found:
        kinds = ", ".join(SUFFIXES)
        raise DataError(f"{path} holds no log of Ansor; its files should end in {kinds}, perhaps compressed.")
    return found


def _is_log(file: Path) -> bool:
    if file.name.startswith(("LICENSE", "COPYING")):  # beside the logs of `costhub import source`
        return False
    name = file.with_suffix("") if file.suffix in COMPRESSIONS else file
    return name.suffix in SUFFIXES


class AnsorLog:
    r"""Reads records and numbers the workload keys that occur.

    Args:
        target: The target of TVM 0.27, as JSON; those in the logs are from older TVM and name no architecture.
        keys: Keys that already have a number.

    Example:
        >>> line = b'{"i":[["[\\"matmul_layer\\", 8, 8, 8]","cuda"],[[],[]]],"r":[[0.5],0,1.0,1],"v":"v0.6"}'
        >>> AnsorLog("{}").record(line).run_s
        (0.5,)
    """

    def __init__(self, target: str, keys: dict[str, int] | None = None) -> None:
        self._target = target
        self.keys = {} if keys is None else keys
        self.contradictions = 0
        """Records whose time differs by more than `MOST_DRIFT` from an earlier one of the same program."""
        self._fastest: dict[bytes, float] = {}

    def record(self, line: bytes) -> Record:
        """Reads a line.

        Raises:
            DataError: The line is not a record of Ansor, or its workload cannot be determined.
        """
        key, steps, costs, error_no, timestamp, may_rewrite = _fields(line)
        if _checked_key(key).has_free_layouts and may_rewrite:
            raise DataError("its task let Ansor change the layout of its inputs, so its program may be another")
        text = json.dumps(steps, separators=(",", ":"))
        run_s, status, error = _outcome(costs, error_no)
        if key not in self.keys and len(self.keys) >= MOST_KEYS:
            raise DataError(f"it is of yet another workload than the first {MOST_KEYS:,}")
        return Record(
            self.keys.setdefault(key, len(self.keys)),
            text,
            run_s,
            self._target,
            None,
            status=status,
            error=error,
            measured_at=_time(timestamp),
        )

    def compared_record(self, line: bytes) -> Record:
        """Reads a line, and counts it if it contradicts an earlier one.

        Raises:
            DataError: As for `record`.
        """
        record = self.record(line)
        if record.run_s:
            program = sha256(f"{record.workload} {record.trace}".encode()).digest()[:12]
            run_s = min(record.run_s)
            earlier = self._fastest.setdefault(program, run_s)
            self.contradictions += max(run_s, earlier) > MOST_DRIFT * min(run_s, earlier)
            self._fastest[program] = min(run_s, earlier)
        return record


def _fields(line: bytes) -> tuple[str, list[Any], list[Any], int, Any, bool]:
    try:
        entry = json.loads(line)
        key, *facts = entry["i"][0]
        stages, steps = entry["i"][1][:2]
        costs, error_no, _, timestamp = entry["r"]
    except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise DataError('it is not a record such as {"i": [task, [[], steps]], "r": [costs, ...], "v": ...}') from error
    fits = isinstance(key, str) and isinstance(steps, list) and isinstance(costs, list) and type(error_no) is int
    if not fits or stages:
        raise DataError("its task, steps, costs or error number are not those of Ansor")
    if len(key) > MOST_KEY:
        raise DataError(f"the key of its workload is longer than {MOST_KEY:,} characters")
    return key, steps, costs, error_no, timestamp, facts[_LAYOUT_REWRITE : _LAYOUT_REWRITE + 1] not in ([], [0])


@lru_cache(maxsize=4096)
def _parsed_key(key: str) -> WorkloadKey | str:
    try:
        return parse_key(key)
    except WorkloadError as error:
        return str(error)


def _checked_key(key: str) -> WorkloadKey:
    parsed = _parsed_key(key)
    if isinstance(parsed, str):
        raise DataError(parsed)
    return parsed


def _outcome(costs: list[Any], error_no: int) -> tuple[tuple[float, ...], str, str | None]:
    if error_no in _FAILURES:
        status, name = _FAILURES[error_no]
        return (), status, f"Ansor's error {error_no}, {name}."
    if error_no:
        raise DataError(f"its error number {error_no} is none of Ansor's")
    if not costs or not all(type(cost) in (int, float) and 0 < cost < FAILED_FROM_S for cost in costs):
        raise DataError(f"its times {costs!r:.60} are not positive seconds")
    return tuple(map(float, costs)), "ok", None


def _time(timestamp: Any) -> datetime | None:
    try:
        return datetime.fromtimestamp(timestamp, tz=timezone.utc)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
