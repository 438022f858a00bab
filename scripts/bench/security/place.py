"""Provides Place: a folder for one attempt, with its own home, cache and secrets, and runs its command there."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from costhub.hub.catalogue.hubs import EMBEDDED
from scripts.bench.common.data import small_folder
from scripts.bench.common.machine import ROOT
from scripts.bench.security.scenarios.steps import CLI

SECRET = b"a line of the user's own that no stranger may see"
MODELS = EMBEDDED / "models" / "costhub"
GBT, MLP = "amd-epyc-zen5-2c-gbt", "amd-epyc-zen5-2c-mlp"
_MARK = "COSTHUB_ATTACK"
STOP_MB = 6000.0
"""A process that grows beyond is killed: others work on this machine."""
_GONE_S = 10.0
GRACE_S = 3.0
"""For processes to end by themselves once the command has ended."""
_MOST_BYTES = 48 << 30
"""Of address space, of which torch, TVM and XGBoost map some 8 GiB and use little."""
_CALL = """
import sys
from costhub.errors import CosthubError
try:
    exec(sys.stdin.read(), {"__name__": "__main__"})
except CosthubError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


@dataclass(frozen=True)
class Command:
    """What runs, in a process of its own."""

    argv: tuple[str, ...]
    shown: str
    """As a person would type it."""
    stdin: str = ""
    env: tuple[tuple[str, str], ...] = ()
    kill_at: tuple[float, int] | None = None
    """After so many seconds, this signal to the process alone."""


@dataclass(frozen=True)
class Answer:
    """What came of a command."""

    code: int
    """The exit status; negative for a signal, as in subprocess."""
    seconds: float
    peak_mb: float
    """Of the largest process."""
    out: str
    err: str
    timed_out: bool = False
    left: int = 0
    """Processes that were still there three seconds after its end."""

    @property
    def last_line(self) -> str:
        """The last line that is not blank, of stderr if it has one."""
        lines = [line for text in (self.out, self.err) for line in text.splitlines() if line.strip()]
        return lines[-1].strip() if lines else ""


