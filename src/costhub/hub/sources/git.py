"""Provides GitRevision: reads files of one revision of an untrusted git repository without a checkout."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from costhub.errors import HubError
from costhub.progress import bar
from costhub.terminal_text import clean

PROTOCOLS = ("https", "file")
"""Protocols that git may use. Others can start a program (`ext::`), or ask for keys and passwords (`ssh`)."""
MOST_FETCH_BYTES = 4 << 30
"""Size limit of one fetch; all databases of the largest source together are smaller."""
MOST_COPY_BYTES = 64 << 30
"""Size limit of all files that are copied together."""
MOST_MEMORY_BYTES = 8 << 30
MOST_FILES = 100_000
MOST_LISTING_BYTES = 32 << 20
"""Of a listing; one of `MOST_FILES` with paths of 200 characters is smaller."""
FETCH_TIMEOUT_S = 3600.0
_LOCAL_TIMEOUT_S = 600.0

_REGULAR = ("100644", "100755")
_KINDS = {"120000": "a symbolic link", "160000": "a submodule", "040000": "a folder"}
_LFS = b"version https://git-lfs.github.com/spec/"
_BLOCK_BYTES = 1 << 20
_POLL_S = 0.2
_NOT_FOUND = 127

# Nothing in an untrusted repository is run or followed: without a checkout, no filter, attribute or link acts.
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.bigFileThreshold": "16m",  # larger files are copied in pieces instead of held in memory
    "credential.helper": "",  # the user's passwords must not go to these servers
    "fetch.recurseSubmodules": "false",
    "gc.auto": "0",
    "init.defaultBranch": "main",
    "init.templateDir": "",
    "maintenance.auto": "false",
    "submodule.recurse": "false",
    "transfer.bundleURI": "false",
}
# In the shell's units: blocks of 512 bytes, and KiB. A limit that is already lower is kept.
_LIMITS = f"ulimit -f {MOST_FETCH_BYTES // 512}; ulimit -v {MOST_MEMORY_BYTES // 1024}"
_LIMITED = ("sh", "-c", f'{{ {_LIMITS}; }} 2>/dev/null; exec "$@"', "sh")
# The user's variables needed to reach a server; GIT_DIR and the like would point to another repository.
_KEPT_VARIABLES = ("GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_PROXY_SSL_CAINFO", "GIT_EXEC_PATH")


@dataclass(frozen=True)
class GitFile:
    """A regular file of the revision."""

    path: str
    blob: str
    """The id of its content."""


class GitRevision:
    """One revision of a repository, in a temporary folder; fetches only what is read.

    Example:
        >>> GitRevision("ext::sh -c id", "0" * 40, protocols=("https",))
        Traceback (most recent call last):
        costhub.errors.HubError: ext::sh -c id is not an address that costhub fetches. Write https://HOST/PATH.
    """

    def __init__(self, address: str, revision: str, *, protocols: Sequence[str] = PROTOCOLS) -> None:
        """Takes an address without looking at it.

        Args:
            address: ``https://HOST/PATH``, or ``file:///PATH``.
            revision: The full id of a commit.
            protocols: The protocols that git may use, out of `PROTOCOLS`.

        Raises:
            HubError: The address uses another protocol.
        """
        if not address.startswith(tuple(f"{protocol}://" for protocol in protocols)):
            forms = " or ".join(f"{protocol}://HOST/PATH" for protocol in protocols)
            raise HubError(f"{clean(address, 200)} is not an address that costhub fetches. Write {forms}.")
        self.address, self.revision = address, revision
        self._protocols = tuple(protocols)
        self._held = contextlib.ExitStack()
        self._folder: Path | None = None

    def __enter__(self) -> GitRevision:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()
        self._folder = None

    def files(self, folder: str = "") -> list[GitFile]:
        """Lists the regular files in a folder and below it, sorted by path.

        Raises:
            HubError: The repository cannot be fetched, lacks the revision or the folder, or has a link or submodule
                there.
        """
        self._fetch_commit()
        listing = ["ls-tree", "-r", "-z", "--full-tree", self.revision]
        found = []
        for entry in self._output(*listing, *(["--", f"{folder}/"] if folder else [])).split(b"\0"):
            if not entry:
                continue
            mode, file = _entry(entry)
            if mode not in _REGULAR:
                raise HubError(
                    f"{clean(file.path, 200)} in {self.address} is {_KINDS.get(mode, 'not a file')}. Only regular "
                    "files are fetched."
                )
            found.append(file)
            if len(found) > MOST_FILES:
                raise HubError(f"{self.address} has more than {MOST_FILES:,} files in {folder or 'it'}.")
        if not found:
            raise HubError(f"{self.address} has no files in {folder or 'it'} at revision {self.revision[:12]}.")
        return found

    def top_files(self) -> list[GitFile]:
        """Lists the regular files of the top-level folder; other entries are ignored.

        Raises:
            HubError: The repository cannot be fetched, or lacks the revision.
        """
        self._fetch_commit()
        entries = [entry for entry in self._output("ls-tree", "-z", self.revision).split(b"\0") if entry]
        return [file for mode, file in map(_entry, entries) if mode in _REGULAR]

    def copy(
        self, files: Sequence[GitFile], targets: Sequence[Path], *, limit: int, most: int = MOST_COPY_BYTES
    ) -> None:
        """Writes files to new places, each of `limit` bytes at most, and `most` in all.

        Raises:
            HubError: One cannot be fetched, is larger, or is stored in Git LFS; or together they are larger.
        """
        self._fetch_blobs([file.blob for file in files])
        left = most  # A pack of some megabytes may hold terabytes, and name one file a thousand times.
        for file, target in zip(files, targets, strict=True):
            said = f"{clean(file.path, 200)} in {self.address} has more than {limit:,} bytes"
            if left < limit:
                said = f"The files of {self.address} together have more than {most:,} bytes"
            left -= self._copy(file, target, min(limit, left), f"{said}; it is refused.")

    def _copy(self, file: GitFile, target: Path, limit: int, too_large: str) -> int:
        said = f"{clean(file.path, 200)} in {self.address}"
        with self._running("cat-file", "blob", file.blob, timeout_s=_LOCAL_TIMEOUT_S) as git, target.open("xb") as copy:
            size = 0
            while block := git.output.read(_BLOCK_BYTES):
                if not size and block.startswith(_LFS):
                    raise HubError(f"{said} is in Git LFS, which is not fetched. Clone the repository with git-lfs.")
                size += len(block)
                if size > limit:
                    raise HubError(too_large)
                copy.write(block)
            git.finish(f"{said} cannot be read")
        return size

    def _fetch_commit(self) -> None:
        if self._folder is not None:
            return
        place = Path(self._held.enter_context(tempfile.TemporaryDirectory(prefix="costhub-git-")))
        self._folder = place
        # As left by `git clone --filter`: missing objects are known to be elsewhere, not lost.
        settings = {
            "core.repositoryFormatVersion": "1",
            "extensions.partialClone": "origin",
            "remote.origin.url": self.address,
            "remote.origin.promisor": "true",
            "remote.origin.partialCloneFilter": "blob:none",
        }
        self._output("init", "--bare", "--quiet")
        for name, value in settings.items():
            self._output("config", name, value)
        self._fetch("--depth=1", "--filter=blob:none", "origin", self.revision, what=f"revision {self.revision[:12]}")

    def _fetch_blobs(self, blobs: Sequence[str]) -> None:
        self._fetch_commit()
        given = "".join(f"{blob}\n" for blob in dict.fromkeys(blobs)).encode()
        self._fetch("--filter=blob:none", "origin", "--stdin", what="a file", given=given)

    def _fetch(self, *words: str, what: str, given: bytes = b"") -> None:
        options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--no-recurse-submodules")
        said = f"{what[:1].upper()}{what[1:]} of {self.address} cannot be fetched"
        with self._running("fetch", *options, *words, given=given, timeout_s=FETCH_TIMEOUT_S) as git:
            git.finish(said, watched=self._place())

    def _output(self, *words: str) -> bytes:
        with self._running(*words, timeout_s=_LOCAL_TIMEOUT_S) as git:
            # A few kilobytes of folders that hold each other may list billions of files.
            output = git.output.read(MOST_LISTING_BYTES + 1)
            if len(output) > MOST_LISTING_BYTES:
                raise HubError(f"{self.address} lists more than {MOST_FILES:,} files, or files with very long names.")
            git.finish(f"{self.address} cannot be listed")
        return output

    def _place(self) -> Path:
        if self._folder is None:
            raise ValueError("nothing has been fetched")
        return self._folder

    @contextlib.contextmanager
    def _running(self, *words: str, timeout_s: float, given: bytes = b"") -> Iterator[_Git]:
        git = _Git(self._place(), words, self._protocols, given=given, timeout_s=timeout_s)
        try:
            yield git
        finally:
            git.end()


def _entry(line: bytes) -> tuple[str, GitFile]:
    """Mode and file of an entry of a listing."""
    facts, _, path = line.partition(b"\t")
    mode, _, blob = facts.decode("ascii").split()
    return mode, GitFile(os.fsdecode(path), blob)


class _Git:
    """A run of git that can be watched, and ended with all its children."""

    def __init__(
        self,
        folder: Path,
        words: Sequence[str],
        protocols: Sequence[str],
        *,
        given: bytes = b"",
        timeout_s: float = _LOCAL_TIMEOUT_S,
    ) -> None:
        self._timeout_s = timeout_s
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        self._given = tempfile.TemporaryFile()  # noqa: SIM115
        self._given.write(given)
        self._given.seek(0)
        settings = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
        try:
            self._process = subprocess.Popen(
                [*_LIMITED, "git", *settings, f"--git-dir={folder}", *words],
                stdin=self._given,
                stdout=subprocess.PIPE,
                stderr=self._said,
                env=_environment(protocols, home=folder),
                cwd=folder,
                start_new_session=True,
            )
        except OSError as error:
            raise HubError(f"git cannot be run ({error.strerror}).") from error
        # In parallel with readers of its output, so that a read ends too.
        self._watch = threading.Timer(timeout_s, self._kill)
        self._watch.daemon = True
        self._watch.start()

    @property
    def output(self) -> IO[bytes]:
        """The output of git."""
        if self._process.stdout is None:
            raise ValueError("its output goes elsewhere")
        return self._process.stdout

    def finish(self, what: str, *, watched: Path | None = None) -> None:
        """Waits for git to end.

        Raises:
            HubError: It failed, or took too long; the message begins with `what`.
        """
        with bar(None, desc="fetching", unit="B", enabled=watched is not None) as shown:
            while (code := self._process.poll()) is None:
                if watched is not None:
                    shown.update(_bytes_in(watched) - shown.n)
                time.sleep(_POLL_S)
        if code == -signal.SIGKILL and not self._watch.is_alive():
            raise HubError(f"{what}: git took longer than {self._timeout_s:g} s.")
        if code == _NOT_FOUND:
            raise HubError(f"{what}: git is not installed. Install it, then run the command again.")
        if code:
            self._said.seek(0)
            lines = self._said.read(_BLOCK_BYTES).decode("utf-8", "replace").strip().splitlines()
            reason = clean(lines[-1], 300) if lines else f"git ended with {code}"
            if any("signal 25" in line or "File too large" in line for line in lines):
                reason = f"it has more than {MOST_FETCH_BYTES:,} bytes"
            raise HubError(f"{what} ({reason}).")

    def end(self) -> None:
        """Ends git and its children, if running."""
        self._watch.cancel()
        self._kill()
        self._process.wait()
        for file in (self.output, self._said, self._given):
            file.close()

    def _kill(self) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


def _environment(protocols: Sequence[str], home: Path) -> dict[str, str]:
    """The variables of git, which looks for settings and passwords (``.gitconfig``, ``.netrc``) in `home`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _KEPT_VARIABLES}
    return kept | {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "GIT_ALLOW_PROTOCOL": ":".join(protocols),
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": os.devnull,
        "SSH_ASKPASS": os.devnull,
        # Not "0" for a fetch either: a server on this machine inherits it, and would then run what a partial clone's
        # own settings name (CVE-2024-32004).
        "GIT_NO_LAZY_FETCH": "1",
        "LC_ALL": "C",
    }


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.glob("objects/pack/*"):
        with contextlib.suppress(OSError):
            total += path.stat().st_size
    return total
