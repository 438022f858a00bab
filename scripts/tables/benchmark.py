"""Tables of the benchmark of cost models: one per track, the models in the order of their top-1."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costhub.cards.tables import TableColumn, markdown_table
from costhub.hub.catalogue.hubs import EMBEDDED, EVALUATION
from scripts.tables.gains import mean_with_error
from scripts.tables.models import summaries

Result = Mapping[str, Any]
METRICS = ("top_1", "top_5", "pairwise")
_PLAIN = re.compile(r"|all devices, blend|\d+ of each workload")
"""Variants that tables show under the plain name of a model; the last learns from as many as shipped ones do."""


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
MORE_TRACKS = (
    Track(
        "A100",
        "nvidia-a100",
        "workload-18-seed0",
        "new workloads on a GPU, from many measurements",
        ("nvidia-a100-mlp", "nvidia-a100-gbt", "nvidia-a100-blend", "any-gpu-conditioned"),
    ),
    *(
        Track(
            name,
            device,
            "workload-12-seed0",
            "new workloads on a GPU, with latencies of Ansor",
            (f"{device}-blend", "any-gpu-conditioned"),
        )
        for name, device in (("V100", "nvidia-v100"), ("K80", "nvidia-k80"), ("MI50", "amd-mi50"))
    ),
)
"""Not part of the benchmark, but models in the package were evaluated there, beside recipes of others."""
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
        is_plain = _PLAIN.fullmatch(row["variant"]) and not row["also"]
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
    return _tables(result, TRACKS)


def more_summaries(results: Path) -> Result:
    """The lines of models.jsonl on `MORE_TRACKS`, in the form of `model_comparison.json`."""
    places = {(track.device, track.split) for track in MORE_TRACKS}
    lines = map(json.loads, (results / "models.jsonl").read_text(encoding="utf-8").splitlines())
    return {"summary": summaries(line for line in lines if (line["device"], line["split"]) in places)}


def more_tables(results: Path) -> str:
    """As `benchmark_table`, of the tracks that are not part of the benchmark."""
    return _tables(more_summaries(results), MORE_TRACKS)


def _tables(result: Result, tracks: Sequence[Track]) -> str:
    parts = []
    for track in tracks:
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
MORE_TABLES: dict[str, Callable[[Path], str]] = {"benchmark_gpus": more_tables}
"""Name of a place -> its renderer, which takes the folder of the results."""
