"""Kills `costhub collect` and its children with -9 at random moments, and counts what was lost."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click
import psutil

from costhub.dataset.folder import DataFolder
from scripts.bench.common import machine, options

SUITES = ("softmax.64x1000", "matmul.128x128x128")
# Only the process that measures gets the number of its threads.
RUNNER_VARIABLE = "TVM_NUM_THREADS"
KINDS = ("builder", "runner")
CODE = "from costhub.cli.main import main; main({!r})"
PATIENCE_S = 180.0
# Findings about latencies come from other work on the machine and are no loss.
OF_THE_LOAD = ("CH033", "CH040")


def costhub(*arguments: str) -> list[str]:
    """The command line of a costhub verb with the code of this process."""
    return [sys.executable, "-c", CODE.format(list(arguments))]


def journal_ids(folder: Path) -> set[str]:
    """Ids of rows whose line in a journal is complete: acknowledged by a collector and not yet compacted."""
    texts = [path.read_text() for path in folder.glob("measurements/*/journal.jsonl")]
    lines = [line for text in texts for line in text[: text.rfind("\n") + 1].splitlines()]
    return {json.loads(line)["record_id"] for line in lines}


class CollectorRun:
    """One collector, from its start to its end by kill -9."""

    def __init__(self, folder: Path, log: Path) -> None:
        command = costhub("collect", *(f"--suite={s}" for s in SUITES), "--trials=100000", f"--out={folder}")
        self.folder = folder
        with log.open("w") as file:
            self.process = psutil.Popen(command, stdout=file, stderr=file, start_new_session=True)
        self.acknowledged: set[str] = set()
        self.seen: set[psutil.Process] = set()

    def look(self) -> None:
        """Notes what has been acknowledged and which children there are."""
        self.acknowledged |= journal_ids(self.folder)
        self.seen.update(self.process.children(recursive=True))

    def wait(self, rows: int) -> None:
        """Waits for so many more acknowledged rows than now; fails if the collector ends by itself."""
        self.look()
        target, end = len(self.acknowledged) + rows, time.monotonic() + PATIENCE_S
        while len(self.acknowledged) < target:
            if self.process.poll() is not None or time.monotonic() > end:
                raise click.ClickException(f"The collector stopped by itself or stands still: {self.process}.")
            time.sleep(0.02)
            self.look()

    def kill_child(self, kind: str, rng: random.Random) -> bool:
        """Kills one of its builders or its runner; False if none is running."""
        children = [c for c in self.process.children() if (RUNNER_VARIABLE in c.environ()) == (kind == "runner")]
        if children:
            rng.choice(children).kill()
        return bool(children)

    def kill(self) -> list[str]:
        """Kills the collector; returns the children that outlive it, after a moment to finish a linker."""
        self.look()
        self.process.kill()
        self.process.wait()
        _, alive = psutil.wait_procs(self.seen, timeout=10)
        return [str(child) for child in alive]


@click.command()
@click.option("--collectors", default=60, help="Collectors to kill.")
@click.option("--children", default=140, help="Builders and runners to kill, within collectors that go on.")
@options.quick("3 collectors and 6 children.")
@click.option("--seed", default=0)
@options.json_file()
def main(collectors: int, children: int, quick: bool, seed: int, path: Path | None) -> None:
    """Prints what was killed and what was lost; fails if anything was lost."""
    collectors, children = (3, 6) if quick else (collectors, children)
    rng, start = random.Random(seed), time.monotonic()
    place = Path(tempfile.mkdtemp(prefix="costhub-kill-"))
    os.environ["TMPDIR"] = str(place / "tmp")
    (place / "tmp").mkdir()
    folder = place / "data"
    killed: Counter[str] = Counter()
    acknowledged: set[str] = set()
    orphans: list[str] = []
    for number in range(collectors):
        life = CollectorRun(folder, place / "log.txt")
        share = children // collectors + (number < children % collectors)
        try:
            killed.update(killed_children(life, rng.choices(KINDS, k=share), rng))
        finally:  # ^C does not reach a collector in a session of its own
            orphans += life.kill()
        killed["collector"] += 1
        acknowledged |= life.acknowledged
        click.echo(f"{number + 1} of {collectors} collectors, {len(acknowledged)} rows acknowledged", err=True)
    figures = {
        "killed": dict(killed),
        "acknowledged": len(acknowledged),
        **findings(folder, acknowledged),
        "orphans": orphans,
        "temporary_files_left": sum(1 for path in (place / "tmp").rglob("*") if path.is_file()),
        "wall_s": round(time.monotonic() - start),
    }
    click.echo(json.dumps(figures, indent=1))
    machine.write_result(path, figures)
    bad = {key: figures[key] for key in ("lost", "doubled", "orphans", "check_findings", "temporary_files_left")}
    if any(bad.values()):
        raise click.ClickException(f"{bad}; everything is kept in {place}.")
    shutil.rmtree(place)


def killed_children(life: CollectorRun, kinds: Sequence[str], rng: random.Random) -> Sequence[str]:
    """Lets a collector work and kills its children, one of each kind given, at random moments; returns the kinds."""
    life.wait(rng.randint(1, 20))
    for kind in kinds:
        time.sleep(rng.uniform(0.0, 0.5))
        while not life.kill_child(kind, rng):
            time.sleep(0.05)
        life.wait(rng.randint(1, 20))
    time.sleep(rng.uniform(0.0, 0.5))
    return kinds


def findings(folder: Path, acknowledged: set[str]) -> dict[str, object]:
    """The state of the folder after a last, undisturbed collection and a check."""
    last = subprocess.run(
        costhub("collect", f"--suite={SUITES[0]}", "--trials=1", f"--out={folder}"),
        capture_output=True,
        text=True,
        check=True,
    )
    check = subprocess.run(
        costhub("check", "--strict", "--json", str(folder)), capture_output=True, text=True, check=False
    )
    rules = Counter(finding["rule"] for finding in json.loads(check.stdout)["findings"])
    columns = ["record_id", "program_id", "device_id", "status", "error"]
    rows = DataFolder.open(folder).measurements(columns=columns).to_pylist()
    records = Counter(row["record_id"] for row in rows)
    programs = Counter((row["program_id"], row["device_id"]) for row in rows)
    deaths = [row for row in rows if "SIGKILL" in (row["error"] or "")]
    return {
        "rows": len(rows),
        "rows_of_killed_children": len(deaths),
        "statuses": dict(Counter(row["status"] for row in rows)),
        "lost": len(acknowledged - set(records)),
        "doubled": sum(n - 1 for n in [*records.values(), *programs.values()]),
        "check_findings": sum(rules.values()) - sum(rules[rule] for rule in OF_THE_LOAD),
        "check_rules": dict(rules),
        "last_said": last.stdout.strip(),
    }
