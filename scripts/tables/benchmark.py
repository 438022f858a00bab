"""Tables of the benchmark of cost models, one per track, and of that of latency estimates."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costhub.cards.tables import TableColumn, markdown_table, number
from costhub.hub.catalogue.hubs import EMBEDDED, EVALUATION
from scripts.tables.gains import mean_with_error
from scripts.tables.models.comparison import summaries

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
    Track(
        "Second CPU",
        "intel-xeon-graniterapids-2c",
        "workload-40-seed0",
        "the CPU task on another maker's chip",
        ANY_CPU,
    ),
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


def hidden_table(result: Result) -> str:
    """The submissions to a task with hidden latencies, the best first, with standard errors over the workloads."""
    lines = []
    for row in result["rows"]:
        line = {"model": row["model"], "trained_on": _devices(row["trained_on"]), "seconds": row["seconds"]}
        for metric in METRICS:
            mean, error = mean_with_error(row["by_workload"][metric])
            line[metric] = f"{mean:.3f} ± {error:.3f}"
        lines.append({**line, "level": "yes" if row["level"] else "no"})
    columns = [
        TableColumn("model", "model"),
        TableColumn("trained_on", "trained on"),
        *(TableColumn(metric, metric.replace("_", "-"), align="right") for metric in ("top_1", "pairwise", "top_5")),
        TableColumn("level", "level"),
        number("seconds", "seconds to submit", ".1f"),
    ]
    return markdown_table(lines, columns)


def _devices(trained_on: str) -> str:
    devices = trained_on.split(", ")
    return trained_on if len(devices) == 1 else f"{len(devices)} devices"


BENCHMARK_TABLES: dict[str, Callable[[Result], str]] = {"benchmark": benchmark_table, "hidden": hidden_table}
BENCHMARK_VIEWS = {"benchmark": "model_comparison"}
MORE_TABLES: dict[str, Callable[[Path], str]] = {"benchmark_gpus": more_tables}
"""Name of a place -> its renderer, which takes the folder of the results."""


FAMILIES = {"cpu": "CPUs", "gpu": "GPUs"}
TESTS = {"workloads": "new workloads, known devices", "device": "new devices", "chip": "new chips, all their parts"}
_OFF = (
    TableColumn("median", "off by, median", ".0%", "right"),
    TableColumn("p90", "9 in 10 within", ".0%", "right"),
    TableColumn("near", "within 15 %", ".0%", "right"),
)
_COVERS = tuple(
    TableColumn(f"cover_{share}", f"in {share} % interval", ".0%", "right", is_detail=True) for share in (50, 80, 90)
)


def kernels_table(result: Result) -> str:
    """One line per family and model: kernels of workloads that the predictor has not learned from."""
    rows = [row for row in result["rows"] if row["test"] == "workloads" and row["device"] in FAMILIES]
    again = {row["family"]: {"model": "another search", **row} for row in result["two_searches"]}
    lines = []
    for family, name in FAMILIES.items():
        own = [row for row in rows if row["device"] == family] + [again[family]]
        lines += [{**row, "family": f"{name}, {row['n']} kernels"} for row in own]
    columns = (TableColumn("family", "devices"), TableColumn("model", "model"), *_OFF, *_COVERS)
    return markdown_table(lines, columns)


def short_searches_table(result: Result) -> str:
    """One line per family and number of trials, with intervals as they are and as wide as for long searches."""
    lines = [{**row, "family": f"{FAMILIES[row['family']]}, {row['n']} kernels"} for row in result["short_searches"]]
    as_long = TableColumn("cover_90_of_64", "in 90 % interval of 64 trials", ".0%", "right")
    columns = (TableColumn("family", "devices"), number("trials", "trials", "d"), *_OFF, *_COVERS, as_long)
    return markdown_table(lines, columns)


def devices_table(result: Result) -> str:
    """One line per device: off by, on new workloads, and on the device left out alone and with its chip."""
    chosen = [row for row in result["rows"] if row["model"] == "predictor" and row["device"] not in FAMILIES]
    lines = []
    for device in sorted({row["device"] for row in chosen}):
        own = {row["test"]: row for row in chosen if row["device"] == device}
        line: dict[str, Any] = {"name": f"`{device}`"}
        for test in TESTS:
            row = own.get(test)
            line[test] = f"{row['median']:.0%} / {row['p90']:.0%} / {row['cover_90']:.0%}" if row else None
        lines.append(line)
    columns = [TableColumn("name", "median off / 9 in 10 within / in 90 % interval")]
    return markdown_table(
        lines, [*columns, *(TableColumn(test, title, align="right") for test, title in TESTS.items())]
    )


def new_chips_table(result: Result) -> str:
    """One line per family and model, averaged over the chips left out."""
    rows = [row for row in result["rows"] if row["test"] == "chip" and row["device"] in FAMILIES]
    lines = []
    for family, name in FAMILIES.items():
        for model in dict.fromkeys(row["model"] for row in rows):
            own = [row for row in rows if (row["device"], row["model"]) == (family, model)]
            keys = [column.key for column in (*_OFF, *_COVERS) if column.key in own[0]]
            means = {key: sum(row[key] for row in own) / len(own) for key in keys}
            lines.append({"family": f"{name}, mean of {len(own)} chips", "model": model, **means})
    columns = (TableColumn("family", "devices"), TableColumn("model", "model"), *_OFF, *_COVERS)
    return markdown_table(lines, columns)


def networks_table(result: Result) -> str:
    """Per family, sums over the measured kernels of networks that were held out whole, and those of another search."""
    again = {row["family"]: row for row in result.get("two_sums", ())}  # older results have none
    lines = []
    for row in result["network_summary"]:
        sums = f"{FAMILIES[row['family']]}, {row['networks']} networks, {row['n']} sums"
        lines.append({**row, "family": sums})
        if row["family"] in again:
            lines.append({**again[row["family"]], "family": f"{sums}: another search"})
    return markdown_table(lines, (TableColumn("family", "devices"), *_OFF, *_COVERS))


def each_network_table(result: Result) -> str:
    """One line per network: predicted over measured, less 1, on each CPU."""
    rows: Sequence[Mapping[str, Any]] = result["networks"]
    networks, devices = ([*dict.fromkeys(row[key] for row in rows)] for key in ("network", "device"))
    lines = []
    for network in networks:
        own = {row["device"]: row for row in rows if row["network"] == network}
        cells = {name: f"{row['predicted_us'] / row['measured_us'] - 1:+.0%}" for name, row in own.items()}
        kernels = max(row["kernels"] for row in own.values())
        lines.append({"network": network, "kernels": kernels, **cells})
    columns = [TableColumn("network", "network"), number("kernels", "kernels", "d")]
    return markdown_table(lines, [*columns, *(TableColumn(name, f"`{name}`", align="right") for name in devices)])


def whole_networks_table(result: Result) -> str:
    """One line per network: the estimate beside what tuned networks took."""
    lines = [
        {
            **row,
            "interval": f"{row['low_ms']:.1f} to {row['high_ms']:.1f}",
            "took": f"{row['fastest_ms']:.1f} to {row['slowest_ms']:.1f}",
        }
        for row in result["rows"]
    ]
    columns = (
        TableColumn("network", "network"),
        TableColumn("method", "searches"),
        TableColumn("measured_share", "from measurements", ".0%", "right"),
        number("estimate_ms", "estimate (ms)", ".1f"),
        TableColumn("interval", "90 % interval", align="right"),
        TableColumn("took", "tuned networks took (ms)", align="right"),
        TableColumn("off", "off", "+.0%", "right"),
    )
    return markdown_table(lines, columns)


ESTIMATE_TABLES: dict[str, Callable[[Result], str]] = {
    "estimates": kernels_table,
    "estimates_trials": short_searches_table,
    "estimates_devices": devices_table,
    "estimates_chips": new_chips_table,
    "estimates_networks": networks_table,
    "estimates_each_network": each_network_table,
    "whole_estimates": whole_networks_table,
}
ESTIMATE_VIEWS = dict.fromkeys([name for name in ESTIMATE_TABLES if name.startswith("estimates_")], "estimates")
"""Name of a view -> the file whose figures it shows."""
