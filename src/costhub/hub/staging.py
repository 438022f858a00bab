"""Provides staged: a private copy of a model or data folder, holding what a hub gets and nothing else."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from costhub.cards.front_matter import CARD
from costhub.dataset.folder import DataFolder
from costhub.dataset.shards.journal import JOURNAL
from costhub.dataset.shards.lock import LOCK
from costhub.dataset.shards.shard_set import shard_paths
from costhub.errors import DataError
from costhub.hub.copying import copy_verified
from costhub.hub.install import write_recorded_card
from costhub.hub.manifest import scan, write_manifest
from costhub.hub.remote_repo import Kind
from costhub.hub.review.model_files import check_model_files
from costhub.hub.shelf import CONFIG


@dataclass(frozen=True)
class Staged:
    """What may go to a hub."""

    folder: Path
    kind: Kind
    name: str
    """Of the folder it is a copy of."""

    def files(self) -> Mapping[str, Path]:
        """Path in the repository -> file."""
        paths = sorted(path for path in self.folder.rglob("*") if path.is_file())
        return {path.relative_to(self.folder).as_posix(): path for path in paths}


def kind_of(folder: str | Path) -> Kind:
    """Whether a folder holds a model or measurements.

    Raises:
        DataError: Neither.
    """
    root = Path(folder)
    if (root / CONFIG).is_file():
        return "model"
    if (root / "measurements").is_dir():
        return "dataset"
    raise DataError(
        f"{root} is neither a model folder (it has no {CONFIG}) nor a data folder (it has no folder "
        "`measurements`)."
    )


@contextlib.contextmanager
def staged(folder: str | Path) -> Iterator[Staged]:
    """Copies what a hub gets of a folder, so that what is checked is what goes.

    Of a model that is all; of a data folder its card, shards and splits, and as a shard the rows that are in
    a journal. Locks, features and what is half-written stay behind.

    Raises:
        CosthubError: One of its kinds: no such folder, links in it, or it changes meanwhile.
    """
    source, kind = Path(folder), kind_of(folder)
    with tempfile.TemporaryDirectory(prefix="costhub-") as temporary:
        place = Path(temporary) / "staged"
        if kind == "model":
            _stage_model(source, place)
        else:
            _stage_data(source, place)
        yield Staged(place, kind, source.resolve().name)


def _stage_model(source: Path, place: Path) -> None:
    check_model_files(source)
    copy_verified(source, place, manifest=scan(source))
    if not (place / CARD).is_file():
        write_recorded_card(place, name=source.resolve().name)
    write_manifest(place)


def _stage_data(source: Path, place: Path) -> None:
    before = _listed(source)
    for name in before:
        path = source / name
        if path.is_symlink() or path.parent.is_symlink():
            raise DataError(f"{path} is a link; only files that lie in the folder itself can go to a hub.")
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copyfile(path, place / name)
        except FileNotFoundError:
            raise _changing(source) from None
    if _listed(source) != before:
        raise _changing(source)
    (place / "measurements").mkdir(parents=True, exist_ok=True)
    folder = DataFolder.create(place)
    for journal in place.glob(f"measurements/*/{JOURNAL}"):
        with folder.writer(journal.parent.name):
            pass  # opening and closing moves the rows of a journal into a shard
        journal.unlink(missing_ok=True)
    for left in place.rglob(LOCK):
        left.unlink()


def read_card(card: Path) -> str:
    """The text of a card.

    Raises:
        DataError: It is no text in UTF-8.
    """
    try:
        return card.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{card.name} is no text in UTF-8 ({error.reason}). Save it as one.") from error


def _listed(source: Path) -> list[str]:
    """What of a data folder goes, in order."""
    tables = [source / "devices", source / "workloads"]
    # Not by a pattern, which matches hidden folders: no check looks into those.
    tables += [source / "measurements" / name for name in DataFolder.open(source).device_ids()]
    found = [path for folder in tables for path in shard_paths(folder)]
    found += sorted(source.glob("splits/*.json"))
    found += [
        path for path in (source / CARD, *(folder / JOURNAL for folder in tables[2:])) if path.is_file()
    ]
    try:
        return [os.path.relpath(path, source) for path in found if path.stat().st_size]
    except FileNotFoundError:
        raise _changing(source) from None


def _changing(source: Path) -> DataError:
    return DataError(
        f"{source} changed while it was copied; stop the program that writes there, then try again."
    )
