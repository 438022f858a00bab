from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from costhub.models.trees import ubjson
from costhub.models.trees.ubjson import MAX_DEPTH, UbjsonError, read_ubjson
from tests.hostile_trees import write_ubjson

TREES = Path(__file__).parents[2] / "artefacts/0.1.0/models/gbt/model.ubj"


def length(number: int) -> bytes:
    return b"L" + struct.pack(">q", number)


def entry(value: bytes, key: bytes = b"a") -> bytes:
    return b"{" + length(len(key)) + key + value + b"}"


def test_nothing_of_a_file_is_lost_in_reading() -> None:
    data = TREES.read_bytes()

    assert write_ubjson(read_ubjson(data)) == data


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"i\xff", -1),
        (b"U\xff", 255),
        (b"I\xff\xfe", -2),
        (b"l\x00\x01\x00\x00", 65536),
        (b"L" + struct.pack(">q", 2**40), 2**40),
        (b"S" + length(3) + b"abc", "abc"),
        (b"[#" + length(2) + b"i\x01{}", [1, {}]),
    ],
)
def test_values_of_every_kind(value: bytes, expected: object) -> None:
    assert read_ubjson(entry(value)) == {"a": expected}


@pytest.mark.parametrize(("form", "kind"), [(b"d", np.float32), (b"l", np.int32), (b"L", np.int64), (b"U", np.uint8)])
def test_typed_arrays(form: bytes, kind: type) -> None:
    data = np.array([1, 2, 3], kind).astype(np.dtype(kind).newbyteorder(">")).tobytes()

    read = read_ubjson(entry(b"[$" + form + b"#" + length(3) + data))["a"]

    assert read.astype(kind).tolist() == [1, 2, 3]
    assert read.dtype.newbyteorder("=") == kind


def test_every_file_that_is_cut_short_is_refused() -> None:
    data = TREES.read_bytes()
    for end in [*range(200), *range(200, len(data), 7)]:
        with pytest.raises(UbjsonError):
            read_ubjson(data[:end])


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "it is cut short"),
        (b"[#" + length(0), "it does not hold an object"),
        (b"{}x", "1 bytes follow its end"),
        (b"{i\x01ai\x01}", "byte 1 is not a length"),
        (b"{" + length(-1) + b"}", "byte 1 is the length -1, more than the file holds"),
        (b"{" + length(2**62) + b"}", "more than the file holds"),
        (entry(b"i\x01", "ä".encode()), "not plain ASCII"),
        (entry(b"S" + length(1) + b"\0"), "not plain ASCII"),
        (b"{" + 2 * (length(1) + b"ai\x01") + b"}", "the key 'a' occurs twice"),
        (entry(b"[$D#" + length(0)), "an array of a type that XGBoost does not write"),
        (entry(b"[$d" + length(0)), "an array of a type"),
        (entry(b"[$d#" + length(3) + bytes(4)), "an array that is larger than the file"),
        (entry(b"[$L#" + length(2**60)), "more than the file holds"),
        (entry(b"[]"), "a list without its length"),
        (entry(b"[i\x01]"), "a list without its length"),
        (entry(b"N"), "does not begin a value that XGBoost writes"),
        (entry(b"Z"), "does not begin a value that XGBoost writes"),
        (entry(b"D" + bytes(8)), "does not begin a value that XGBoost writes"),
        (entry(b"H" + length(1) + b"1"), "does not begin a value that XGBoost writes"),
        (b"\x80\x04cos\nsystem\n", "does not begin a value that XGBoost writes"),
    ],
)
def test_what_xgboost_does_not_write_is_refused(data: bytes, fault: str) -> None:
    with pytest.raises(UbjsonError, match=fault):
        read_ubjson(data)


@pytest.mark.parametrize("opening", [b"{" + length(1) + b"a", b"[#" + length(1)])
def test_two_million_levels_are_refused_at_the_ninth(opening: bytes) -> None:
    with pytest.raises(UbjsonError, match=f"more than {MAX_DEPTH} deep"):
        read_ubjson(entry(opening * 2_000_000))


def test_a_small_file_cannot_become_millions_of_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ubjson, "MAX_VALUES", 100)
    assert len(read_ubjson(entry(b"[#" + length(98) + b"{}" * 98))["a"]) == 98

    with pytest.raises(UbjsonError, match="more than 100 values"):
        read_ubjson(entry(b"[#" + length(99) + b"{}" * 99))
