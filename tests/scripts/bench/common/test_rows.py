"""Rows: kept as they are made, read again after an interruption, and averaged to curves."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from scripts.bench.common.rows import RowFile, earlier_rows, mean_curves, read_rows

KEY = ("workload", "seed")


def test_rows_are_in_the_file_as_soon_as_they_are_added_and_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = RowFile(path, KEY)
    rows.add({"workload": "a", "seed": 0, "us": 1.5}, {"workload": "a", "seed": 1, "us": 2.0})

    again = RowFile(path, KEY)

    assert list(again) == list(rows)
    assert ("a", 1) in again
    assert ("a", 2) not in again


def test_rows_without_a_file_are_kept_in_memory() -> None:
    rows = RowFile(None, KEY)
    rows.add({"workload": "a", "seed": 0})

    assert ("a", 0) in rows
    assert rows.all == [{"workload": "a", "seed": 0}]


def test_a_row_without_one_of_the_keys_has_it_empty() -> None:
    rows = RowFile(None, KEY)
    rows.add({"workload": "a"})

    assert ("a", "") in rows


def test_a_line_cut_short_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\n{"a": ')

    assert read_rows(path) == [{"a": 1}]


def test_rows_of_an_earlier_result_are_read_if_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    assert earlier_rows(path) == earlier_rows(None) == []

    path.write_text(json.dumps({"machine": "m", "rows": [{"a": 1}]}))

    assert earlier_rows(path) == [{"a": 1}]


def test_rows_of_other_settings_are_not_taken_for_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"workload": "old", "seed": 0}\n')
    RowFile(path, KEY, trials=16).add({"workload": "a", "seed": 0})

    other = RowFile(path, KEY, trials=64)
    other.add({"workload": "a", "seed": 0})

    assert ("a", 0) not in RowFile(path, KEY, trials=32)
    assert other.all == [{"workload": "old", "seed": 0}, {"workload": "a", "seed": 0, "trials": 64}]
    assert [row.get("trials") for row in read_rows(path)] == [None, 16, 64]


def test_a_result_of_other_settings_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"trials": 64, "rows": [{"a": 1}]}))

    assert earlier_rows(path, trials=64, newer_than_the_file=1) == [{"a": 1}]
    with pytest.raises(click.UsageError, match=r"result\.json has results with trials 64, and this run has 32"):
        earlier_rows(path, trials=32)


def test_curves_compare_what_all_methods_have_searched() -> None:
    def row(method: str, workload: str, *curve: float) -> dict[str, object]:
        return {"device": "d", "method": method, "workload": workload, "trials": [8], "curve": list(curve), "seed": 0}

    lines = mean_curves([row("m", "a", 0.2), row("m", "b", 0.8), row("n", "a", 0.4)], ("m", "n", "none"))

    assert {line["label"]: line["y"] for line in lines} == {"m": [0.2], "n": [0.4]}


def test_curves_are_means_over_seeds_then_over_workloads() -> None:
    def row(workload: str, *curve: float) -> dict[str, object]:
        return {"device": "d", "method": "m", "workload": workload, "trials": [8, 16], "curve": list(curve)}

    (line,) = mean_curves([row("a", 0.0, 1.0), row("a", 1.0, 1.0), row("b", 0.25, 0.5)], ("m", "none"))

    assert line["label"] == "m"
    assert line["x"] == [8, 16]
    assert line["y"] == pytest.approx([0.375, 0.75])
    assert line["se"] == pytest.approx([0.125, 0.25])


def test_rows_added_after_a_line_cut_short_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"workload": "a", "seed": 0}\n{"workload": "a", "se')
    rows = RowFile(path, KEY)

    rows.add({"workload": "a", "seed": 1})
    rows.add({"workload": "a", "seed": 2})

    assert [row["seed"] for row in RowFile(path, KEY)] == [0, 1, 2]