class Place:
    """Where one attempt happens.

    Args:
        folder: An empty folder.
        source: The `src` folder of the costhub under attack.
    """

    def __init__(self, folder: Path, source: Path) -> None:
        self.folder, self.source = folder, source
        for name in ("home", "cache", "tmp"):
            (folder / name).mkdir()
        (folder / "home" / "secret.txt").write_bytes(SECRET)
        self.mark = uuid.uuid4().hex

    @property
    def secret(self) -> Path:
        """A file of the user's own."""
        return self.folder / "home" / "secret.txt"

    @property
    def canary(self) -> Path:
        """A file that is there only if hostile code has run."""
        return self.folder / "canary"

    def model(self, which: str = GBT, *, name: str = "m") -> Path:
        """A copy of an embedded model."""
        return shutil.copytree(MODELS / which, self.folder / name)

    def data(self, *, name: str = "d") -> Path:
        """A data folder of real measurements: one device, two workloads, 48 rows."""
        return shutil.copytree(_sources().data, self.folder / name)

    def costhub(self, *words: object, stdin: str = "", **env: str) -> Command:
        """A command line of costhub, with further environment variables."""
        argv = tuple(str(word) for word in words)
        return Command((sys.executable, "-c", CLI, *argv), self._shown("costhub", argv), stdin, tuple(env.items()))

    def python(self, code: str, *, shown: str, **env: str) -> Command:
        """Some Python; a CosthubError becomes a sentence and the exit status 1."""
        return Command((sys.executable, "-c", _CALL), shown, code, tuple(env.items()))

    def other(self, *argv: object, shown: str, **env: str) -> Command:
        """Any other program."""
        return Command(tuple(str(word) for word in argv), shown, "", tuple(env.items()))

    def scenario(self, name: str, *words: str) -> Command:
        """A scenario of several steps; see `scenarios`."""
        argv = (sys.executable, "-m", "scripts.bench.security.scenarios", name, *words)
        return Command(argv, " ".join(("scenario", name, *words)))

    def _shown(self, program: str, words: tuple[str, ...]) -> str:
        text = " ".join((program, *words)).replace(f"{self.folder}/", "")
        return "".join(c if c.isprintable() else "?" for c in text)[:160]

    @cached_property
    def env(self) -> dict[str, str]:
        """The environment of a user who has nothing else, and no network beside this machine's own."""
        kept = {key: os.environ[key] for key in ("PATH", "LD_LIBRARY_PATH", "LANG") if key in os.environ}
        home = self.folder / "home"
        return {
            **kept,
            "PYTHONPATH": os.pathsep.join([str(self.source), str(ROOT)]),
            "HOME": str(home),
            "COSTHUB_CACHE": str(self.folder / "cache"),
            "HF_HOME": str(home / "hf"),
            "HF_ENDPOINT": "http://127.0.0.1:9",
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "TMPDIR": str(self.folder / "tmp"),
            "OMP_NUM_THREADS": "2",
            _MARK: self.mark,
        }

    def run(self, command: Command, limit_s: float) -> Answer:
        """Runs a command to its end or to its limit, and ends whatever it has started."""
        env = {**self.env, **dict(command.env)}
        env = {key: value for key, value in env.items() if value != "(unset)"}
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(command.stdin.encode("utf-8", "surrogateescape"))
            given.seek(0)
            start = time.monotonic()
            process = subprocess.Popen(
                command.argv,
                stdin=given,
                stdout=out,
                stderr=err,
                env=env,
                cwd=self.folder,
                start_new_session=True,
                preexec_fn=_limit,  # noqa: PLW1509 - this process has one thread
            )
            try:
                status, peak_mb, timed_out = self._watch(process.pid, command, start, limit_s)
                process.returncode = status
                seconds = time.monotonic() - start
                left = self._sweep(GRACE_S)
            except BaseException:  # such as ^C, which does not reach a process in a session of its own
                self._sweep(0.0)
                process.wait()
                raise
            out.seek(0)
            err.seek(0)
            texts = [file.read(1 << 20).decode(errors="replace") for file in (out, err)]
        return Answer(status, seconds, peak_mb, texts[0], texts[1], timed_out, 0 if timed_out else left)

    def _watch(self, pid: int, command: Command, start: float, limit_s: float) -> tuple[int, float, bool]:
        peak_mb, timed_out, kill_at = 0.0, False, command.kill_at
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status), peak_mb, timed_out
            passed = time.monotonic() - start
            sizes = {each: _peak_mb(each) for each in self.processes()}
            peak_mb = max(peak_mb, *sizes.values(), 0.0)
            if kill_at is not None and passed > kill_at[0]:
                os.kill(pid, kill_at[1])
                kill_at = None
            timed_out |= passed > limit_s
            if timed_out or peak_mb > STOP_MB:
                for each in (*sizes, pid):
                    _kill(each)
            time.sleep(0.03)

    def processes(self) -> list[int]:
        """Every process that the attempt has started, whatever became of its parent."""
        mark = f"{_MARK}={self.mark}".encode()
        found = []
        for entry in os.scandir("/proc"):
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    with open(f"/proc/{entry.name}/environ", "rb") as file:
                        if mark in file.read(1 << 16):
                            found.append(int(entry.name))
                except OSError:
                    continue
        return found

    def _sweep(self, grace_s: float) -> int:
        """Waits for processes to end by themselves, then ends them; returns how many."""
        end = time.monotonic() + grace_s
        while (left := [pid for pid in self.processes() if not _is_dead(pid)]) and time.monotonic() < end:
            time.sleep(0.05)
        for pid in left:
            _kill(pid)
        # A killed process takes a moment to go.
        end = time.monotonic() + _GONE_S
        while any(not _is_dead(pid) for pid in self.processes()) and time.monotonic() < end:
            time.sleep(0.02)
        return len(left)


@contextmanager
def place(source: Path) -> Iterator[Place]:
    """A place that is gone afterwards, whatever modes and mounts the attempt has left there."""
    folder = Path(tempfile.mkdtemp(prefix="costhub-attack-"))
    try:
        yield Place(folder, source)
    finally:
        for mount in _mounts_below(folder):
            subprocess.run(["umount", "-l", mount], check=False, capture_output=True)
        subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


class _Sources:
    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="costhub-attack-data-")
        self.data = small_folder(Path(self._folder.name) / "d")


_made: list[_Sources] = []


def _sources() -> _Sources:
    if not _made:
        _made.append(_Sources())
    return _made[0]


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _peak_mb(pid: int) -> float:
    """The most memory that a process has held. What wait4 says begins with the size of the process that forked it."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            return next((int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM:")), 0.0)
    except (OSError, ValueError):
        return 0.0


def _is_dead(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except (OSError, IndexError):
        return True


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _mounts_below(folder: Path) -> list[str]:
    with open("/proc/mounts", encoding="utf-8", errors="replace") as file:
        places = [line.split()[1] for line in file]
    return [each for each in places if each.startswith(f"{folder}/")]
