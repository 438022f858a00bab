"""Times `costhub bench search` with a strategy and a model of a newcomer, from an empty cache and without a GPU."""

from __future__ import annotations

import json
import shlex
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from costhub.files import CACHE_VARIABLE
from scripts.bench.common import machine, options
from scripts.bench.common.fresh import run_module
from scripts.bench.common.rows import Row
from scripts.tables.search import newcomer_table

EXAMPLES = "examples/newcomer"
"""Folder of the checkout with the newcomer's files."""
FEW = ("--device", "amd-epyc-zen5-1c", "--workloads", "1", "--seeds", "1", "--trials-per-workload", "16")
"""What the quick form adds to every command."""


@dataclass(frozen=True)
class Part:
    """What is played."""

    name: str
    file: str
    """In `EXAMPLES`."""
    words: tuple[str, ...]
    """Of `costhub bench search`."""
    is_cold: bool = True
    """Begins with an empty cache; otherwise with what the part before it has left there."""


STRATEGY, MODEL = f"{EXAMPLES}/strategy.py:Neighbours", f"{EXAMPLES}/model.py:Ridge"
PARTS = (
    Part("strategy", "strategy.py", ("--strategy", STRATEGY, "--model", "none")),
    Part("model", "model.py", ("--model", MODEL)),
    Part("model again", "model.py", ("--model", MODEL), is_cold=False),
)


def played(part: Part, cache: Path, more: Sequence[str] = ()) -> Row:
    """The seconds and the scores of one command, in a process of its own that sees no GPU.

    Args:
        part: What is played.
        cache: Folder of the features; missing for a cold start.
        more: Further words of the command.

    Raises:
        ClickException: The command failed.
    """
    words = ["bench", "search", *part.words, *more]
    with tempfile.TemporaryDirectory(prefix="costhub-") as folder:
        out = Path(folder, "out.json")
        start = time.perf_counter()
        done = run_module(
            "costhub",
            *words,
            "--out",
            out,
            check=False,
            variables={CACHE_VARIABLE: str(cache), "CUDA_VISIBLE_DEVICES": ""},
            cwd=machine.ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        seconds = time.perf_counter() - start
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["nothing"]
            raise click.ClickException(f"costhub {shlex.join(words)} ended with {done.returncode} and said: {said[-1]}")
        found = json.loads(out.read_text(encoding="utf-8"))
    return {"part": part.name, "played": f"costhub {shlex.join(words)}", "seconds": seconds, **figures(part, found)}


def figures(part: Part, found: dict[str, Any]) -> Row:
    """What the table shows of a result, and how long the newcomer's file is.

    Args:
        part: What was played.
        found: What `costhub bench search --out` wrote.
    """
    lines = (machine.ROOT / EXAMPLES / part.file).read_text(encoding="utf-8").splitlines()
    return {
        "file": part.file,
        "lines": sum(bool(line.strip()) for line in lines),
        **{key: found[key] for key in ("strategy", "model", "batch", "seeds", "score")},
        "devices": found["devices"],
    }


@click.command()
@options.quick("One workload of one device, one seed, 16 trials.")
@options.json_file()
def main(quick: bool, path: Path | None) -> None:
    """Plays both on every device; run it with nothing else on the machine, for its seconds are kept."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="costhub-") as folder:
        cache = Path(folder)
        for number, part in enumerate(PARTS):
            cache = Path(folder, str(number)) if part.is_cold else cache
            rows.append(played(part, cache, FEW if quick else ()))
            click.echo(f"{part.name}: {rows[-1]['seconds']:.0f} s, score {rows[-1]['score']:.3f}")
    machine.write_result(path, {"rows": rows})
    click.echo(newcomer_table({"rows": rows}))
