"""Provides speed_table: what scoring the candidates of a search costs, for the pages of results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costhub.cards.tables import Column, markdown_table, number
from costhub.cards.tune_plots import STAGES


def speed_table(result: Mapping[str, Any]) -> str:
    """One line per workload and model, in seconds; then one per search, in shares of its seconds."""
    columns = [
        Column("workload", "workload"),
        Column("model", "model"),
        number("features_s", "features (s)"),
        number("prediction_s", "prediction (s)"),
        number("floor_ms", "floor of the prediction (ms)", ".4f"),
        number("of_tvm_xgb", "times as fast as TVM's XGBModel", ".2f"),
        number("kept_best_16", "of the best 16, verified", ".0%"),
    ]
    return f"{markdown_table(result['speed'], columns)}\n\n{_stages_table(result['searches'])}"


def _stages_table(searches: list[Mapping[str, Any]]) -> str:
    rows = [
        {**row, **{stage: s / sum(row["stages"].values()) for stage, s in row["stages"].items()}}
        for row in searches
    ]
    columns = [
        Column("workload", "workload"),
        Column("model", "model"),
        number("population", "candidates of a generation", "d"),
        number("seconds", "search (s)", ".1f"),
        *(number(stage, stage, ".1%") for stage in STAGES),
    ]
    return markdown_table(rows, columns)
