"""Tables of the seconds until a network runs; every table of engines renders the files that are there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.tables.engines.seconds import ENGINE_PAIRS, ENGINE_TABLES, ENGINE_VIEWS, engine_seconds_table
from scripts.tables.results import TABLES, VIEWS

RESULTS = Path(__file__).resolve().parents[4] / "docs" / "results"


def ready_row(engine: str, ready_s: float | None, **more: Any) -> dict[str, Any]:
    return {"network": "net", "engine": engine, "ready_s": ready_s, **more}


def test_searches_and_loading_have_columns_of_their_own() -> None:
    searched = {"reading_s": 10.0, "seconds": 100.0, "compile_s": 12.0}
    rows = [ready_row("costhub", 2.5, ready_without_torch_s=0.9, **searched), ready_row("torch", 4.25)]
    rows += [ready_row("openvino", None), ready_row("costhub-bf16", 3.5, network="other", **searched)]

    shown = engine_seconds_table({"rows": rows, "empty_s": 0.4}).splitlines()

    own = ("search and compilation, once", "loading", "loading without PyTorch")
    assert shown[0].split(" | ")[1:5] == ["PyTorch", *(f"costhub: {what}" for what in own)]
    assert shown[0].split(" | ")[5:] == [f"costhub (bfloat16): {what}" for what in own[:2]] + [
        f"costhub (bfloat16): {own[2]} |"
    ]
    assert shown[2:4] == ["| net | 4.2 | 122 | 2.5 | 0.9 | - | - | - |", "| other | - | - | - | - | 122 | 3.5 | - |"]
    assert shown[-1] == "A process that imports only NumPy took 0.4 s; starting one is part of every figure."


def test_files_without_these_seconds_are_not_measured() -> None:
    rows = [ready_row("torch", None), {"network": "net", "engine": "costhub"}]

    assert engine_seconds_table({"rows": rows}) == "Not measured yet."


@pytest.mark.parametrize("name", ENGINE_TABLES)
def test_every_file_that_is_there_can_be_rendered(name: str) -> None:
    assert (TABLES[name], VIEWS[name]) == (ENGINE_TABLES[name], ENGINE_VIEWS[name])

    assert ENGINE_TABLES[name](json.loads((RESULTS / f"{ENGINE_VIEWS[name]}.json").read_text()))


@pytest.mark.parametrize("name", ENGINE_PAIRS)
def test_every_pair_of_files_can_be_rendered(name: str) -> None:
    assert ENGINE_PAIRS[name](RESULTS)
