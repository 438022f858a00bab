"""Kills import, doctor --fix, compile and adapt, and their children, with -9, and compares what comes of them."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import psutil

from costhub.dataset.folder import DataFolder
from costhub.dataset.shards.lock import LOCK
from costhub.dataset.shards.shard import TEMP_PREFIX
from scripts.bench.common import machine, options
from scripts.bench.common.data import small_folder
from scripts.bench.common.rows import RowFile

DEVICE = "amd-epyc-zen5-2c"
MODEL = f"{DEVICE}-gbt"
KERNELS = ("softmax.64x1000", "matmul.128x128x128")
CODE = "import sys; from costhub.cli.main import main; sys.argv[0] = 'costhub'; sys.exit(main())"
MARK = "COSTHUB_KILLS"
PATIENCE_S = 1800.0
GONE_S = 15.0
"""For a linker to end that had been started before the kill."""
FINE = (0, 1)
"""Exit status of a run that lost a child: done, or a sentence."""
State = dict[str, Any]


@dataclass(frozen=True)
class KilledVerb:
    """A command that is killed, and what its result is."""

    words: tuple[str, ...]
    """DB, DATA and OUT stand for a database, a data folder and the place of the result."""
    state: Callable[[Path], State]
    """What must be the same in the end, whatever was killed on the way."""
    keeps_result: bool = True
    """Whether the result is the same even if a child was killed on the way: of compile, the program whose build was
    lost is left out."""


@dataclass
class Tally:
    """What was killed, and what came of it."""

    killed: Counter[str] = field(default_factory=Counter)
    """`parent` or `child` -> times."""
    ended_before: int = 0
    """Runs that had ended before they were to be killed; the next one begins anew."""
    orphans: list[str] = field(default_factory=list)
    """Processes that outlived their parent."""
    tracebacks: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    """Runs with another result than the one that nobody killed."""


def imported_rows(out: Path) -> State:
    """The rows of a data folder, each once, and what `costhub check` finds."""
    rows = DataFolder.open(out).measurements(columns=["record_id", "status"]).to_pylist()
    counts = Counter((row["record_id"], row["status"]) for row in rows)
    check = _costhub(["check", "--json", str(out)], dict(os.environ))
    return {
        "rows": hashlib.sha256(json.dumps(sorted(counts)).encode()).hexdigest(),
        "count": len(rows),
        "doubled": len(rows) - len({row["record_id"] for row in rows}),
        "errors": sum(finding["severity"] == "error" for finding in json.loads(check.stdout)["findings"]),
    }


def database_lines(out: Path) -> State:
    """The lines of a database, each once, and its files."""
    found: State = {"files": sorted(path.name for path in out.iterdir())}
    for name in ("database_workload.json", "database_tuning_record.json"):
        lines = (out / name).read_text().splitlines()
        found[name] = hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
        found.setdefault("doubled", 0)
        found["doubled"] += len(lines) - len(set(lines))
    return found


def compiled_kernels(out: Path) -> State:
    """The schedules and libraries of a compilation."""
    report = json.loads((out / "report.json").read_text())
    kernels = [[row[name] for name in ("workload", "source", "rank", "error")] for row in report["workloads"]]
    return {**database_lines(out), "kernels": kernels, "is_finished": report["is_finished"]}


def model_files(out: Path) -> State:
    """The weights of a model, and its files."""
    names = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    weights = [name for name in names if Path(name).suffix in (".ubj", ".safetensors")]
    hashes = {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in weights}
    return {"files": names, "weights": hashes, "doubled": 0}


VERBS = {
    "import": KilledVerb(
        ("import", "metaschedule", "DB", "--device", DEVICE, "--licence", "MIT", "--out", "OUT"), imported_rows
    ),
    "doctor": KilledVerb(("doctor", "DB", "--fix", "OUT"), database_lines),
    "compile": KilledVerb(
        ("compile", *KERNELS, "--source", "model", "--pool", "16", "--model", MODEL, "--out", "OUT"),
        compiled_kernels,
        keeps_result=False,
    ),
    "adapt": KilledVerb(("adapt", MODEL, "--data", "DATA", "--trials", "32", "--out", "OUT"), model_files, False),
}
QUICK = ("import", "doctor")


def _costhub(words: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", CODE, *words], env=env, capture_output=True, text=True, check=False)


class Killer:
    """One verb in a place of its own: its inputs, its cache and its temporary folder.

    Args:
        verb: The verb.
        inputs: What DB and DATA stand for.
        place: An empty folder.
        rng: Chooses the moments and the victims.
    """

    def __init__(self, verb: KilledVerb, inputs: dict[str, Path], place: Path, rng: random.Random) -> None:
        self.verb, self.place, self.rng, self.tally = verb, place, rng, Tally()
        self.results, self.temporary = place / "results", place / "tmp"
        self.out = self.results / "out"
        for folder in (self.results, self.temporary):
            folder.mkdir(parents=True)
        self._inputs = inputs
        self._mark = uuid.uuid4().hex
        self.env = {
            **os.environ,
            "COSTHUB_CACHE": str(place / "cache"),
            "TMPDIR": str(self.temporary),
            MARK: self._mark,
        }

    def words(self) -> list[str]:
        """The command line after `costhub`."""
        names = {name: str(path) for name, path in {**self._inputs, "OUT": self.out}.items()}
        return [names.get(word, word) for word in self.verb.words]

    def whole(self) -> tuple[State, float]:
        """A run that nobody kills: its result, and how long it takes."""
        began = time.monotonic()
        done = _costhub(self.words(), self.env)
        if done.returncode:
            raise click.ClickException(f"costhub {' '.join(self.verb.words)} failed: {done.stderr.strip()[-500:]}")
        return self.verb.state(self.out), time.monotonic() - began

    def start_over(self) -> None:
        """Forgets the result, and what the cache knows of it."""
        for path in (self.out, self.place / "cache"):
            shutil.rmtree(path, ignore_errors=True)
            path.unlink(missing_ok=True)

    def kill_once(self, whole: State, seconds: float) -> None:
        """Starts a run and kills it, or one of its children, at a random moment of its time."""
        who, moment = self.rng.choice(("parent", "child")), self.rng.uniform(0.0, seconds)
        with (self.place / "log.txt").open("w+") as log:
            argv = [sys.executable, "-c", CODE, *self.words()]
            process = psutil.Popen(argv, env=self.env, stdout=log, stderr=log, start_new_session=True)
            time.sleep(moment)
            if process.poll() is None:
                who = self._kill(process, who)
            else:
                self.tally.ended_before += 1
                who = ""
            try:
                process.wait(PATIENCE_S)
            except psutil.TimeoutExpired:
                self.tally.different.append(f"still there {PATIENCE_S:g} s after a child was killed")
                process.kill()
                process.wait()
            log.seek(0)
            said = log.read()
        if "Traceback" in said or "this is a bug" in said:
            self.tally.tracebacks.append(said.strip()[-500:])
        self._judge(process.returncode, whole, lost_child=who == "child")

    def _kill(self, process: psutil.Popen, who: str) -> str:
        """Kills the run or, if it has any, one of its children; returns which."""
        children = process.children(recursive=True)
        if who == "child" and children:
            victim = self.rng.choice(children)
        else:
            who, victim = "parent", process
        victim.kill()
        self.tally.killed[who] += 1
        return who

    def _judge(self, status: int, whole: State, *, lost_child: bool) -> None:
        """Looks for orphans, and at the result of a run that has ended by itself."""
        left = self._left_after(GONE_S)
        self.tally.orphans += [" ".join(process.cmdline()[:4]) for process in left]
        for process in left:
            process.kill()
        self._left_after(PATIENCE_S)  # a killed process is still there for a moment
        if status == 0:
            if (self.verb.keeps_result or not lost_child) and (found := self.verb.state(self.out)) != whole:
                self.tally.different.append(json.dumps(found)[:500])
            self.start_over()
        elif status > 0 and status not in FINE:
            self.tally.different.append(f"exit status {status}")

    def _left_after(self, most_s: float) -> list[psutil.Process]:
        """Waits until no process is left, at most so long; returns those that are."""
        end = time.monotonic() + most_s
        while (left := self._processes()) and time.monotonic() < end:
            time.sleep(0.1)
        return left

    def end(self) -> None:
        """Kills what is still there."""
        for process in self._processes():
            process.kill()

    def _processes(self) -> list[psutil.Process]:
        """Every process that a run has started and that is still there."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def left_over(self) -> list[str]:
        """Temporary files and folders that are still there."""
        # torch makes a folder of its own as soon as it is imported.
        found = [path.name for path in self.temporary.iterdir() if not path.name.startswith("torchinductor_")]
        found += [path.name for path in self.results.iterdir() if path != self.out]
        cache = self.place / "cache"
        found += [path.name for path in self.out.rglob(f"{TEMP_PREFIX}*")]
        return found + [
            path.name for path in cache.rglob("*") if path.name.startswith((".", "costhub-")) and path.name != LOCK
        ]


