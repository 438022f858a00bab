"""The benchmark of searches: what each method is told, where it is kept, and its row."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from costhub.api.tune import TuneOptions
from scripts.bench.common.kept_searches import stock_folder
from scripts.bench.search import search
from scripts.bench.search.search import AS_IT_IS, METHODS, PARTS, SearchMethod, asked_for, searched
from scripts.tables.search import LIGHT, OURS

EVERY = (*METHODS, *PARTS, AS_IT_IS)
FIRST, SECOND = "a" * 64, "b" * 64
UNSEEN: Any = SimpleNamespace(without={SECOND, FIRST}, folder=lambda name: Path("models", name))


def settings(method: SearchMethod) -> dict[str, Any]:
    (text,) = method.words(UNSEEN)
    found: dict[str, Any] = json.loads(text)
    return found


def named(name: str) -> SearchMethod:
    return next(method for method in EVERY if method.name == name)


def test_every_search_has_a_folder_of_its_own_and_stock_that_of_zero_trials() -> None:
    folders = [method.folder(Path("kept"), "w", seed) for method in EVERY for seed in (0, 1)]

    assert len(set(folders)) == len(folders)
    assert named(LIGHT).folder(Path("kept"), "w", 1) == stock_folder(Path("kept"), "w", 1)
    assert {folder.parent for folder in folders} == {Path("kept")}


def test_costhub_searches_as_the_command_does_by_a_model_to_which_the_workloads_are_new() -> None:
    assert settings(named(OURS)) == {"model": "models/costhub", "without": [FIRST, SECOND]}
    assert settings(named("costhub with a draft"))["draft"] == "models/draft"
    assert named(LIGHT).words(UNSEEN) == []


def test_the_parts_differ_from_costhub_in_one_thing_each_or_in_two() -> None:
    own = settings(named(OURS))

    changed = {}
    for method in PARTS:
        theirs = settings(method)
        changed[method.name] = sorted(key for key in own | theirs if own.get(key) != theirs.get(key))
        TuneOptions(**{key: value for key, value in theirs.items() if key != "model"}).check()

    assert changed == {
        "costhub, random scores": ["model"],
        "costhub, schedules of near workloads": ["sources"],
        "costhub, neighbours of the fastest": ["descends"],
        "costhub, near schedules and neighbours": ["descends", "sources"],
        "costhub, schedules of the workload": ["without"],
    }


def test_a_row_has_seconds_since_the_search_began_and_since_its_process_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = [[n, n / 10] for n in range(1, 49)]
    course = {"rounds": rounds, "stages": {"running": 1.0}, "failures": 3, "before_s": 2.0, "exit_s": 9.0}
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(search, "kept_course", lambda *words: asked.append(words) or course)
    monkeypatch.setattr(search, "best_traces", lambda _, counts: {n: "same" if n > 16 else "first" for n in counts})

    row = searched(SearchMethod("m", "costhub", 64, ("costhub",)), "w", 1, UNSEEN, tmp_path)

    folder = tmp_path / "w-m-1"
    assert asked == [(folder, "workload", "costhub", "w", 64, 1, folder, *named(OURS).words(UNSEEN))]
    assert (row["trials"], row["failures"], row["before_s"], row["exit_s"]) == (48, 3, 2.0, 9.0)
    assert row["programs"] == ["first", "same"]
    assert [(p["trials"], p["program"]) for p in row["curve"]] == [(16, 0), (32, 1), (48, 1), (64, 1)]
    assert [p["seconds"] for p in row["curve"]] == pytest.approx([1.6, 3.2, 4.8, 4.8])
    assert [p["process_s"] for p in row["curve"]] == pytest.approx([3.6, 5.2, 6.8, 6.8])


def test_searches_that_are_compared_follow_one_another_and_parts_have_seeds_of_their_own() -> None:
    light, ours, part = named(LIGHT), named(OURS), PARTS[0]

    order = [(m.name, w, seed) for m, w, seed in asked_for([light, ours, part], ["v", "w"], 2, 1, 1)]

    assert order == [
        *((name, "v", 0) for name in (LIGHT, OURS, part.name, AS_IT_IS.name)),
        *((name, "w", 0) for name in (LIGHT, OURS, part.name)),
        *((name, workload, 1) for workload in ("v", "w") for name in (LIGHT, OURS)),
    ]
    assert len(list(asked_for([part], ["v"], 1, 3, 0))) == 3
