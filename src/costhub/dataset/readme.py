"""Provides the README of a data folder: what `datasets` needs to load it, and what its columns mean."""

from __future__ import annotations

import os
from pathlib import Path

from costhub.dataset.schema import SCHEMA_VERSION, TABLES, document

_FRONT_MATTER = """\
---
configs:
- config_name: measurements
  default: true
  data_files:
  - split: train
    path: measurements/*/train-*.parquet
- config_name: workloads
  data_files:
  - split: train
    path: workloads/train-*.parquet
- config_name: devices
  data_files:
  - split: train
    path: devices/train-*.parquet
tags:
- costhub
- tvm
- cost-model
---
"""

QUERY = """\
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

    {QUERY}

With costhub, `costhub.load_measurements` reads it filtered, and `costhub stats` counts what is in it.
"""


def readme_text() -> str:
    """Renders the README of a new data folder."""
    sections = [f"\n## {table}\n\n{document(table)}\n" for table in TABLES]
    return _FRONT_MATTER + _INTRODUCTION + "".join(sections)


def write_readme(folder: Path) -> None:
    """Writes the README of a new data folder; one that is there already is left alone."""
    path = folder / "README.md"
    if path.exists():
        return
    temporary = folder / f".README-{os.getpid()}"
    temporary.write_text(readme_text(), encoding="utf-8")
    os.replace(temporary, path)
