"""Searches in fresh processes, whose databases and courses are kept: a search of some hours is done once, for all."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

from scripts.bench.common.fresh import result_of

ONCE = "scripts.bench.search.once"
COURSE = "course.json"


def stock_folder(searches: Path, subject: str, seed: int) -> Path:
    """Where the database of stock MetaSchedule's search for a workload or network is kept."""
    return searches / f"{subject}-stock-{seed}"


def kept_course(folder: Path, *words: object) -> dict[str, Any]:
    """The course of a search, whose database lies in the folder; an interrupted search starts anew.

    Args:
        folder: Of this search alone.
        words: Of `scripts.bench.search.once`, the folder among them.

    Returns:
        What `scripts.bench.search.once` prints, with the seconds of the process `before_s` the search began and until
        its exit, `exit_s`.
    """
    course = folder / COURSE
    if not course.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        found = result_of(ONCE, *words)
        seconds = {"before_s": found["began"] - started, "exit_s": time.monotonic() - started}
        course.write_text(json.dumps({**found, **seconds}))
    kept: dict[str, Any] = json.loads(course.read_text())
    return kept
