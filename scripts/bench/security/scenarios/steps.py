"""What scenarios are made of: commands of costhub in processes of their own. It imports nothing of costhub."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import IO, Any

CLI = "import sys; from costhub.cli.main import main; sys.argv[0] = 'costhub'; sys.exit(main())"
HARM = "HARM: "
PATIENCE_S = 60.0


def costhub(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a verb to its end."""
    argv = [sys.executable, "-c", CLI, *map(str, words)]
    return subprocess.run(argv, check=False, text=True, **{"capture_output": True, **options})


def start(*words: object, env: dict[str, str] | None = None, out: IO[str] | int | None = None) -> subprocess.Popen[str]:
    """Starts a verb; its output goes to files or pipes that are asked for, else nowhere."""
    to = subprocess.DEVNULL if out is None else out
    argv = [sys.executable, "-c", CLI, *map(str, words)]
    return subprocess.Popen(argv, text=True, stdout=to, stderr=to, env={**os.environ, **(env or {})})


def wait_until(true: Callable[[], object], what: str, seconds: float = PATIENCE_S) -> None:
    """Waits; a scenario that never gets there is none."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            sys.exit(f"{what} did not happen within {seconds:g} s")
        time.sleep(0.05)


def harm(what: str) -> None:
    """Says that an attack did what it must not do."""
    print(f"{HARM}{what}")


def need(fact: object, otherwise: str) -> None:
    """Says that something went wrong, unless a fact holds."""
    if not fact:
        harm(otherwise)


def tail(done: subprocess.CompletedProcess[str]) -> str:
    """The last line of what a verb said."""
    lines = [line for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def children_of(pid: int) -> list[int]:
    """The processes below one."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    parents[int(entry)] = int(file.read().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
    found: list[int] = []
    fresh = [pid]
    while fresh:
        fresh = [child for child, parent in parents.items() if parent in fresh and child not in found]
        found += fresh
    return found


def alive(pid: int) -> bool:
    """Whether a process is there and not a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


def reported(place: Any, answer: Any) -> str:
    """The harms that a scenario has said."""
    del place
    lines = [line for line in answer.out.splitlines() if line.startswith(HARM)]
    return "; ".join(line.removeprefix(HARM) for line in lines)
