"""What strangers may send as a contribution: it is refused with a sentence, nothing is merged, and nothing is left."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from costhub.dataset.check.folder import check_folder
from costhub.dataset.folder import DataFolder
from costhub.dataset.schema import arrow_schema, stored_schema
from costhub.dataset.shards.shard import (
    BLANK_SEAL,
    SEAL_KEY,
    Encoding,
    new_parquet,
    read_shard,
    write_seal,
    write_shard,
)
from costhub.errors import DataError, RefusedError
from costhub.hub.contribute import INBOX, contribution_id
from costhub.hub.remote.manifest import hash_file
from costhub.hub.review.review import review
from costhub.hub.staging import staged

REPO = "datasets/acme/data"
DEVICE = "amd-epyc-zen5-1c"
NAME = "train-00000-of-00001.parquet"
SHARD = f"measurements/{DEVICE}/{NAME}"

Spoil = Callable[[Path], None]


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, to see what is left there."""
    place = tmp_path / "scratch"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


@pytest.fixture
def forged(offered: Any, measured: Any, hugging_face: Any, tmp_path: Path) -> Callable[[Spoil], str]:
    """Makes a pull request of a sound folder after something was done to it; gives its address."""

    def forge(spoil: Spoil) -> str:
        folder = measured(tmp_path / "forged", session=1)
        spoil(folder)
        paths = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.stat().st_size and p.suffix != ".md"]
        paths = [path for path in paths if path.name != ".lock"]
        files = {path.relative_to(folder).as_posix(): path for path in paths}
        own = contribution_id({name: hash_file(path).sha256 for name, path in files.items()})
        added: dict[str, bytes | None] = {f"{INBOX}/{own}/{name}": path.read_bytes() for name, path in files.items()}
        hugging_face.commit(REPO, hugging_face.files(REPO), ref="refs/pr/1", message="a forged contribution")
        hugging_face.change(REPO, added, ref="refs/pr/1", message="a forged contribution")
        return "hf-hub:acme/data@refs/pr/1"

    return forge


def refused(address: str) -> str:
    """Why a contribution is refused; it must be."""
    try:
        done = review(address, deep=False, merge=True)
    except RefusedError as error:
        return str(error)
    assert (done.verdict.is_accepted, done.merged) == (False, None)
    return " ".join(reason.what for reason in done.verdict.reasons if reason.weight == "refuse")


def rewrite(folder: Path, where: str, **values: Any) -> None:
    """Changes columns of the first row of a shard, and seals it again."""
    rows = read_shard(folder / where).to_pylist()
    rows[0].update(values)
    write_shard(pa.Table.from_pylist(rows, schema=arrow_schema(where.partition("/")[0])), folder / where)


def escape_in_a_workload(folder: Path) -> None:
    rewrite(folder, f"workloads/{NAME}", name="\x1b[2Jresnet")


def escape_in_an_alias(folder: Path) -> None:
    rewrite(folder, f"devices/{NAME}", aliases=["\x1b]0;title\x07"])


def escape_in_a_version(folder: Path) -> None:
    rewrite(folder, SHARD, driver_version="6.1\x9b31m")


def workload_in_other_letters(folder: Path) -> None:
    names = DataFolder.open(folder).workloads()["name"].to_pylist()
    rewrite(folder, f"workloads/{NAME}", name=names[0].upper())


def device_in_other_letters(folder: Path) -> None:
    other = DEVICE.upper()
    rewrite(folder, f"devices/{NAME}", device_id=other)
    rows = read_shard(folder / SHARD).to_pylist()
    place = folder / "measurements" / other
    (folder / "measurements" / DEVICE).rename(place)
    for row in rows:
        row |= {"device_id": other, "record_id": f"x{row['record_id']}"}
    write_shard(pa.Table.from_pylist(rows, schema=arrow_schema("measurements")), place / NAME)


def both_letters(folder: Path) -> None:
    place = folder / "measurements" / DEVICE.upper()
    place.mkdir()
    (place / NAME).write_bytes((folder / SHARD).read_bytes())


def features_beside(folder: Path) -> None:
    place = folder / "features/tiles@1" / DEVICE
    place.mkdir(parents=True)
    (place / "part-0.parquet").write_bytes(b"PAR1")


def a_journal(folder: Path) -> None:
    (folder / "measurements" / DEVICE / "journal.jsonl").write_bytes(b"{}\n")


def garbage(folder: Path) -> None:
    (folder / SHARD).write_bytes(b"PAR1" + b"\xff" * 5000 + (4000).to_bytes(4, "little") + b"PAR1")


def footer_of_four_gigabytes(folder: Path) -> None:
    (folder / SHARD).write_bytes(b"PAR1" + b"\0" * 100 + b"\xff\xff\xff\xff" + b"PAR1")


def one_byte_changed(folder: Path) -> None:
    content = bytearray((folder / SHARD).read_bytes())
    content[200] ^= 1
    (folder / SHARD).write_bytes(content)


