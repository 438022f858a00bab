"""Searches with models that learned from more or less: what is searched, in which order, and what is kept."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from costhub.search.strategies.strategy import Evolutionary
from scripts.bench.common.rows import RowFile
from scripts.bench.evolving.more_data import AFTER, BEFORE, DEFAULT, searched
from scripts.bench.evolving.searches import KEY, METHODS, WARM_UP, Key, Proposals, add_missing
from scripts.tables.strategies import more_data_summary, more_data_table

KEYS: list[Key] = [(w, learned, seed, 16) for seed in (0, 1) for w in ("w", "v") for learned in (BEFORE, AFTER)]


class Recorded:
    """Searches that end at once, with a latency that tells which one searched."""

    def __init__(self, name: str, latency_us: float, asked: list[tuple[str, Key]]) -> None:
        self.name, self.latency_us, self.asked = name, latency_us, asked

    def row(self, key: Key) -> dict[str, Any]:
        self.asked.append((self.name, key))
        curve = [{"trials": key[3], "seconds": 2.0, "best_us": self.latency_us}]
        return {**dict(zip(KEY, key, strict=True)), "stages": {"running": 2.0}, "curve": curve}


def asked_for(kept: RowFile) -> list[tuple[str, Key]]:
    asked: list[tuple[str, Key]] = []
    searches = {BEFORE: Recorded("old", 3.0, asked), AFTER: Recorded("new", 2.0, asked)}
    add_missing(kept, partial(searched, searches), KEYS)
    return asked


def test_two_models_search_for_a_workload_one_after_the_other_by_default_proposals() -> None:
    asked = asked_for(RowFile(None, KEY))

    assert asked[0] == ("old", ("w", DEFAULT, 0, WARM_UP))
    assert asked[1:5] == [
        ("old", ("w", DEFAULT, 0, 16)),
        ("new", ("w", DEFAULT, 0, 16)),
        ("old", ("v", DEFAULT, 0, 16)),
        ("new", ("v", DEFAULT, 0, 16)),
    ]
    assert len(asked) == 1 + len(KEYS)
    assert DEFAULT in METHODS
    today = Evolutionary().sized("default")
    assert METHODS[DEFAULT] == Proposals(today.population or 0, today.generations or 0, today.pressure or 0.0)


def test_the_first_search_counts_nowhere_and_rows_say_what_the_model_learned_from(tmp_path: Path) -> None:
    kept = RowFile(tmp_path / "rows.jsonl", KEY)
    asked_for(kept)

    assert [kept.key_of(row) for row in kept] == KEYS
    found = more_data_summary(kept.all)
    assert [(line["method"], line["gain_16"]) for line in found["summary"]] == [(BEFORE, 1.0), (AFTER, 1.5)]


def test_a_workload_s_gain_is_of_its_own_searches() -> None:
    def row(workload: str, learned: str, best_us: float) -> dict[str, Any]:
        curve = [{"trials": 16, "seconds": 2.0, "best_us": best_us}]
        return {"workload": workload, "seed": 0, "method": learned, "curve": curve}

    found = more_data_summary(
        [row("w", BEFORE, 4.0), row("w", AFTER, 1.0), row("v", BEFORE, 3.0), row("v", AFTER, 3.0)]
    )

    assert [(line["workload"], line["gain_16"]) for line in found["workloads"]] == [("w", 4.0), ("v", 1.0)]
    assert found["summary"][-1]["gain_16"] == pytest.approx(2.0)
    assert [line.split("|")[1:4] for line in more_data_table(found).splitlines()[2:]] == [
        [" w ", " 1 ", " 4.000 "],
        [" v ", " 1 ", " 1.000 "],
        [" **all** ", " 2 ", " 2.000 "],
    ]


def test_a_search_that_was_kept_is_not_made_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    asked_for(RowFile(path, KEY))
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))

    assert [key for _, key in asked_for(RowFile(path, KEY))] == [("v", DEFAULT, 1, WARM_UP), ("v", DEFAULT, 1, 16)]
    assert asked_for(RowFile(path, KEY)) == []
