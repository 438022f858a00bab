"""Cuts connections and kills clients in the middle of downloads and uploads, then runs each command again."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.progress import bar
from scripts.bench.common import machine, options
from scripts.bench.data.cut_commands import (
    COMMANDS,
    DATASET,
    Files,
    LocalFolders,
    LoopbackHub,
    digest,
    file_bytes,
    half_files,
)
from scripts.bench.data.cutting_proxy import CuttingProxy, random_point

FAULTS = ("cut", "cut", "away", "kill", "kill")
"""A cut after which the client may recover by itself, a cut after which the server stays away, a kill -9."""
SENTENCES = ("costhub: ", "costhub.errors.")
TIMEOUT_S = 300.0
SETTINGS = ("HF_", "COSTHUB_")
COLUMNS = [
    TableColumn("command", "command"),
    *(number(key, key, "d") for key in ("cut", "away", "kill", "reached", "first_done", "arrived")),
    *(number(key, key, "d") for key in ("again_done", "identical", "half", "lost", "doubled", "left")),
]


@dataclass
class Sandbox:
    """A server with a proxy before it, and the folder of one client."""

    hub: Any
    proxy: CuttingProxy
    folder: Path
    whole: Files = field(default_factory=dict)
    """The files of the pulled folder, once they are known."""
    seen: set[Path] = field(default_factory=set)
    half: list[str] = field(default_factory=list)

    def start(self, code: str) -> subprocess.Popen[str]:
        """Starts a program as a client of the proxy, without the caller's own settings."""
        env = {key: value for key, value in os.environ.items() if not key.startswith(SETTINGS)}
        env |= {"HF_ENDPOINT": self.proxy.url, "HF_HOME": str(self.folder / "hf")}
        env |= {"HF_HUB_DISABLE_XET": "1", "COSTHUB_CACHE": str(self.folder / "cache")}
        env |= {"TMPDIR": str(self.folder / "tmp"), "OMP_NUM_THREADS": "1"}
        (self.folder / "tmp").mkdir(exist_ok=True)
        return subprocess.Popen(
            [sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def wait(self, process: subprocess.Popen[str]) -> tuple[str, str]:
        """Its output and errors when it has ended; looks for half-written files meanwhile."""
        end = time.monotonic() + TIMEOUT_S
        while process.poll() is None and time.monotonic() < end:
            self.half += half_files(self.folder, self.whole, self.seen)
            time.sleep(0.01)
        if process.poll() is None:
            process.kill()
            raise click.ClickException(f"A command hangs; its last requests were {self.hub.requests[-3:]}.")
        self.half += half_files(self.folder, self.whole, self.seen)
        stdout, stderr = process.communicate()
        return stdout.strip(), stderr.strip()

    def commits(self) -> set[str]:
        """A hash of each state that any branch had."""
        return {digest(files) for commits in self.hub.commits.values() for files in commits.values()}

    def left(self) -> int:
        """The number of temporary files and folders left behind."""
        hidden = [path for path in self.folder.glob(".*")]
        return len([*(self.folder / "tmp").iterdir(), *hidden])


@contextmanager
def place_of(name: str, sources: LocalFolders) -> Iterator[Sandbox]:
    """A place where a command finds what it needs."""
    with LoopbackHub() as hub, tempfile.TemporaryDirectory(prefix="costhub-cuts-") as folder:
        COMMANDS[name].prepare(hub, sources)
        with CuttingProxy(int(hub.url.rsplit(":", 1)[1])) as proxy:
            yield Sandbox(hub, proxy, Path(folder))


@dataclass(frozen=True)
class Undisturbed:
    """What a command does without faults."""

    result: str
    commits: set[str]
    sizes: list[dict[str, int]]
    pulled: Files


def undisturbed(name: str, sources: LocalFolders) -> Undisturbed:
    """Runs a command without faults."""
    command = COMMANDS[name]
    with place_of(name, sources) as place:
        process = place.start(command.code(sources, place.folder))
        stdout, stderr = place.wait(process)
        assert process.returncode == 0, stderr
        result = command.result(place.hub, place.folder, stdout)
        assert result
        return Undisturbed(result, place.commits(), place.proxy.sizes, file_bytes(place.folder / "pulled"))


def trial(name: str, sources: LocalFolders, clean: Undisturbed, seed: int) -> dict[str, Any]:
    """Disturbs a command once, runs it again, and reports the outcome of both."""
    rng, command = random.Random(seed), COMMANDS[name]
    fault, point = rng.choice(FAULTS), random_point(clean.sizes, rng)
    delay = rng.choice([0.0, rng.uniform(0.0, 0.5)])
    with place_of(name, sources) as place:
        place.whole, before = clean.pulled, place.commits()
        code = command.code(sources, place.folder)
        process = place.start(code)
        place.proxy.stays_away = fault == "away"
        if fault == "kill":
            place.proxy.instead = lambda: threading.Timer(delay, process.kill).start()
        place.proxy.point = point
        stdout, stderr = place.wait(process)
        first = command.result(place.hub, place.folder, stdout)
        lines = stderr.splitlines()
        place.proxy.heal()
        again = place.start(code)
        stdout_again, stderr_again = place.wait(again)
        return {
            "command": name,
            "seed": seed,
            "fault": fault,
            "point": point.part,
            "request": place.proxy.reached,
            "first": process.returncode,
            "arrived": first == clean.result,
            "sentence": process.returncode <= 0 or bool(lines and lines[-1].startswith(SENTENCES)),
            "again": again.returncode,
            "identical": command.result(place.hub, place.folder, stdout_again) == clean.result,
            "half": [*place.half, *(place.commits() - clean.commits)],
            "lost": len(before - place.commits()),
            "doubled": max(0, len(place.hub.pulls.get(DATASET, [])) - 1),
            "left": place.left(),
            "told": stderr[-300:] if process.returncode > 0 else stderr_again[-300:],
        }


def row(name: str, trials: list[dict[str, Any]]) -> dict[str, Any]:
    """The counts of one command."""
    faults = Counter(t["fault"] for t in trials)
    return {
        "command": name,
        **{fault: faults[fault] for fault in sorted(set(FAULTS))},
        "reached": sum(t["request"] is not None for t in trials),
        "first_done": sum(t["first"] == 0 for t in trials),
        "arrived": sum(t["first"] != 0 and t["arrived"] for t in trials),
        "no_sentence": sum(not t["sentence"] for t in trials),
        "again_done": sum(t["again"] == 0 for t in trials),
        "identical": sum(t["identical"] for t in trials),
        "half": sum(len(t["half"]) for t in trials),
        "lost": sum(t["lost"] for t in trials),
        "doubled": sum(t["doubled"] for t in trials),
        "left": sum(t["left"] for t in trials),
    }


def bad(trial: dict[str, Any]) -> bool:
    """Whether anything is wrong."""
    sound = trial["again"] == 0 and trial["identical"] and trial["sentence"]
    return not sound or bool(trial["half"] or trial["lost"] or trial["doubled"])


@click.command()
@click.option("--cuts", default=200, help="How many, over all commands.")
@click.option("--command", "names", multiple=True, type=click.Choice(list(COMMANDS)), help="All by default.")
@click.option("--seed", default=0)
@click.option("--jobs", default=1, help="Commands that run at a time; each has a server of its own.")
@options.quick("One cut of each command.")
@options.json_file()
def main(cuts: int, names: tuple[str, ...], seed: int, jobs: int, quick: bool, path: Path | None) -> None:
    """Prints a line per command; fails if a second run does not put everything right."""
    if quick:
        cuts = len(names or COMMANDS)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="costhub-cuts-") as folder:
        sources = LocalFolders(Path(folder))
        names = names or tuple(COMMANDS)
        clean = {name: undisturbed(name, sources) for name in names[:cuts]}
        with ThreadPoolExecutor(jobs) as pool, bar(cuts, desc="cuts", unit="cut") as shown:
            asked = [
                pool.submit(trial, name, sources, clean[name], 1_000_003 * seed + i)
                for i, name in ((i, names[i % len(names)]) for i in range(cuts))
            ]
            trials = []
            for future in asked:
                trials.append(future.result())
                shown.update(1)
    rows = [row(name, [t for t in trials if t["command"] == name]) for name in clean]
    click.echo(plain_table(rows, COLUMNS))
    wrong = [t for t in trials if bad(t)]
    points = Counter(f"{t['point']}, {t['fault']}" for t in trials)
    figures = {"rows": rows, "points": dict(sorted(points.items())), "wrong": wrong}
    machine.write_result(path, {**figures, "wall_s": round(time.monotonic() - start)})
    if wrong:
        click.echo(json.dumps(wrong, indent=1), err=True)
        raise click.ClickException(f"{len(wrong)} of {cuts} cuts left something wrong.")