def two_seals(folder: Path) -> None:
    """The second one in the text of another key."""
    table = pq.ParquetFile(folder / SHARD).read()
    seal = b"\x18" + bytes([len(SEAL_KEY)]) + SEAL_KEY.encode() + b"\x18\x40" + b"f" * 64
    with pq.ParquetWriter(folder / SHARD, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({SEAL_KEY: BLANK_SEAL, "other": seal})


def a_seal_of_another_file(folder: Path) -> None:
    path = folder / SHARD
    table = pq.ParquetFile(path).read()
    with pq.ParquetWriter(path, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({SEAL_KEY: BLANK_SEAL})
    write_seal(path)
    content = path.read_bytes()
    own, other = (_seal(p) for p in (path, folder / f"devices/{NAME}"))
    path.write_bytes(content.replace(own, other))


def _seal(path: Path) -> bytes:
    content = path.read_bytes()
    start = content.index(b"\x18\x40", content.rindex(SEAL_KEY.encode())) + 2
    return content[start : start + 64]


HOSTILE = {
    escape_in_a_workload: "CH058",
    escape_in_an_alias: "CH058",
    escape_in_a_version: "CH057",
    workload_in_other_letters: "upper and lower case only",
    device_in_other_letters: "upper and lower case only",
    both_letters: "two spellings",
    features_beside: "a contribution has shards only",
    a_journal: "a contribution has shards only",
    garbage: "CH00[13]",
    footer_of_four_gigabytes: "CH001",
    one_byte_changed: "CH002",
    two_seals: "CH003",
    a_seal_of_another_file: "CH002",
}


@pytest.mark.parametrize("spoil", HOSTILE, ids=lambda spoil: spoil.__name__)
def test_a_hostile_pull_request_is_refused_and_leaves_nothing(
    spoil: Spoil, forged: Any, hugging_face: Any, scratch: Path
) -> None:
    address = forged(spoil)
    before = dict(hugging_face.files(REPO))

    why = refused(address)

    assert re.search(HOSTILE[spoil], why), why
    assert hugging_face.files(REPO) == before
    assert list(scratch.iterdir()) == []


@pytest.mark.slow
def test_a_bomb_is_refused(forged: Any, hugging_face: Any, scratch: Path) -> None:
    def bomb(folder: Path) -> None:
        """73 kB that unfold to 4 GiB."""
        row, schema = pq.ParquetFile(folder / SHARD).read().to_pylist()[0], stored_schema("measurements")
        columns = [pa.array([row[field.name]] * 4096, field.type) for field in schema]
        texts = pa.DictionaryArray.from_arrays(pa.array([0] * 4096, pa.int32()), pa.array(["x" * (1 << 20)]))
        columns[schema.get_field_index("error")] = texts
        table = pa.table(columns, names=schema.names).replace_schema_metadata(schema.metadata)
        with new_parquet(folder / SHARD, table.schema, Encoding(dictionary=("error",))) as writer:
            writer.write_table(table)

    address = forged(bomb)
    before = dict(hugging_face.files(REPO))

    assert "CH0" in refused(address)
    assert hugging_face.files(REPO) == before
    assert list(scratch.iterdir()) == []


def test_what_was_sound_before_it_was_spoilt_is_taken(forged: Any, hugging_face: Any) -> None:
    done = review(forged(lambda folder: None), deep=False)
    assert done.verdict.is_accepted


@pytest.mark.parametrize("what", ["pipe", "huge", "link"])
@pytest.mark.parametrize("where", [SHARD, "splits/a.json", f"measurements/{DEVICE}/journal.jsonl"])
def test_a_hostile_folder_is_neither_reviewed_nor_sent(
    measured: Any, scratch: Path, tmp_path: Path, where: str, what: str
) -> None:
    hub, folder = measured(tmp_path / "hub", 0, 5), measured(tmp_path / "new", 10, 5)
    path = folder / where
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if what == "pipe":
        os.mkfifo(path)
    elif what == "huge":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    else:
        path.symlink_to("/etc/hostname")
    before = {p: p.stat().st_mtime_ns for p in hub.rglob("*")}

    assert refused_folder(folder, hub)
    with pytest.raises(DataError), staged(folder):
        pass

    assert {p: p.stat().st_mtime_ns for p in hub.rglob("*")} == before
    assert list(scratch.iterdir()) == []


def refused_folder(folder: Path, hub: Path) -> bool:
    try:
        done = review(str(folder), against=str(hub), deep=False, merge=True)
    except RefusedError:
        return True
    return not done.verdict.is_accepted and done.merged is None


def test_linked_folders_are_not_sent(measured: Any, tmp_path: Path) -> None:
    folder = measured(tmp_path / "data", 0, 5)
    (folder / "measurements").rename(tmp_path / "elsewhere")
    (folder / "measurements").symlink_to(tmp_path / "elsewhere")

    assert check_folder(folder, progress=False)[0].rule == "CH054"
    with pytest.raises(DataError, match="measurements is a link"), staged(folder):
        pass
