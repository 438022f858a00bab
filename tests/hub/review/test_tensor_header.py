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
from costhub.hub.review.tensor_header import check_tensor_header

SOUND = save({"a": np.ones((3, 4), np.float32), "b": np.ones(2, np.int64)}, metadata={"note": "x"})


def test_what_the_library_writes_passes(tmp_path: Path) -> None:
    save_file(
        {"a": np.ones((3, 4), np.float32), "b": np.zeros((0, 5)), "c": np.ones((), np.int64)},
        tmp_path / "m.safetensors",
    )

    check_tensor_header(tmp_path / "m.safetensors")


@pytest.mark.parametrize(
    "content", [SOUND[:-1], SOUND + b"x", SOUND[:20], struct.pack("<Q", 2) + b"{}", b"{"]
)
def test_a_file_of_another_size_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(content)

    with pytest.raises(ModelError, match=r"m\.safetensors"):
        check_tensor_header(path)


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
