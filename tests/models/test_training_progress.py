from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.models.training_progress import other_training_error, training_id, write_progress


def test_the_id_changes_with_all_that_the_result_depends_on(train: Programs) -> None:
    slower = train.latency_s.copy()
    slower[3] *= 1.5
    rows = train.rows.copy()
    rows[0, 0] += 1.0
    one = {"seed": 0}
    found = [
        training_id(train, None, one),
        training_id(train, None, {"seed": 1}),
        training_id(train, train, one),
        training_id(replace(train, latency_s=slower), None, one),
        training_id(replace(train, rows=rows), None, one),
        training_id(train.select(np.arange(train.n)[::-1]), None, one),
    ]

    assert len(set(found)) == len(found)
    assert training_id(train.select(np.arange(train.n)), None, one) == found[0]


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
    assert "x.ubj is the progress of another training" in str(other_training_error(Path("x.ubj")))
