"""Searches that are kept: done once, anew after an interruption, and not taken for others."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from click import ClickException

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


def test_a_search_that_was_asked_for_something_else_is_not_taken(
    tmp_path: Path, searches: list[tuple[object, ...]]
) -> None:
    folder = tmp_path / "softmax"
    kept_course(folder, "workload", "stock", 16, 0, folder)

    kept_course(folder, "workload", "stock", 16, 0, folder)
    with pytest.raises(ClickException, match=rf"in {folder} is not the one .*Delete the folder, or .* --searches\."):
        kept_course(folder, "workload", "stock", 512, 0, folder)

    assert len(searches) == 1
    assert (folder / "database").exists()


def test_models_are_told_apart_by_their_names_and_held_out_workloads_by_their_ids(
    tmp_path: Path, searches: list[tuple[object, ...]]
) -> None:
    def course(name: str, *, place: str, without: tuple[str, ...] = ("a",)) -> dict[str, Any]:
        model = tmp_path / place / name
        settings = json.dumps({"model": str(model), "draft": str(model), "without": without})
        return kept_course(tmp_path / "one", settings, model, tmp_path / "one")

    first = course("costhub-1", place="temporary")

    assert course("costhub-1", place="another") == first
    for other in ({"name": "costhub-2"}, {"name": "costhub-1", "without": ("a", "b")}):
        with pytest.raises(ClickException, match="is not the one"):
            course(**{"place": "temporary", **other})
    assert len(searches) == 1


def test_a_course_of_an_older_version_is_not_taken(tmp_path: Path, searches: list[tuple[object, ...]]) -> None:
    folder = tmp_path / "softmax"
    folder.mkdir()
    (folder / COURSE).write_text('{"began": 0.0, "rounds": [[512, 1.5]]}')

    with pytest.raises(ClickException, match="an older version"):
        kept_course(folder, "workload", folder)

    assert searches == []