def killed(name: str, inputs: dict[str, Path], place: Path, times: int, rng: random.Random) -> dict[str, Any]:
    """Kills a verb so many times, lets it come to its end, and says what that is."""
    began = time.monotonic()
    killer = Killer(VERBS[name], inputs, place, rng)
    whole, seconds = killer.whole()
    killer.start_over()
    try:
        while killer.tally.killed.total() < times:
            killer.kill_once(whole, seconds)
    finally:
        killer.end()  # ^C does not reach a run in a session of its own
    found, _ = killer.whole()
    tally = killer.tally
    return {
        "verb": name,
        "seconds": round(seconds, 1),
        "killed": dict(tally.killed),
        "ended_before": tally.ended_before,
        "orphans": tally.orphans,
        "tracebacks": tally.tracebacks,
        "different": tally.different + ([] if found == whole else [json.dumps(found)[:500]]),
        "doubled": found["doubled"],
        "left": killer.left_over(),
        "wall_s": round(time.monotonic() - began),
    }


def made_inputs(place: Path, best: int) -> dict[str, Path]:
    """A database with the best programs of each workload of a device, and a small data folder."""
    from costhub.api.data_tools import export_metaschedule

    export_metaschedule(DEVICE, place / "db", best=best, progress=False)
    return {"DB": place / "db", "DATA": small_folder(place / "data")}


