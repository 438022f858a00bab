"""Searches that are kept: done once, and anew after an interruption."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from scripts.bench.common import kept_searches
from scripts.bench.common.kept_searches import COURSE, kept_course, stock_folder


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """The words of each search that is done; it leaves a database."""
    done: list[tuple[object, ...]] = []

    def searched(*words: object) -> dict[str, Any]:
        done.append(words)
        began = time.monotonic()
        folder = Path(str(words[-1]))
        folder.mkdir()
        (folder / "database").write_text("")
        return {"began": began, "rounds": [[16, 1.5]]}

    monkeypatch.setattr(kept_searches, "result_of", searched)
    return done


def test_a_search_is_done_once(tmp_path: Path, searches: list[tuple[object, ...]]) -> None:
    folder = stock_folder(tmp_path / "kept", "softmax", 1)

    first = kept_course(folder, "workload", folder)
    again = kept_course(folder, "workload", folder)

    assert searches == [("scripts.bench.search.once", "workload", folder)]
    assert first == again
    assert first["rounds"] == [[16, 1.5]]
    assert 0.0 <= first["before_s"] <= first["exit_s"]
    assert (folder / "database").exists()


def test_an_interrupted_search_starts_anew(tmp_path: Path, searches: list[tuple[object, ...]]) -> None:
    folder = tmp_path / "softmax"
    kept_course(folder, folder)
    (folder / COURSE).unlink()
    (folder / "half").write_text("of a record")

    kept_course(folder, folder)

    assert len(searches) == 2
    assert sorted(path.name for path in folder.iterdir()) == [COURSE, "database"]
