"""Imports databases that older versions of TVM wrote, and counts what comes in and what is refused."""

from __future__ import annotations

import lzma
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from costhub.api.data_tools import import_metaschedule
from costhub.dataset.metaschedule.lines import ImportReport
from scripts.bench.common import machine, options


@dataclass(frozen=True)
class OldDatabase:
    """A database that somebody has published, in a folder of its own; its files may be compressed by xz."""

    folder: str
    origin: str
    tvm: str
    device: str
    form: str = "JSON"


DATABASES = (
    OldDatabase("web-llm-metal-2023", "mlc-ai/web-llm", "0.12", "apple-m1-gpu"),
    OldDatabase("mlc-metal-2023", "mlc-ai/mlc-llm", "0.12 or 0.13", "apple-m-gpu"),
    OldDatabase("tvm015-sqlite", "mshr-h/metaschedule_sqlitedatabase", "0.15 or 0.16", "intel-core-avx2-4c", "SQLite"),
    OldDatabase("tvm017-x86", "lac-dcc/bennu", "0.17", "x86-8c"),
    OldDatabase("tvm023-riscv", "LeoBrasileo/TVM-RVV_optimized_operators", "0.23", "riscv-qemu"),
)


def row(database: OldDatabase, report: ImportReport) -> dict[str, Any]:
    """What the table shows of an import."""
    return {
        "origin": database.origin,
        "tvm": database.tvm,
        "form": database.form,
        "workloads": report.workloads,
        "ok": report.ok,
        "failed": report.failed,
        "duplicates": report.duplicates,
        "redone": report.redone,
        "refused": report.refused,
        "reasons": report.reasons,
    }


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@options.json_file()
def main(folder: Path, path: Path | None) -> None:
    """Imports the databases in FOLDER that the list here names; one that is not there is passed over."""
    rows = []
    for database in DATABASES:
        if not (folder / database.folder).is_dir():
            continue
        with tempfile.TemporaryDirectory() as place:
            for file in (folder / database.folder).glob("database_*"):
                content = file.read_bytes()
                plain = lzma.decompress(content) if file.suffix == ".xz" else content
                Path(place, file.name.removesuffix(".xz")).write_bytes(plain)
            report = import_metaschedule(place, Path(place, "out"), device=database.device, progress=False)
        rows.append(row(database, report))
        click.echo(f"{database.origin}, {database.tvm}: {' '.join(report.sentences())}")
    machine.write_result(path, {"rows": rows})
