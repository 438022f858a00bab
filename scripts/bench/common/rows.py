"""Rows of results, and the files that keep them so that a benchmark can be stopped and continued."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

Row = dict[str, Any]


def read_rows(path: Path | None) -> list[Row]:
    """The rows of a file of JSON lines; a line that an interruption cut short is left out."""
    rows = []
    for line in path.read_text().splitlines() if path and path.exists() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def earlier_rows(path: Path | None, **settings: Any) -> list[Row]:
    """The rows of a result file that an interrupted run has left; none if there is no such file.

    Args:
        path: The file.
        settings: What the run is told, by the name that the file has for it.

    Raises:
        UsageError: The file is of a run that was told something else.
    """
    if path is None or not path.exists():
        return []
    result = json.loads(path.read_text())
    for name, value in settings.items():
        if name in result and result[name] != value:
            raise click.UsageError(
                f"{path} has results with {name} {result[name]!r}, and this run has {value!r}: give another file."
            )
    rows: list[Row] = result["rows"]
    return rows


class RowFile:
    """The rows of a benchmark in memory and, if a path is given, in a file of JSON lines.

    Args:
        path: The file; its rows are read first.
        key: The keys whose values identify a row; a missing one counts as empty.
        settings: What all rows of a run have in common. Rows of the file that have other values are left alone: they
            are not done, nor among `all`. Rows without such a value, of older files, are taken for the run's own.
    """

    def __init__(self, path: Path | None, key: Sequence[str], **settings: Any) -> None:
        self.path, self.key, self.settings = path, key, settings
        self.all = [
            row for row in read_rows(path) if all(row.get(name, value) == value for name, value in settings.items())
        ]
        # What is added to a line that was cut short would be lost with it.
        self._before = "\n" if path and path.exists() and path.read_bytes()[-1:] not in (b"", b"\n") else ""
        self._done = {self.key_of(row) for row in self.all}

    def key_of(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """The values that identify a row."""
        return tuple(row.get(name, "") for name in self.key)

    def __contains__(self, values: object) -> bool:
        return values in self._done

    def __iter__(self) -> Iterator[Row]:
        return iter(self.all)

    def add(self, *rows: Row) -> None:
        """Adds rows, to the file as well; they get the settings."""
        rows = tuple({**row, **self.settings} for row in rows)
        self.all += rows
        self._done |= {self.key_of(row) for row in rows}
        if self.path:
            with self.path.open("a") as file:
                file.writelines([self._before, *(json.dumps(row) + "\n" for row in rows)])
            self._before = ""


def _search_of(row: Row) -> tuple[str, int]:
    return row["workload"], row.get("seed", 0)


def mean_curves(rows: Sequence[Row], methods: Sequence[str]) -> list[Row]:
    """Mean over workloads and seeds with the standard error over workloads, by device and method.

    Only searches of workloads and seeds that all methods have searched count, as far as these have searched at all: an
    interrupted run leaves methods with other workloads.
    """
    lines = []
    for device in dict.fromkeys(row["device"] for row in rows):
        searched = {
            method: {_search_of(row) for row in rows if (row["device"], row["method"]) == (device, method)}
            for method in methods
        }
        common = set.intersection(*(each for each in searched.values() if each)) if any(searched.values()) else set()
        for method in methods:
            own = [
                row for row in rows if (row["device"], row["method"]) == (device, method) and _search_of(row) in common
            ]
            if not own:
                continue
            names = sorted({row["workload"] for row in own})
            each = np.array([np.mean([r["curve"] for r in own if r["workload"] == n], axis=0) for n in names])
            error = each.std(axis=0, ddof=1) / np.sqrt(len(names)) if len(names) > 1 else np.zeros(each.shape[1])
            curve = {"x": own[0]["trials"], "y": each.mean(axis=0).tolist(), "se": error.tolist()}
            lines.append({"device": device, "label": method, **curve})
    return lines
