"""A folder in the place of another: all of the new one or all of the old one."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from costhub.api.tune_report import REPORT, read_report
from costhub.cards.adaptation import transfer_facts
from costhub.dataset.shards.journal import read_journal
from costhub.dataset.splits.split import load_split
from costhub.errors import ArgumentError, CosthubError, DataError
from costhub.files import (
    CACHE_VARIABLE,
    as_number,
    cache_root,
    hash_regular,
    open_regular,
    read_regular,
    refuse_newer,
    swap_in,
    write_replacing,
)
from costhub.hub.catalogue.devices import read_devices
from costhub.hub.catalogue.hubs import EVALUATION
from costhub.hub.install import write_card_from_figures
from costhub.hub.remote.manifest import MANIFEST, read_manifest
from costhub.models.folder import CONFIG, load_model


def test_the_cache_is_where_the_variable_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    assert cache_root() == tmp_path

    monkeypatch.delenv(CACHE_VARIABLE)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root() == tmp_path / ".cache" / "costhub"


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    """A FIFO without a writer would hold an ordinary `open` for ever; this test would then never end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "zero").symlink_to("/dev/zero")

    for name, kind in (("pipe", "a named pipe"), (".", "a folder"), ("zero", "a device"), ("none", "No such file")):
        with pytest.raises(DataError, match=kind):
            open_regular(tmp_path / name, error=DataError)
    assert read_regular(tmp_path / "link", limit=3) == b"abc"
    with pytest.raises(CosthubError, match="symbolic link"):
        open_regular(tmp_path / "link", follow=False)


def test_a_file_above_its_limit_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(CosthubError, match=r"1,099,511,627,776 bytes. At most 1,000"):
        read_regular(tmp_path / "sparse", limit=1000)


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path, Path]:
    for name in ("kept", "made"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    return tmp_path / "kept", tmp_path / "made", tmp_path / "old"


def test_the_new_folder_takes_the_place_and_nothing_of_the_old_one_is_left(
    places: tuple[Path, Path, Path],
) -> None:
    kept, made, old = places

    swap_in(kept, made, old)

    assert (kept / "file").read_text() == "made"
    assert not made.exists()
    assert not old.exists()


def broken(monkeypatch: pytest.MonkeyPatch, *names: str, error: BaseException) -> None:
    """From now on folders of these names cannot be renamed."""
    rename = Path.rename

    def stop(self: Path, target: str | Path) -> Path:
        if self.name in names:
            raise error
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", stop)


@pytest.mark.parametrize("error", [OSError("disk"), KeyboardInterrupt()])
def test_an_interruption_leaves_the_old_folder_in_its_place(
    places: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    kept, made, old = places
    broken(monkeypatch, "made", error=error)

    with pytest.raises(type(error)):
        swap_in(kept, made, old)

    assert (kept / "file").read_text() == "kept"
    assert (made / "file").exists()


def test_what_cannot_be_put_back_is_said_to_lie_where_it_lies(
    places: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, made, old = places
    broken(monkeypatch, "made", "old", error=OSError("disk"))

    with pytest.raises(CosthubError, match=f"All it held is in {old}"):
        swap_in(kept, made, old)

    assert (old / "file").read_text() == "kept"


TOLD = {"source": "a", "method": "b", "trials": 1, "chosen": "adapted"}


@pytest.mark.parametrize("content", [{}, {"version": 1}, {"version": 2}])
def test_versions_up_to_the_newest_pass(content: dict[str, Any]) -> None:
    refuse_newer(content, newest=2, what="a.json", error=DataError)


@pytest.mark.parametrize("version", [3, 0, -1, "1", None, True, 1.0, [1]])
def test_others_are_refused(version: object) -> None:
    with pytest.raises(DataError, match=r"a\.json has version .*up to 2\. Update costhub\."):
        refuse_newer({"version": version}, newest=2, what="a.json", error=DataError)


@pytest.mark.parametrize(
    ("name", "content", "read"),
    [
        (CONFIG, {"costhub_format": 9}, load_model),
        (MANIFEST, {"version": 9, "contents": []}, read_manifest),
        (EVALUATION, {"version": 9}, lambda folder: write_card_from_figures(folder, name="x")),
        (
            "devices.json",
            {"version": 9, "machines": []},
            lambda folder: read_devices(folder / "devices.json"),
        ),
        (REPORT, {"version": 9}, read_report),
        ("a.json", {"costhub": "split", "version": 9}, lambda folder: load_split(folder / "a.json")),
        ("adaptation.json", {}, lambda folder: transfer_facts({**TOLD, "version": 9}, [])),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_of_a_newer_costhub_is_refused_with_a_sentence_that_says_to_update(
    name: str, content: dict[str, Any], read: Any, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(json.dumps(content))

    with pytest.raises(CosthubError, match=r"9.*(Update costhub|: upgrade( it)?)\."):
        read(tmp_path)


def test_a_journal_with_columns_of_a_newer_costhub_says_so(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_text('{"record_id": "a", "watts": 3}\n')

    with pytest.raises(DataError, match=r"unknown column 'watts'.*update costhub if a newer one wrote it"):
        read_journal(tmp_path / "journal.jsonl")


def test_a_folder_without_a_report_or_with_a_torn_one_may_be_tuned_into(tmp_path: Path) -> None:
    assert read_report(tmp_path) is None
    (tmp_path / REPORT).write_text('{"vers')
    assert read_report(tmp_path) is None


@pytest.mark.parametrize("make", [Path.touch, os.mkfifo, lambda path: path.symlink_to("/etc/passwd")])
def test_a_file_is_replaced_and_never_written_through(make: Any, tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    make(path)

    write_replacing(path, b"new")

    assert not path.is_symlink()
    assert path.read_bytes() == b"new"
    assert [each.name for each in tmp_path.iterdir()] == ["README.md"]
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "README.md").mkdir()

    with pytest.raises(OSError, match="README"):
        write_replacing(tmp_path / "README.md", b"new")

    assert [each.name for each in tmp_path.iterdir()] == ["README.md"]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_file_is_hashed_in_pieces_and_within_its_limit(tmp_path: Path) -> None:
    content = bytes(range(256)) * 5000  # more than one piece
    (tmp_path / "x").write_bytes(content)

    assert hash_regular(tmp_path / "x") == (hashlib.sha256(content).hexdigest(), len(content))
    with pytest.raises(DataError, match="x"):
        hash_regular(tmp_path / "x", limit=len(content) - 1, error=DataError)


def test_a_user_without_a_home_is_told_to_name_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    monkeypatch.setattr(Path, "expanduser", fails)
    with pytest.raises(ArgumentError, match=f"Set {CACHE_VARIABLE} to a folder of your own"):
        cache_root()


@pytest.mark.parametrize("value", [None, "1", True, [1], {}, float("nan"), float("inf"), 10**400])
def test_what_is_no_finite_number_is_none(value: object) -> None:
    assert as_number(value) is None


@pytest.mark.parametrize(("value", "number"), [(3, 3.0), (-0.25, -0.25), (0, 0.0)])
def test_numbers_are_kept(value: float, number: float) -> None:
    assert as_number(value) == number
