from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save, save_file

from costhub.errors import ModelError
from costhub.hub.model_check.model_files import (
    check_model_files,
    check_model_path,
    check_tensor_header,
    read_strict_json,
    refuse_links,
)


def test_a_folder_that_is_a_link_or_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    for name in ("file", "link", "nothing"):
        with pytest.raises(ModelError, match="is not a folder"):
            check_model_files(tmp_path / name)
    check_model_files(tmp_path / "real")


def test_paths_are_judged_before_they_are_fetched() -> None:
    check_model_path("a/b/c/d/plot.png")
    for name in ("x.bin", "x", ".x.md", "a/.b/x.md", "a//x.md", "a/b/c/d/e/x.md", "\x1bx.md", "a:x.md"):
        with pytest.raises(ModelError) as told:
            check_model_path(name)
        assert str(told.value).isprintable()


def test_sizes_are_added_up(tmp_path: Path) -> None:
    for number in range(3):
        with (tmp_path / f"{number}.ubj").open("wb") as file:
            file.write(b"{")
            file.truncate(1 << 30)

    with pytest.raises(ModelError, match="too much for a cost model"):
        check_model_files(tmp_path)


@pytest.mark.parametrize("text", ["[1]", "", "{", '{"a": 1, "a": 2}', '{"a": Infinity}', "\xff", "[" * 99999])
def test_json_has_one_meaning_or_none(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, encoding="latin-1")

    with pytest.raises(ModelError, match=r"config\.json"):
        read_strict_json(path)


def test_an_object_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": {"b": [1.5, null]}}')

    assert read_strict_json(tmp_path / "a.json") == {"a": {"b": [1.5, None]}}


SOUND = save({"a": np.ones((3, 4), np.float32), "b": np.ones(2, np.int64)}, metadata={"note": "x"})


def test_what_the_library_writes_passes(tmp_path: Path) -> None:
    save_file(
        {"a": np.ones((3, 4), np.float32), "b": np.zeros((0, 5)), "c": np.ones((), np.int64)},
        tmp_path / "m.safetensors",
    )

    check_tensor_header(tmp_path / "m.safetensors")


@pytest.mark.parametrize("content", [SOUND[:-1], SOUND + b"x", SOUND[:20], struct.pack("<Q", 2) + b"{}", b"{"])
def test_a_file_of_another_size_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(content)

    with pytest.raises(ModelError, match=r"m\.safetensors"):
        check_tensor_header(path)


def test_a_tensor_named_twice_is_refused(tmp_path: Path) -> None:
    """Which of the two counts depends on the reader."""
    entry = b'"a":{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]}'
    header = b"{" + entry % (0, 4) + b"," + entry % (4, 8) + b"," + entry % (0, 8) + b"}"
    (tmp_path / "m.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))

    with pytest.raises(ModelError, match="cannot be read"):
        check_tensor_header(tmp_path / "m.safetensors")


def test_types_that_no_model_has_are_refused(tmp_path: Path) -> None:
    save_file({"a": np.ones(4, np.uint8)}, tmp_path / "m.safetensors")

    with pytest.raises(ModelError, match="cannot be read"):
        check_tensor_header(tmp_path / "m.safetensors")


@given(position=st.integers(8, len(SOUND) - 57), value=st.integers(0, 255))
def test_a_changed_byte_of_the_header_passes_or_is_refused(
    position: int, value: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("header") / "m.safetensors"
    path.write_bytes(SOUND[:position] + bytes([value]) + SOUND[position + 1 :])

    # Any other exception fails the test.
    with contextlib.suppress(ModelError):
        check_tensor_header(path)


@pytest.mark.parametrize(
    "names",
    [
        ("config.json", "CONFIG.json"),
        ("a.md", "A.MD"),
        ("member_0/model.ubj", "Member_0/model.ubj"),
    ],
)
def test_names_that_some_disks_take_for_one_are_refused(names: tuple[str, str], tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")

    with pytest.raises(ModelError, match="which are one file on some systems"):
        check_model_files(tmp_path)


def test_what_is_hidden_is_passed_over_where_it_is_not_used(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/hooks").symlink_to("/etc")
    (tmp_path / "config.json").write_text("{}")

    check_model_files(tmp_path, skip_hidden=True)
    with pytest.raises(ModelError, match=r"'\.git', a hidden file"):
        check_model_files(tmp_path)


def test_hidden_files_of_members_are_refused(tmp_path: Path) -> None:
    (tmp_path / "member_0").mkdir()
    (tmp_path / "member_0/.hidden").write_text("")

    with pytest.raises(ModelError, match=r"member_0/\.hidden', a hidden file"):
        check_model_files(tmp_path, skip_hidden=True)


def test_notes_beside_a_model_are_no_links(tmp_path: Path) -> None:
    (tmp_path / "notes: mine.txt").write_text("")
    refuse_links(tmp_path)

    (tmp_path / "member_0").mkdir()
    (tmp_path / "member_0/a.png").symlink_to("/etc/passwd")
    with pytest.raises(ModelError, match=r"holds member_0/a\.png, a link"):
        refuse_links(tmp_path)