@click.command()
@click.option("--times", default=50, show_default=True, help="Kills of each verb.")
@click.option("--verb", "verbs", multiple=True, type=click.Choice(list(VERBS)), help="All by default.")
@click.option("--best", default=100, show_default=True, help="Records of each workload in the database.")
@options.quick("One kill of import and one of doctor, with a small database.")
@click.option("--seed", default=0)
@options.rows_file()
@options.json_file()
def main(
    times: int,
    verbs: tuple[str, ...],
    best: int,
    quick: bool,
    seed: int,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Prints what was killed and what came of it; fails if anything is lost, doubled, different or left behind."""
    times, best, verbs = (1, 2, QUICK) if quick else (times, best, verbs or tuple(VERBS))
    asked = {"times": times, "best": best, "seed": seed}
    done = RowFile(rows_path, ("verb", *asked))
    place = Path(tempfile.mkdtemp(prefix="costhub-kills-"))
    inputs = made_inputs(place, best)
    for name in verbs:
        if (name, *asked.values()) not in done:
            found = killed(name, inputs, place / name, times, random.Random(f"{seed} {name}"))
            done.add({**found, **asked, "place": str(place)})
            click.echo(json.dumps(done.all[-1]))
    keys = {(name, *asked.values()) for name in verbs}
    rows = [row for row in done if done.key_of(row) in keys]
    shown = [{name: value for name, value in row.items() if name != "place"} for row in rows]
    machine.write_result(path, {**asked, "rows": shown})
    bad = [row for row in rows if is_bad(row)]
    if str(place) not in {row["place"] for row in bad}:
        shutil.rmtree(place)
    if bad:
        kept = ", ".join(f"{row['verb']} in {row['place']}" for row in bad)
        raise click.ClickException(f"These did not come to the same end, and everything is kept: {kept}.")


def is_bad(row: dict[str, Any]) -> bool:
    """Whether anything was lost, doubled, different or left behind."""
    return any(row[name] for name in ("orphans", "tracebacks", "different", "doubled", "left"))
