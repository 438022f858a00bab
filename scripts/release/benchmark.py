"""Writes the leaderboard of the embedded hub, benchmark.json, from the results of the benchmark of models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from costhub.cards.site.facts import BASELINE, CEILING, MODEL
from costhub.hub.benchmark import BENCHMARK, BENCHMARK_VERSION
from costhub.hub.catalogue.hubs import EMBEDDED
from scripts.tables.benchmark import METRICS, TRACKS, leaderboard

RESULTS = "docs/results/model_comparison.json"
_FIGURES = (*METRICS, *(f"{metric}_se" for metric in METRICS))


def benchmark_json(result: Mapping[str, Any]) -> dict[str, Any]:
    """The leaderboard of a hub.

    Args:
        result: The content of `RESULTS`.
    """
    tracks = []
    for track in TRACKS:
        rows = leaderboard(result, track)
        tracks.append(
            {
                "title": track.title,
                "device": track.device,
                "split": track.split,
                "asks": track.asks,
                "workloads": rows[0]["workloads"],
                "rows": [_row(row) for row in rows],
            }
        )
    versions = ", ".join(f"{name} {result['versions'][name]}" for name in ("tvm", "costhub"))
    origin = {
        "results": RESULTS,
        "command": result["command"],
        "machine": result["machine"],
        "date": result["date"][:10],
        "versions": versions,
    }
    return {"costhub": "benchmark", "version": BENCHMARK_VERSION, "origin": origin, "tracks": tracks}


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    kind = CEILING if row["name"] == "noise ceiling" else BASELINE if row["is_baseline"] else MODEL
    figures = {key: round(row[key], 6) for key in _FIGURES}
    return {
        "name": row["name"].replace("`", ""),
        "features": row["features"],
        "kind": kind,
        "seeds": row["seeds"],
        **figures,
    }


@click.command()
@click.option("--results", default=RESULTS, show_default=True, type=click.Path(exists=True, path_type=Path))
@click.option("--out", default=EMBEDDED / BENCHMARK, show_default=True, type=click.Path(path_type=Path))
def main(results: Path, out: Path) -> None:
    """Writes benchmark.json of a hub."""
    found = benchmark_json(json.loads(results.read_text(encoding="utf-8")))
    out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    click.echo(f"{out}: {sum(len(track['rows']) for track in found['tracks'])} rows in {len(found['tracks'])} tracks.")
