"""Makes every mistake of a list at the command line: the answer, the exit code and the CPU seconds of each."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import click

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.progress import bar
from scripts.bench.command_line.mistake_list import MISTAKES, Mistake, make_folder
from scripts.bench.common import machine, options

WAIT_S = 30.0
"""A command that still runs after this long took the mistake for something that it can do."""
CODE = """
import atexit, sys
sys.argv = ["costhub", *sys.argv[1:]]
heavy = ("tvm", "torch", "xgboost")
atexit.register(lambda: print("\\0" + " ".join(name for name in heavy if name in sys.modules), file=sys.stderr))
from costhub.cli.main import main
main()
"""
COLUMNS = (
    TableColumn("words", "costhub ..."),
    number("code", "exit", "d"),
    number("cpu_s", "CPU s", ".2f"),
    TableColumn("loaded", "loaded"),
    TableColumn("answer", "answer"),
)


def attempt(mistake: Mistake, source: Path) -> dict[str, Any]:
    """Makes one mistake in a new process and a new folder.

    Args:
        mistake: The mistake.
        source: Folder of the package `costhub` that answers.
    """
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        make_folder(Path(folder))
        before = _names(folder)
        own = {"PYTHONPATH": str(source), "COSTHUB_CACHE": cache, "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
        hide = ("COSTHUB_", "HF_")
        start = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        process = subprocess.Popen(
            [sys.executable, "-c", CODE, *mistake.words.split()],
            cwd=folder,
            env={**{k: v for k, v in os.environ.items() if not k.startswith(hide)}, **own},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=WAIT_S)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            process.terminate()
            out, err = process.communicate()
            code = None
        cpu_s = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - start
        left = sorted(_names(folder) - before)
    said, _, loaded = err.partition("\0")
    answer = (said.strip() or out.strip()).replace(folder, ".").replace(str(source.parent), ".")
    return {"code": code, "cpu_s": round(cpu_s, 3), "answer": answer, "loaded": loaded.strip(), "left": left}


def _names(folder: str) -> set[str]:
    return {str(path.relative_to(folder)) for path in Path(folder).rglob("*")}


def is_right(row: Mapping[str, Any]) -> bool:
    """Whether the answer is one sentence about the mistake, with the exit code of the rule, and left nothing behind."""
    one = len(row["answer"].splitlines()) == 1
    return bool(one and row["code"] == row["expected"] and row["names"] in row["answer"] and not row["left"])


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Figures of all mistakes together."""
    seconds = sorted(row["cpu_s"] for row in rows)
    return {
        "mistakes": len(rows),
        "right": sum(map(is_right, rows)),
        "accepted": sum(row["code"] in (0, None) for row in rows),
        "median_cpu_s": median(seconds),
        "most_cpu_s": seconds[-1],
        "under_0_5_s": sum(each <= 0.5 for each in seconds),
        "heavy": sum(bool(row["loaded"]) for row in rows),
        "codes": {str(code): count for code, count in sorted(Counter(str(row["code"]) for row in rows).items())},
    }


@click.command()
@click.option("--only", multiple=True, help="Make only the mistakes that contain this text.")
@click.option(
    "--source",
    type=options.PATH,
    default=machine.ROOT / "src",
    help="Folder of the package that answers; by default this checkout's.",
)
@options.quick("The first mistake of each kind.")
@options.json_file()
def main(only: tuple[str, ...], source: Path, quick: bool, path: Path | None) -> None:
    """Makes every mistake of a list, each in a new process."""
    chosen = [each for each in MISTAKES if not only or any(text in each.words for text in only)]
    if quick:
        chosen = list({each.about: each for each in reversed(chosen)}.values())[::-1]
    rows = []
    with bar(len(chosen), desc="mistakes", unit="mistake") as shown:
        for mistake in chosen:
            asked = {"about": mistake.about, "words": mistake.words, "names": mistake.names, "expected": mistake.code}
            rows.append({**asked, **attempt(mistake, source.resolve())})
            shown.update(1)
    found = summary(rows)
    click.echo(plain_table(rows, COLUMNS))
    for row in rows:
        if not is_right(row):
            click.echo(f"NOT RIGHT: costhub {row['words']} -> {row['code']} {row['left']}: {row['answer']}", err=True)
    click.echo(", ".join(f"{key} {value}" for key, value in found.items()))
    machine.write_result(path, {"summary": found, "rows": rows})
