"""Provides the steps before anything is sent: a private copy, the search for personal data, and consent."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import socket
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from costhub.cards.markdown import CARD, MAX_CARD_CHARACTERS
from costhub.dataset.check.texts import PERSONAL_COLUMNS, personal_data
from costhub.dataset.folder import DataFolder
from costhub.dataset.shards.journal import JOURNAL
from costhub.dataset.shards.lock import LOCK
from costhub.dataset.shards.shard_set import shard_paths
from costhub.errors import DataError, RefusedError
from costhub.files import copy_regular, read_regular
from costhub.hub.catalogue.devices import load_devices
from costhub.hub.catalogue.hubs import CONFIG
from costhub.hub.install import write_card_from_figures
from costhub.hub.model_check.model_files import check_model_files
from costhub.hub.remote.manifest import MAX_TOTAL_BYTES, copy_verified, scan, write_manifest
from costhub.hub.remote.remote_repo import Kind

Plan = TypeVar("Plan")
Consent: TypeAlias = Literal[True] | Callable[[Plan], bool]
"""Consent to sending: True, or a function that receives the plan and returns True."""

_NAME_COLUMNS = (*(name for name in PERSONAL_COLUMNS if name != "contributor"), "space")
"""`contributor` names the person who measured, who agrees to this by sending it."""
_DEVICE_NAME_COLUMNS = ("device_id", "aliases", "model_name", "driver", "probe_method", "governor")
_COMMON_NAMES = frozenset(
    {"localhost", "root", "user", "users", "home", "ubuntu", "debian", "runner", "admin", "nobody", "builder"}
    | {"nvidia", "intel", "jetson", "orin", "ryzen", "threadripper", "raspberrypi"}
)
_SHORTEST_NAME = 4
"""A shorter name occurs in too many words."""


@dataclass(frozen=True)
class Staged:
    """A copy of a folder, reduced to the files that may go to a hub."""

    folder: Path
    kind: Kind
    name: str
    """Name of the folder it was copied from."""

    def files(self) -> Mapping[str, Path]:
        """Path in the repository -> file."""
        paths = sorted(path for path in self.folder.rglob("*") if path.is_file())
        return {path.relative_to(self.folder).as_posix(): path for path in paths}


def check_consent(agree: Any) -> None:
    """Rejects anything that is not a valid form of consent, before anything is copied or checked.

    Raises:
        RefusedError: It is neither True nor a function.

    Example:
        >>> check_consent("yes")
        Traceback (most recent call last):
        costhub.errors.RefusedError: agree is 'yes'. Nothing was sent: pass agree=True, or a function that receives ...
    """
    if agree is not True and not callable(agree):
        raise RefusedError(
            f"agree is {agree!r:.40}. Nothing was sent: pass agree=True, or a function that receives the plan of what "
            "would be sent and returns True."
        )


def is_agreed(agree: Consent[Plan], plan: Plan) -> bool:
    """Whether there is consent to a plan; a function consents only with True itself, not with "no" or a number."""
    return agree is True or agree(plan) is True


def folder_kind(folder: str | Path) -> Kind:
    """Whether a folder holds a model or measurements.

    Raises:
        DataError: It holds neither.
    """
    root = Path(folder)
    if (root / CONFIG).is_file():
        return "model"
    if (root / "measurements").is_dir():
        return "dataset"
    if not root.exists():
        raise DataError(f"There is no folder {root}.")
    searched = (root / "database_tuning_record.json").is_file()
    raise DataError(
        f"{root} is neither a model folder (it has no {CONFIG}) nor a data folder (it has no folder `measurements`)."
        + " It holds a TVM search: make a data folder of it with `costhub import metaschedule`." * searched
    )


@contextlib.contextmanager
def staged(folder: str | Path) -> Iterator[Staged]:
    """Copies the part of a folder that goes to a hub, so that exactly the checked files are sent.

    For a model this is everything; for a data folder its card, shards and splits, and the rows of its journals as
    shards. Locks, features and half-written files stay behind.

    Raises:
        CosthubError: One of its subclasses: the folder is missing, contains links, or changes in the meantime.
    """
    source, kind = Path(folder), folder_kind(folder)
    with tempfile.TemporaryDirectory(prefix="costhub-") as temporary:
        place = Path(temporary) / "staged"
        if kind == "model":
            _stage_model(source, place)
        else:
            _stage_dataset(source, place)
        yield Staged(place, kind, source.resolve().name)


def _stage_model(source: Path, place: Path) -> None:
    check_model_files(source)
    copy_verified(source, place, manifest=scan(source))
    if not (place / CARD).is_file():
        write_card_from_figures(place, name=source.resolve().name)
    write_manifest(place)


def _stage_dataset(source: Path, place: Path) -> None:
    before = _files_to_send(source)
    _refuse_large(source, before)
    room = MAX_TOTAL_BYTES
    for name in before:
        within = Path(name)
        linked = next((part for part in (within, *within.parents[:-1]) if (source / part).is_symlink()), None)
        if linked is not None:
            raise DataError(f"{source / linked} is a link; only files in the folder itself can go to a hub.")
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        try:
            room -= copy_regular(source / name, place / name, limit=room, follow=False, error=DataError)
        except DataError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise _changed_meanwhile(source) from None
            raise
    if _files_to_send(source) != before:
        raise _changed_meanwhile(source)
    (place / "measurements").mkdir(parents=True, exist_ok=True)
    folder = DataFolder.create(place)
    for journal in place.glob(f"measurements/*/{JOURNAL}"):
        with folder.writer(journal.parent.name):
            pass  # opening and closing moves the rows of a journal into a shard
        journal.unlink(missing_ok=True)
    for left in place.rglob(LOCK):
        left.unlink()


def _refuse_large(source: Path, names: Iterable[str]) -> None:
    try:
        size = sum((source / name).lstat().st_size for name in names)
    except FileNotFoundError:
        raise _changed_meanwhile(source) from None
    if size > MAX_TOTAL_BYTES:
        raise DataError(
            f"{source} holds {size:,} bytes for a hub, and at most {MAX_TOTAL_BYTES:,} go into one dataset. Publish "
            "its devices as several datasets."
        )


def read_card(card: Path) -> str:
    """Reads the text of a card.

    Raises:
        DataError: It is not UTF-8 text, or too long for a card.
    """
    try:
        return read_regular(card, limit=4 * MAX_CARD_CHARACTERS, error=DataError).decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{card.name} is not text in UTF-8 ({error.reason}). Save it in that encoding.") from error


def _files_to_send(source: Path) -> list[str]:
    """The files of a data folder that a hub gets, in order."""
    tables = [source / "devices", source / "workloads"]
    # Not by a glob pattern, which also matches hidden folders: no check looks into those.
    tables += [source / "measurements" / name for name in DataFolder.open(source).device_ids()]
    files = [path for folder in tables for path in shard_paths(folder)]
    files += sorted(source.glob("splits/*.json"))
    files += [path for path in (source / CARD, *(folder / JOURNAL for folder in tables[2:])) if os.path.lexists(path)]
    try:
        # An empty journal does not count. Anything but a plain file stays in the list, to be rejected.
        states = [(path, path.lstat()) for path in files]
    except FileNotFoundError:
        raise _changed_meanwhile(source) from None
    return [os.path.relpath(path, source) for path, state in states if state.st_size or not stat.S_ISREG(state.st_mode)]


def _changed_meanwhile(source: Path) -> DataError:
    return DataError(f"{source} changed while it was copied; stop the program that writes there, then try again.")


def personal_texts(files: Mapping[str, Path], public: Iterable[str] = ()) -> list[str]:
    """Finds details in cards and configurations that reveal a person's machine.

    An e-mail address in a card is meant for readers, so it may stay.

    Args:
        files: Path in the repository -> file; only `.md` and `.json` files are read.
        public: Texts that a card may show, such as the names of contributors; a name that is a word of one may stay.

    Returns:
        Sentences, one for each file and kind of data; empty if there is none.
    """
    shown = tuple(public)
    names = [name for name in own_names() if not any(_holds_word(name, text) for text in shown)]
    sentences = []
    for name, path in files.items():
        if path.suffix not in (".md", ".json"):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        kinds = [kind for kind in personal_data(text, is_version=True) if "e-mail" not in kind]
        kinds += [f"{own!r}, a name of this machine or its user" for own in names if _holds_word(own, text)]
        sentences += [f"{name} holds {kind}." for kind in kinds]
    return sentences


def own_names() -> tuple[str, ...]:
    """The names of this machine and its user, without common ones and those of hardware, such as `a100` for a host.

    Example:
        >>> "root" in own_names()
        False
    """
    names = {socket.gethostname(), socket.gethostname().partition(".")[0]}
    with contextlib.suppress(OSError, KeyError):  # a user without a name, as in some containers
        names.add(getpass.getuser())
    with contextlib.suppress(RuntimeError):  # or without a home
        names.add(Path.home().name)
    hardware = [text for d in load_devices() for text in (d.device_id, *d.aliases, d.model_name or "")]
    telling = (name for name in names if len(name) >= _SHORTEST_NAME and name.casefold() not in _COMMON_NAMES)
    return tuple(sorted(name for name in telling if not any(_holds_word(name, text) for text in hardware)))


def own_names_in(folder: str | Path, names: Iterable[str] | None = None) -> list[str]:
    """Finds names in the texts of a data folder.

    Args:
        folder: The data folder.
        names: The names to look for, as whole words in any case; by default `own_names`.

    Returns:
        Sentences, one for each column and name; empty if there is none.

    Raises:
        DataError: The folder cannot be read.
    """
    searched = [name for name in (own_names() if names is None else names) if name]
    opened = DataFolder.open(folder)
    devices = opened.devices(_DEVICE_NAME_COLUMNS)
    occurrences: set[tuple[str, str]] = set()
    for batch in [*devices.to_batches(), *opened.iter_measurements(columns=_NAME_COLUMNS)]:
        for column in batch.schema.names:
            texts = _flattened(batch.column(column))
            occurrences |= {(column, name) for name in searched if _any_holds(texts, name)}
    return [
        f"The column {column} holds {name!r}, a name of this machine or its user."
        for column, name in sorted(occurrences)
    ]


def _holds_word(name: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) is not None


def _flattened(column: pa.Array) -> pa.Array:
    return pc.list_flatten(column) if pa.types.is_list(column.type) else column


def _any_holds(texts: pa.Array, name: str) -> bool:
    pattern = rf"(?i)(^|[^\pL\pN_]){re.escape(name)}($|[^\pL\pN_])"
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())
