"""Tables of the benchmark of cost models: one per track, the models in the order of their top-1."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from costhub.cards.tables import TableColumn, markdown_table
from costhub.hub.catalogue.hubs import EMBEDDED, EVALUATION
from scripts.tables.gains import mean_with_error

Result = Mapping[str, Any]
METRICS = ("top_1", "top_5", "pairwise")


@dataclass(frozen=True)
class Track:
    """What the benchmark asks on one device."""

    title: str
    device: str
    split: str
    asks: str
    shipped: tuple[str, ...] = ()
    """Models in the package that held out its workloads."""


ANY_CPU = ("any-cpu-conditioned",)
TRACKS = (
    Track("CPU", "amd-epyc-zen5-2c", "workload-40-seed0", "new workloads of known kinds, on a CPU", ANY_CPU),
    Track("Networks", "amd-epyc-zen5-2c", "network-tenset", "networks that the model has not seen, on the same CPU"),
    Track("Second CPU", "intel-xeon-icelake-2c", "workload-40-seed0", "the CPU track on another maker's chip", ANY_CPU),
    Track("GPU", "nvidia-h200", "fold-5", "new workloads on a GPU, from few measurements"),
)
BASELINES = {
    ("noise ceiling", "", ""): ("noise ceiling", "the truth, measured once more"),
    ("random", "", ""): ("random order", "-"),
    ("TVM recipe", "", "per_store@1"): ("TVM's recipe", "per_store@1"),
    ("TenSet recipe", "", "per_store@1"): ("TenSet's recipe", "per_store@1"),
}
"""(model, objective, features) of a row of the results -> name, features."""
MODELS = {
    ("gbt", "log", "tiles@1"): ("`gbt`", "tiles@1"),
    ("mlp", "gap", "tiles@1"): ("`mlp`", "tiles@1"),
    ("blend", "", "tiles@1"): ("`blend`", "tiles@1"),
    ("treegru", "gap", "loop_context@1"): ("`treegru`", "loop_context@1"),
    ("tokens", "gap", "trace_tokens@1"): ("`tokens` (TLP)", "trace_tokens@1"),
    ("conditioned", "", "tiles@1"): ("`conditioned`, six devices", "tiles@1"),
}
"""The same of costhub's architectures, each with its default objective."""


def leaderboard(result: Result, track: Track) -> list[dict[str, Any]]:
    """The rows of a track, the best top-1 first: name, features, means over workloads and seeds, standard errors.

    Args:
        result: `model_comparison.json`, whose `summary` has a row per device, split and model.
        track: The track.
    """
    rows = []
    for row in result["summary"]:
        key = (row["model"], row["objective"], row["spec"])
        known = {**BASELINES, **MODELS}.get(key)
        is_plain = row["variant"] in ("", "all devices, blend") and not row["also"]
        if known and is_plain and (row["device"], row["split"]) == (track.device, track.split):
            name, features = known
            kept = {metric: row[metric] for metric in METRICS}
            errors = {f"{metric}_se": row[f"{metric}_se"] for metric in METRICS}
            shared = {"name": name, "features": features, "seeds": row["seeds"], "workloads": row["workloads"]}
            rows.append({**shared, "is_baseline": key in BASELINES, **kept, **errors})
    return sorted([*rows, *shipped_rows(track)], key=lambda row: -row["top_1"])


def shipped_rows(track: Track) -> list[dict[str, Any]]:
    """The rows of the models in the package, each trained once, on the workloads that all of them held out."""
    held_out = {name: _held_out(name, track.device) for name in track.shipped}
    common = sorted(set.intersection(*(set(each) for each in held_out.values()))) if held_out else []
    rows = []
    for name, by_workload in held_out.items():
        config = json.loads((EMBEDDED / "models" / "costhub" / name / "config.json").read_text(encoding="utf-8"))
        row = {"name": f"`{name}`, shipped", "features": config["feature_spec"], "seeds": 1, "workloads": len(common)}
        for metric in METRICS:
            row[metric], row[f"{metric}_se"] = mean_with_error([by_workload[each][metric] for each in common])
        rows.append({**row, "is_baseline": False})
    return rows


def _held_out(model: str, device: str) -> dict[str, Mapping[str, float]]:
    """Workload -> figures of a model in the package."""
    path = EMBEDDED / "models" / "costhub" / model / EVALUATION
    rows = json.loads(path.read_text(encoding="utf-8"))["workloads"]
    return {row["workload_id"]: row for row in rows if row["device_id"] == device}


def benchmark_table(result: Result) -> str:
    """A table for each track; the best model of a column, baselines apart from the ceiling included, is bold."""
    parts = []
    for track in TRACKS:
        rows = leaderboard(result, track)
        ranked = [row for row in rows if row["name"] != "noise ceiling"]
        best = {metric: max(row[metric] for row in ranked) for metric in METRICS}
        shown = [{**row, **{metric: _cell(row, metric, best[metric]) for metric in METRICS}} for row in rows]
        columns = [
            TableColumn("name", "model"),
            TableColumn("features", "features"),
            *(TableColumn(metric, metric.replace("_", "-"), align="right") for metric in METRICS),
            TableColumn("seeds", "seeds", align="right"),
        ]
        title = f"**{track.title}**: `{track.device}`, `{track.split}`, {rows[0]['workloads']} workloads ({track.asks})"
        parts.append(f"{title}\n\n{markdown_table(shown, columns)}")
    return "\n\n".join(parts)


def _cell(row: Mapping[str, Any], metric: str, best: float) -> str:
    text = f"{row[metric]:.3f}"
    bold = f"**{text}**" if text == f"{best:.3f}" and row["name"] != "noise ceiling" else text
    return f"{bold} ± {row[f'{metric}_se']:.3f}"


BENCHMARK_TABLES: dict[str, Callable[[Result], str]] = {"benchmark": benchmark_table}
BENCHMARK_VIEWS = {"benchmark": "model_comparison"}
