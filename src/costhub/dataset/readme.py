"""Provides the README of a data folder: the configuration for `datasets`, and the meaning of its columns."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from costhub.dataset.schema import SCHEMA_VERSION, TABLES, document
from costhub.files import write_replacing

README = "README.md"


def dataset_config(name: str, path: str, *, default: bool = False) -> dict[str, Any]:
    """Returns a configuration for `datasets`, with all of its files in one split.

    Example:
        >>> dataset_config("devices", "devices/train-*.parquet")["data_files"]
        [{'split': 'train', 'path': 'devices/train-*.parquet'}]
    """
    is_default = {"default": True} if default else {}
    return {"config_name": name, **is_default, "data_files": [{"split": "train", "path": path}]}


CONFIGS = (
    dataset_config("measurements", "measurements/*/train-*.parquet", default=True),
    dataset_config("workloads", "workloads/train-*.parquet"),
    dataset_config("devices", "devices/train-*.parquet"),
)
"""One configuration for each table."""

EXAMPLE_QUERY = """\
select name, count(*) as programs, min(list_median(run_s)) as best_s
    from 'measurements/*/*.parquet' join 'workloads/*.parquet' using (workload_id)
    where status = 'ok' group by name order by name"""

_INTRODUCTION = f"""
# Measured tensor programs

Programs of Apache TVM MetaSchedule and the time they take on devices, in the format of costhub
(schema version {SCHEMA_VERSION}). Failed attempts are rows as well.

The latency of a program is the median of `run_s`, in seconds. No code of costhub is needed to read it:

    from datasets import load_dataset
    measurements = load_dataset("path/of/this/folder", "measurements", split="train")

or, in DuckDB, the best of each workload:

    {EXAMPLE_QUERY}

With costhub, `costhub.load_measurements` reads it filtered, and `costhub stats` counts what is in it.
"""


_GENERATED = re.compile(
    re.sub(r"version\\ \d+", r"version\\ \\d+", re.escape(_INTRODUCTION.strip()))
    + r"\s*(?:\n(?:## (?:devices|workloads|measurements)|\|[^\n]*\||)(?=\n|\Z))*\s*"
)


def readme_text() -> str:
    """Renders the README of a new data folder."""
    content = {"configs": [dict(entry) for entry in CONFIGS], "tags": ["costhub", "tvm", "cost-model"]}
    sections = [f"\n## {table}\n\n{document(table)}\n" for table in TABLES]
    block = yaml.safe_dump(content, sort_keys=False)
    return f"---\n{block}---\n{_INTRODUCTION}{''.join(sections)}"


def is_generated(body: str) -> bool:
    r"""Whether a text is the body that `readme_text` renders, with the columns of any schema version.

    Example:
        >>> text = readme_text().split("---\n")[2]
        >>> is_generated(text), is_generated(text + "More of it.\n")
        (True, False)
    """
    return _GENERATED.fullmatch(body.strip()) is not None


def write_readme(folder: Path) -> None:
    """Writes the README of a new data folder; leaves an existing one alone."""
    path = folder / README
    if path.exists():
        return
    write_replacing(path, readme_text().encode())
