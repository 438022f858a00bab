"""Writes the leaderboard of the embedded hub, benchmark.json, from the results of the benchmarks."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from costhub.cards.site.facts import BASELINE, CEILING, MODEL
from costhub.errors import DataError
from costhub.hub.benchmark import BENCHMARK, BENCHMARK_VERSION
from costhub.hub.catalogue.hubs import EMBEDDED
from scripts.tables.benchmark import METRICS, MORE_TRACKS, TRACKS, Track, leaderboard, more_summaries
from scripts.tables.figures import read
from scripts.tables.results import todays_command

RESULTS = "docs/results"
UNSEEN = Track("Unseen CPU", "amd-epyc-zen3-2c", "workload-40-seed0", "a CPU that the model has not learned from")
_FIGURES = (*METRICS, *(f"{metric}_se" for metric in METRICS))


def benchmark_json(results: Path) -> dict[str, Any]:
    """The leaderboard of a hub.

    Args:
        results: The folder `RESULTS`.
    """
    result = read(results, "model_comparison")
    tracks = [_track(track, leaderboard(result, track)) for track in TRACKS]
    tracks.append(_track(UNSEEN, unseen_rows(read(results, "unseen_zen3"))))
    more = more_summaries(results)
    tracks += [_track(track, leaderboard(more, track)) for track in MORE_TRACKS]
    files = f"{RESULTS}/model_comparison.json (more: models.jsonl, unseen_zen3.json; shipped: evaluation.json)"
    return {
        "costhub": "benchmark",
        "version": BENCHMARK_VERSION,
        "origin": _origin(result, files),
        "tracks": tracks,
        "replay": replay_json(read(results, "replay")),
    }


def _origin(result: Mapping[str, Any], files: str) -> dict[str, str]:
    """Where figures come from: the files, and the run that wrote them."""
    return {
        "results": files,
        "command": todays_command(result["command"]),
        "machine": result["machine"],
        "date": result["date"][:10],
        "versions": ", ".join(f"{name} {result['versions'][name]}" for name in ("tvm", "costhub")),
    }


def replay_json(result: Mapping[str, Any]) -> dict[str, Any]:
    """The replayed searches of a hub, a track for each device.

    Args:
        result: `replay.json`.

    Raises:
        DataError: Two rows of a device are about different workloads.
    """
    by_device: dict[str, list[Mapping[str, Any]]] = {}
    for row in result["rows"]:
        by_device.setdefault(row["device"], []).append(row)
    tracks = [_replay_track(device, rows) for device, rows in by_device.items()]
    return {"origin": _origin(result, f"{RESULTS}/replay.json"), "tracks": tracks}


def _replay_track(device: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    workloads = set(rows[0]["by_workload"])
    if any(set(row["by_workload"]) != workloads for row in rows):
        raise DataError(f"replay.json compares searches of different workloads on {device}. Run its benchmark again.")
    about = {key: rows[0][key] for key in ("workloads", "programs", "trials")}
    return {"device": device, **about, "workload_ids": sorted(workloads), "rows": [_replay_row(row) for row in rows]}


def _replay_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "strategy": row["strategy"],
        "model": row["model"],
        "model_name": row["name"],
        "method": row["method"] if row["model"] else "",
        "kind": BASELINE if row["strategy"] == "random" else MODEL,
        "seeds": row["seeds"],
        "score": round(row["score"], 6),
        "score_se": None if row["error"] is None else round(row["error"], 6),
        "trials_to_95": row["near"],
    }


def unseen_rows(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of `UNSEEN`: models of other CPUs and of this one, means over seeds, the best top-1 first.

    Args:
        result: `unseen_zen3.json`.
    """
    by_model: dict[str, list[Mapping[str, Any]]] = {}
    for row in result["rows"]:
        if row["device"] == UNSEEN.device:
            by_model.setdefault(row["model"], []).append(row)
    rows = []
    for model, own in by_model.items():
        is_baseline = model == "random order"
        named = model.startswith("costhub/")
        rows.append(
            {
                "name": f"{model.removeprefix('costhub/')}, shipped" if named else model,
                "features": "-" if is_baseline else "tiles@1",
                "seeds": len(own),
                "workloads": own[0]["workloads"],
                "is_baseline": is_baseline,
                **{metric: statistics.fmean(row[metric] for row in own) for metric in METRICS},
            }
        )
    return sorted(rows, key=lambda row: -row["top_1"])


def _track(track: Track, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "title": track.title,
        "device": track.device,
        "split": track.split,
        "asks": track.asks,
        "workloads": rows[0]["workloads"],
        "rows": [_row(row) for row in rows],
    }


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    kind = CEILING if row["name"] == "noise ceiling" else BASELINE if row["is_baseline"] else MODEL
    figures = {key: round(row[key], 6) for key in _FIGURES if key in row}
    return {
        "name": row["name"].replace("`", ""),
        "features": row["features"],
        "kind": kind,
        "seeds": row["seeds"],
        **figures,
    }


@click.command()
@click.option(
    "--results", default=RESULTS, show_default=True, type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option("--out", default=EMBEDDED / BENCHMARK, show_default=True, type=click.Path(path_type=Path))
def main(results: Path, out: Path) -> None:
    """Writes benchmark.json of a hub."""
    found = benchmark_json(results)
    out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    click.echo(f"{out}: {sum(len(track['rows']) for track in found['tracks'])} rows in {len(found['tracks'])} tracks.")
