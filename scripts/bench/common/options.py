"""Options that many benchmarks share, as decorators of their commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
PATH = click.Path(path_type=Path)
A_COPY = "By default a copy of the embedded dataset."
RESUMED = "What is there is not done again."


def quick(what: str) -> Callable[[F], F]:
    """``--quick``, with a sentence about the quick form."""
    return click.option("--quick", is_flag=True, help=what)


def json_file(help_: str = "Where the results go.") -> Callable[[F], F]:
    """``--json``, the result file, as `path`."""
    return click.option("--json", "path", type=PATH, help=help_)


def rows_file() -> Callable[[F], F]:
    """``--rows``, a file of JSON lines for `Rows`, as `rows_path`."""
    return click.option("--rows", "rows_path", type=PATH, help=f"JSON lines, a row each. {RESUMED}")


def data(help_: str = A_COPY) -> Callable[[F], F]:
    """``--data``, a data folder."""
    return click.option("--data", type=PATH, help=help_)


def data_folders(help_: str = A_COPY) -> Callable[[F], F]:
    """``--data``, one or several data folders, as `folders`."""
    return click.option("--data", "folders", multiple=True, type=PATH, help=help_)


def models_folder() -> Callable[[F], F]:
    """``--models``, a folder that keeps trained models from run to run."""
    return click.option("--models", type=PATH, help="Where trained models are kept; by default nowhere.")


def pairs(default: str) -> Callable[[F], F]:
    """``--pair``, sources and targets in the form that `Devices.parse` reads, as `pairs`."""
    text = f"FOLDER:DEVICE+DEVICE=FOLDER:DEVICE; by default {default} in a copy of the embedded dataset."
    return click.option("--pair", "pairs", multiple=True, help=text)


def workloads(default: tuple[str, ...]) -> Callable[[F], F]:
    """``--workload``, names of workloads, as `workloads`."""
    return click.option("--workload", "workloads", multiple=True, default=default, help="A name of a suite.")


def trials(default: int) -> Callable[[F], F]:
    """``--trials``."""
    return click.option("--trials", default=default, show_default=True, help="Programs that a search measures.")


def seeds(default: int = 3, help_: str | None = None) -> Callable[[F], F]:
    """``--seeds``, how many."""
    return click.option("--seeds", default=default, show_default=True, type=click.IntRange(min=1), help=help_)
