"""Tests of the tables of Ansor's logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.tables.papers.ansor import SUB_WARP, ansor_replayed_table, ansor_table


def test_what_became_of_ansors_records_is_shown_by_operator_and_in_all() -> None:
    conv = {"device": "gpu", "operator": "conv2d_layer", "records": 1010, "rows": 800, "duplicates": 10, "vectors": 150}
    pool = {"device": "gpu", "operator": "pool_layer", "records": 40, "rows": 0, "unknown": 40}
    rate = {"device": "gpu", "programs": 300, "cpu_s": 6.0}

    shown = ansor_table({"rows": [conv | {"refused": 50, "workloads": 3, "peak_mib": 477}, pool], "rates": [rate]})

    assert "| gpu | 3 | 1,050 | 800 | 10 | 94.1% | 50 | 477 |" in shown
    assert "| gpu | conv2d_layer | 3 | 1,010 | 800 | 80.0% | 94.1% | 150 | 50 | 0 | 0 |" in shown
    assert "| gpu | pool_layer | 0 | 40 | 0 | 0.0% | - | 0 | 0 | 40 | 0 |" in shown


def replayed(folder: Path, *refusals: tuple[str, int], refused: int = 100) -> str:
    """The line of an operator with 900 rows; a sample of its refused programs breaks these limits."""
    conv = {"device": "gpu", "operator": "conv2d_layer", "rows": 900, "refused": refused}
    others = [{**conv, "operator": "pool_layer"}, {"device": "gpu", "operator": "relu_layer", "rows": 0}]
    (folder / "ansor-import.json").write_text(json.dumps({"rows": [*others, conv]}))
    rows: list[dict[str, Any]] = [
        {"device": "gpu", "operator": "conv2d_layer", "check": "VerifyGPUCode", "limit": limit, "refused": count}
        for limit, count in refusals
    ]
    elsewhere = [{**row, "device": "other"} for row in rows]
    (folder / "ansor_refusals.json").write_text(json.dumps({"rows": [*elsewhere, *rows]}))
    _, _, *lines = ansor_replayed_table(folder).splitlines()
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("refusals", "shown"),
    [
        # All of twenty are outside; with 95 % confidence at most 1 - 0.05 ** (1 / 20) = 13.9 % of a hundred are not.
        ([(SUB_WARP, 20)], "| 20 | 20 | 0 | 100.0% | 98.5% |"),
        # Half of them: 900 / 950; at most 69.8 % (Clopper and Pearson, ten of twenty).
        ([(SUB_WARP, 10), ("shared memory of a block", 10)], "| 20 | 10 | 10 | 94.7% | 92.8% |"),
        ([("none of them", 3)], "| 3 | 0 | 3 | 90.0% | 90.0% |"),
    ],
)
def test_refused_programs_below_a_warp_count_as_outside_the_space_as_far_as_a_sample_says(
    tmp_path: Path, refusals: list[tuple[str, int]], shown: str
) -> None:
    assert replayed(tmp_path, *refusals) == f"| gpu | conv2d_layer | 900 | 100 {shown}"


def test_an_operator_without_refusals_in_the_sample_has_no_line(tmp_path: Path) -> None:
    assert replayed(tmp_path) == ""
