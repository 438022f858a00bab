"""Searches in fresh processes, whose databases and courses are kept: a search of some hours is done once, for all."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from scripts.bench.common.fresh import result_of

ONCE = "scripts.bench.search.once"
COURSE = "course.json"
MODELS = ("model", "draft")
"""Settings of a search that are folders of models."""


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
        its exit, `exit_s`, and with what was `asked`.

    Raises:
        click.ClickException: The folder holds a search that was asked for something else.
    """
    course, asked = folder / COURSE, _asked(folder, words)
    if not course.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        found = result_of(ONCE, *words)
        seconds = {"before_s": found["began"] - started, "exit_s": time.monotonic() - started}
        course.write_text(json.dumps({**found, **seconds, "asked": asked}))
    kept: dict[str, Any] = json.loads(course.read_text())
    if kept.get("asked") != asked:
        raise click.ClickException(
            f"The search in {folder} is not the one that is asked for now: its trials, settings, model or held-out "
            "workloads are others, or an older version made it. Delete the folder, or name another one with --searches."
        )
    return kept


def _asked(folder: Path, words: Sequence[object]) -> list[Any]:
    """What a search is asked for, wherever it is kept."""
    return [_without_place(word) for word in words if word != folder]


def _without_place(word: object) -> object:
    """A word with models by the names of their folders, which say how they were made and may lie in a temporary one."""
    if isinstance(word, Path):
        return word.name
    if isinstance(word, str) and word.startswith("{"):
        settings: dict[str, Any] = json.loads(word)
        return {name: Path(value).name if name in MODELS else value for name, value in settings.items()}
    return word
