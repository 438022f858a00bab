"""Provides find_tables and fetch_tables_at: the tables of a dataset on the Hugging Face hub, at one commit."""

from __future__ import annotations

import glob
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from costhub.errors import HubError
from costhub.hub.remote.hugging_face import readable_errors, xet_as_client_errors
from costhub.hub.remote.manifest import hash_file
from costhub.hub.remote.remote_repo import Head, RemoteRepo, blob_id
from costhub.hub.remote.watch import sound_answers, watched
from costhub.terminal_text import clean

_DEVICE = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,100}"
_SHARD = re.compile(rf"(?:devices|workloads|measurements/{_DEVICE})/train-\d{{5}}-of-\d{{5}}\.parquet")
_TABLE = re.compile(r"(?:devices|workloads|measurements)/.*\.parquet")
_SPLIT = re.compile(r"splits/[A-Za-z0-9][A-Za-z0-9._+-]{0,200}\.json")

_SHA256_DIGITS = 64
TABLE_PATTERNS = ("devices/train-*", "workloads/train-*", "measurements/*/train-*", "splits/*.json")
"""What `fetch_tables_at` downloads, in the form of the client."""


def find_tables(name: str, revision: str | None = None) -> Head:
    """The state of a dataset on the hub, with the stored hash of every file.

    Args:
        name: ORG/NAME.
        revision: A branch, tag or commit; None for the main branch.

    Raises:
        HubError: The hub cannot be reached, has no such dataset or revision, or what it has is not a data folder.
    """
    repo = RemoteRepo(name, "dataset")
    head = repo.head(revision or "main")
    if head is None:
        raise HubError(f"{repo.address} does not exist, or you may not read it. Check its name.")
    refuse_strange_shards(repo.address, head)
    if not shards_of(head):
        raise HubError(f"{repo.address} is not a data folder: it has no shards.")
    return head


def refuse_strange_shards(address: str, head: Head) -> None:
    """Refuses a dataset with a shard that `shards_of` would leave out.

    Raises:
        HubError: It has one.
    """
    strange = [path for path in head.files if _TABLE.fullmatch(path) and not _SHARD.fullmatch(path)]
    if strange:
        raise HubError(
            f"{address} holds {clean(strange[0], 100)}, which is not named as a shard of a data folder; "
            "shards are called train-NNNNN-of-NNNNN.parquet."
        )


def shards_of(head: Head) -> Mapping[str, str]:
    """Path -> the stored hash of each shard of the tables: a sha256, or git's id of a small file."""
    return {path: digest for path, digest in head.files.items() if _SHARD.fullmatch(path)}


def stored_shards(folder: Path) -> Mapping[str, str]:
    """What `shards_of` returns, computed from the files of a snapshot in the client's cache.

    The client names each blob after the hash that the hub stores, so a name tells which kind of hash that is.
    """
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.parquet")}
    return {
        name: hash_file(path).sha256 if len(path.resolve().name) == _SHA256_DIGITS else blob_id(path)
        for name, path in paths.items()
        if _SHARD.fullmatch(name)
    }


def fetch_tables_at(name: str, head: Head) -> Path:
    """Downloads tables and splits of a commit into the cache of the client, and checks every byte of them.

    Args:
        name: ORG/NAME.
        head: What `find_tables` has found.

    Returns:
        A data folder, for reading only.

    Raises:
        HubError: The hub cannot be reached, or a file is not the one that the commit lists.
    """
    return fetch_paths(name, head, [path for path in head.files if _SHARD.fullmatch(path) or _SPLIT.fullmatch(path)])


def fetch_paths(name: str, head: Head, paths: Sequence[str]) -> Path:
    """Downloads some files of a dataset as `fetch_tables_at` does.

    Args:
        name: ORG/NAME.
        head: The state of the dataset.
        paths: The files.

    Returns:
        A data folder, for reading only.

    Raises:
        HubError: The hub cannot be reached, or a file is not the one that the commit lists.
    """
    from huggingface_hub import snapshot_download

    with (
        watched(name) as watch,
        sound_answers(f"hf-hub:{name}", HubError),
        readable_errors(name, head.commit, HubError),
        xet_as_client_errors(),
    ):
        watch.expect(head.sizes)
        patterns = [glob.escape(path) for path in paths]
        fetched = snapshot_download(
            name, repo_type="dataset", revision=head.commit, allow_patterns=patterns, library_name="costhub"
        )
    folder = Path(fetched)
    for path in sorted(paths):
        if not (folder / path).is_file() or not head.has(path, folder / path):
            raise HubError(
                f"{folder / path} is not the file that hf-hub:{name} lists at commit {head.commit[:12]}. Remove it "
                "from the cache and try again."
            )
    (folder / "measurements").mkdir(exist_ok=True)
    return folder
