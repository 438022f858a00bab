from __future__ import annotations

from pathlib import Path

import pytest

from costhub.models.training.progress_file import of_another_training, write_progress


def test_a_write_that_fails_leaves_the_file_before_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "made" / "one.bin"
    write_progress(path, lambda place: place.write_text("old"))

    def fail(place: Path) -> None:
        place.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_progress(path, fail)

    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_what_is_written_to_has_the_suffix_of_the_file(tmp_path: Path) -> None:
    seen: list[str] = []
    write_progress(tmp_path / "model.ubj", lambda place: seen.append(place.suffix) or place.touch())

    assert seen == [".ubj"]


def test_progress_of_another_training_is_named() -> None:
    assert "x.ubj is the progress of another training" in str(of_another_training(Path("x.ubj")))
