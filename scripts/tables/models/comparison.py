"""Tables of cost models: how they compare, and what training them costs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from costhub.cards.tables import TableColumn, markdown_table, number
from costhub.models.evaluate import METRICS
from scripts.tables.gains import mean_with_error

Result = Mapping[str, Any]
Row = Mapping[str, Any]


OLD_VARIANTS = {"2 x 512 (Moses)": "hidden 512"}
"""Variant in older results -> what it is: costhub's own network of that width, and not Moses'."""
_PLACE = ("dataset", "device", "split")
_KEYS = ("dataset", "device", "split", "also", "model", "objective", "spec", "variant")
LITERATURE = {
    "top_1_tenset": "top-1, TenSet's way",
    "top_5_tenset": "top-5, TenSet's way",
    "top_1_tlp": "top-1, TLP's way",
    "top_5_tlp": "top-5, TLP's way",
}
"""Metric -> title: totals over held-out networks, weighted by how often each runs a workload."""
DEVICE_INPUTS = {
    "told nothing": "none",
    "told numbers": "figures",
    "told numbers and relations": "figures and ratios",
    "trained on this device": "(trained on this device)",
}
"""Method of the benchmark `conditioned` -> what the model is given about the device."""
HEADLINE = ("TVM recipe", "TenSet recipe", "blend")
"""The recipes of others, and the best model that learns from one device alone."""
_COMPARED = (
    TableColumn("name", "model"),
    TableColumn("spec", "features"),
    *(TableColumn(f"{name}_text", name.replace("_", "-"), align="right") for name in METRICS),
    number("top_1_std", "std of top-1 over seeds"),
    number("train_s", "training (s)", ",.0f"),
    number("predictions_per_s", "predictions / s", ",.0f"),
    number("kib", "size (KiB)", ",.0f"),
    number("seeds", "seeds", "d"),
)
_RATES = ("train_s", "predictions_per_s")
TRAINING_COLUMNS = (
    TableColumn("stage", "stage"),
    number("programs", "programs", ",d"),
    number("passes", "trees or epochs", "d"),
    number("seconds", "seconds", ",.1f"),
    number("per_s", "programs x passes / s", ",.0f"),
    number("peak_gib", "peak (GiB)", ".2f"),
    number("top_1", "top-1"),
    number("pairwise", "pairwise"),
    TableColumn("ended", "ended by"),
)
"""Columns of the rows of the benchmark `training`."""


def summaries(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """One summary per dataset, device, split, further data, model, objective, spec and variant.

    Args:
        rows: As the benchmark `models` writes them: totals of one seed, and `by_workload`, the figures of
            each workload in the order of its `workload_ids`. Folds of one split and seed are put together;
            a seed without all of its folds is left out, since folds differ in difficulty.

    Returns:
        Each metric's mean over workloads and seeds, `_std` over seeds and `_se`, the standard error over
        workloads of their means over seeds; medians of time, rate and size.
    """
    cells: dict[tuple[str, ...], list[Row]] = {}
    for row in of_whole_seeds(list(rows)):
        cells.setdefault(texts_of(row, _KEYS), []).append(row)
    return [{**dict(zip(_KEYS, cell, strict=True)), **_summary(own)} for cell, own in cells.items()]


def of_whole_seeds(rows: Sequence[Row]) -> list[Row]:
    """The rows of every seed that has all folds of its split."""
    folds: dict[tuple[str, ...], set[int]] = {}
    done: dict[tuple[str, ...], set[int]] = {}
    for row in rows:
        folds.setdefault(texts_of(row, _PLACE), set()).add(row["fold"])
        done.setdefault(texts_of(row, (*_KEYS, "seed")), set()).add(row["fold"])
    return [row for row in rows if done[texts_of(row, (*_KEYS, "seed"))] == folds[texts_of(row, _PLACE)]]


def texts_of(row: Row, keys: Iterable[str]) -> tuple[str, ...]:
    """The values of some keys as texts, an older variant by its name of today."""
    texts = ((key, str(row.get(key, ""))) for key in keys)
    return tuple(OLD_VARIANTS.get(text, text) if key == "variant" else text for key, text in texts)


def _summary(rows: Sequence[Row]) -> dict[str, Any]:
    seeds = sorted({row["seed"] for row in rows})
    line: dict[str, Any] = {"seeds": len(seeds), "rows": len(rows)}
    for name in METRICS:
        by_seed = {seed: _values([row for row in rows if row["seed"] == seed], name) for seed in seeds}
        means = [statistics.fmean(v for _, v in values) for values in by_seed.values()]
        by_workload: dict[str, list[float]] = {}
        for workload, value in (pair for values in by_seed.values() for pair in values):
            by_workload.setdefault(workload, []).append(value)
        per_workload = [statistics.fmean(values) for values in by_workload.values()]
        line[name] = statistics.fmean(means)
        line[f"{name}_std"] = statistics.stdev(means) if len(means) > 1 else None
        line[f"{name}_se"] = mean_with_error(per_workload)[1]
        line["workloads"] = len(per_workload)
    for name in LITERATURE:
        present = [row[name] for row in rows if row.get(name) is not None]
        line |= {name: statistics.fmean(present)} if present else {}
    for name in ("train_s", "predictions_per_s", "bytes"):
        present = [row[name] for row in rows if row.get(name) is not None]
        line[name] = statistics.median(present) if present else None
    return line


def _values(rows: Iterable[Row], name: str) -> list[tuple[str, float]]:
    """(workload, value) of every fold."""
    return [pair for row in rows for pair in zip(row["workload_ids"], row["by_workload"][name], strict=True)]


def comparison_table(result: Result) -> str:
    """For every dataset, device and split: one line per model, the best top-1 first."""
    summary = result.get("summary") or summaries(result["rows"])
    places = list(dict.fromkeys((row["dataset"], row["device"], row["split"]) for row in summary))
    parts = []
    for place in places:
        own = [row for row in summary if (row["dataset"], row["device"], row["split"]) == place]
        own.sort(key=lambda row: -row["top_1"])
        title = f"**{place[1]}**, split `{place[2]}`, {own[0]['workloads']} workloads"
        # Rates that were taken beside other work are left out of the rows.
        columns = [each for each in _COMPARED if each.key not in _RATES or any(row.get(each.key) for row in own)]
        parts.append(f"{title}\n\n{markdown_table([_shown(row) for row in own], columns)}")
    return "\n\n".join(parts)


def literature_table(result: Result) -> str:
    """One line per model of a split by network: the totals that papers report."""
    rows = [
        {**row, "model": " ".join(filter(None, texts_of(row, ("model", "objective", "spec", "variant"))))}
        for row in result["summary"]
        if row["split"].startswith("network-") and LITERATURE.keys() <= row.keys()
    ]
    columns = [TableColumn("device", "device"), TableColumn("model", "model")]
    columns += [number(name, title, ".3f") for name, title in LITERATURE.items()]
    return markdown_table(sorted(rows, key=lambda row: -row["top_1_tlp"]), columns)


def model_headline_table(result: Result) -> str:
    """The overview of `HEADLINE`, without further data."""
    chosen = [row for row in result["summary"] if row["model"] in HEADLINE and not row.get("also")]
    return overview_table({"summary": chosen})


def overview_table(result: Result) -> str:
    """One line per device and split, one column per model: top-1 / top-5 / pairwise.

    Each architecture is shown with the objective and features of the highest mean top-1 among those that
    were tried everywhere; rows with further data may lack some of them.
    """
    places: dict[tuple[str, ...], dict[tuple[str, ...], Row]] = {}
    for row in result["summary"]:
        own_forms = places.setdefault(texts_of(row, ("device", "split", "also")), {})
        own_forms[texts_of(row, ("model", "objective", "spec", "variant"))] = row
    forms = _best_forms([by_form for place, by_form in places.items() if not place[2]])
    rows = [
        {
            "place": ", ".join([*place[:2], *([f"with {place[2]}"] if place[2] else [])]),
            **{str(form): short_metrics(by_form[form]) for form in forms if form in by_form},
        }
        for place, by_form in places.items()
    ]
    columns = [TableColumn("place", "device, split")]
    columns += [TableColumn(str(form), " ".join(filter(None, form)), align="right") for form in forms]
    return markdown_table(rows, columns)


def _best_forms(places: Sequence[Mapping[tuple[str, ...], Row]]) -> list[tuple[str, ...]]:
    """The form of every model with the highest mean top-1, the worst model first."""
    everywhere = [form for form in places[0] if all(form in place for place in places)] if places else []
    mean = {form: statistics.fmean(place[form]["top_1"] for place in places) for form in everywhere}
    best: dict[str, tuple[str, ...]] = {}
    for form in sorted(everywhere, key=lambda form: mean[form]):
        best[form[0]] = form
    return sorted(best.values(), key=lambda form: mean[form])


def short_metrics(row: Row) -> str:
    """Top-1, top-5 and pairwise in one cell."""
    return " / ".join(f"{row[name]:.3f}" for name in ("top_1", "top_5", "pairwise"))


def _shown(row: Row) -> dict[str, Any]:
    more = f"with {row['also']}" if row["also"] else ""
    model = " ".join(part for part in (*texts_of(row, ("model", "objective", "variant")), more) if part)
    return {
        **row,
        "name": model,
        **{f"{name}_text": plus_minus(row[name], row[f"{name}_se"]) for name in METRICS},
        "kib": None if row["bytes"] is None else row["bytes"] / 1024,
    }


def plus_minus(value: float, error: float | None) -> str:
    """A mean with its standard error: ``0.912 ± 0.013``."""
    return f"{value:.3f}" if error is None else f"{value:.3f} ± {error:.3f}"


def paired_table(result: Result) -> str:
    """One line per question, device and split: differences of two models on the same workloads, by metric."""
    lines: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in result["pairs"]:
        line = lines.setdefault(texts_of(row, ("question", "device", "split", "also")), dict(row))
        line[row["metric"]] = f"{row['difference']:+.3f} ± {row['standard_error']:.3f}"
    metrics = list(dict.fromkeys(row["metric"] for row in result["pairs"]))
    columns = [
        TableColumn("question", "difference"),
        TableColumn("device", "device"),
        TableColumn("split", "split"),
        *(TableColumn(name, name.replace("_", "-"), align="right") for name in metrics),
        number("workloads", "workloads", "d"),
    ]
    return markdown_table(list(lines.values()), columns)


def calibration_table(result: Result) -> str:
    """One line per device and member: nominal and actual coverage, and spread against error."""
    levels = list(result["rows"][0]["covered"])
    rows = [{**row, **{f"at {level}": row["covered"][level] for level in levels}} for row in result["rows"]]
    columns = [
        TableColumn("device", "device"),
        TableColumn("member", "members"),
        *(number(f"at {level}", f"within the {float(level):.0%} interval", ".2f") for level in levels),
        number("rank_correlation", "spread against error (spearman)", ".2f"),
        number("ratio", "error / spread", ".2f"),
    ]
    return markdown_table(rows, columns)


def curves_table(result: Result) -> str:
    """One line per method and device: the ends of its curve."""
    rows = [
        {
            **row,
            "first": plus_minus(row["y"][0], row["se"][0]),
            "middle": plus_minus(row["y"][len(row["y"]) // 2], row["se"][len(row["y"]) // 2]),
            "last": plus_minus(row["y"][-1], row["se"][-1]),
            "x_range": " / ".join(f"{row['x'][i]:,g}" for i in (0, len(row["x"]) // 2, -1)),
        }
        for row in result["curves"]
    ]
    columns = [
        TableColumn("device", "device"),
        TableColumn("label", "method"),
        TableColumn("x_range", result["x"], align="right"),
        TableColumn("first", result["y"], align="right"),
        TableColumn("middle", "", align="right"),
        TableColumn("last", "", align="right"),
    ]
    return markdown_table(rows, columns)


def learning_table(result: Result) -> str:
    """Per device and split, a line for each size of what was learned from; then the slopes of the curves."""
    parts = []
    for device, split in dict.fromkeys((row["device"], row["split"]) for row in result["learned"]):
        own = [row for row in result["learned"] if (row["device"], row["split"]) == (device, split)]
        own.sort(key=lambda row: (row["kind"], row[row["kind"]]))
        lines: dict[tuple[str, ...], dict[str, Any]] = {}
        for row in own:
            line = lines.setdefault(texts_of(row, ("kind", "size")), {**row, "part": f"{row['kind']} {row['size']}"})
            for metric in _CURVES:
                line[f"{row['label']}, {metric}"] = plus_minus(row[metric], row[f"{metric}_se"])
        columns = [TableColumn("part", "learned from"), number("programs", "programs", ",.0f")]
        columns += [number("workloads", "workloads", ",.0f"), number("seeds", "seeds", "d")]
        columns += [
            TableColumn(f"{label}, {metric}", f"{label}, {title}", align="right")
            for label in dict.fromkeys(row["label"] for row in own)
            for metric, title in _CURVES.items()
        ]
        title = f"**{device}**, split `{split}`, {own[0]['tested']} workloads"
        parts.append(f"{title}\n\n{markdown_table(list(lines.values()), columns)}")
    return "\n\n".join([*parts, slopes_table(result)])


def slopes_table(result: Result) -> str:
    """One line per learning curve: what a doubling of the data gives near the end of the curve, and before."""
    lines: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in result["slopes"]:
        line = lines.setdefault(texts_of(row, ("device", "split", "label", "kind")), dict(row))
        error = "" if row["standard_error"] is None else f" ± {row['standard_error']:.1f}"
        line[f"{row['metric']}, {row['part']}"] = f"{row['points']:+.1f}{error}"
    titles = {"device": "device", "split": "split", "label": "model", "kind": "a doubling of the"}
    columns = [TableColumn(key, title) for key, title in titles.items()]
    columns += [
        TableColumn(f"{metric}, {part}", f"{title}, {part}", align="right")
        for metric, title in _CURVES.items()
        for part in dict.fromkeys(row["part"] for row in result["slopes"])
    ]
    return markdown_table(list(lines.values()), columns)


_CURVES = {"top_1": "top-1", "pairwise": "pairs"}


def unseen_device_table(result: Result) -> str:
    """One line per test, base and method: figures on devices that were left out of the training."""
    columns = [
        TableColumn("test", "on the device left out"),
        TableColumn("base", "base"),
        TableColumn("method", "device input"),
        *(part for m in ("top_1", "top_5", "pairwise") for part in (number(m, m), number(f"{m}_std", "std"))),
    ]
    counts = [len({row[key] for row in result["rows"]}) for key in ("device", "seed")]
    note = f"Means over {counts[0]} devices left out in turn and {counts[1]} seeds; std is that of devices."
    rows = [{**row, "method": DEVICE_INPUTS.get(row["method"], row["method"])} for row in result["summary"]]
    return f"{markdown_table(rows, columns)}\n\n{note}"


def unseen_chip_table(result: Result) -> str:
    """One line per model, with the figures on each device of the chip: means over seeds."""
    rows: Sequence[Row] = result["rows"]
    devices = list(dict.fromkeys(row["device"] for row in rows))
    lines = []
    for model in dict.fromkeys(row["model"] for row in rows):
        line = {"model": model.removeprefix("costhub/")}
        for device in devices:
            own = [row for row in rows if (row["device"], row["model"]) == (device, model)]
            means = [statistics.fmean(row[metric] for row in own) for metric in ("top_1", "top_5", "pairwise")]
            line[device] = " / ".join(f"{mean:.3f}" for mean in means)
        lines.append(line)
    columns = [TableColumn("model", "top-1 / top-5 / pairwise"), *(TableColumn(d, d, align="right") for d in devices)]
    seeds = len({row["seed"] for row in rows if row["seed"] is not None})
    note = f"{rows[0]['workloads']} workloads. Models of the device itself are means over {seeds} seeds."
    return f"{markdown_table(lines, columns)}\n\n{note}"


def layouts_table(result: Result) -> str:
    """One line per training set, with the figures on the held-out kernels of each split and device."""
    rows: Sequence[Row] = result["rows"]
    kind = next(name.removesuffix("_workloads") for row in rows for name in row if name.endswith("_workloads"))
    places = sorted({(row["split"], row["device"]) for row in rows})
    lines = []
    for learned in dict.fromkeys(row["learned"] for row in rows):
        line = {"learned": learned}
        for place in places:
            own = [row for row in rows if (row["split"], row["device"], row["learned"]) == (*place, learned)]
            means = [statistics.fmean(row[metric] for row in own) for metric in ("top_1", "top_5", "pairwise")]
            line["/".join(place)] = " / ".join(f"{mean:.3f}" for mean in means)
            line["count"] = own[0].get(f"{kind}_workloads")
        lines.append(line)
    columns = [
        TableColumn("learned", "learned from"),
        number("count", f"{kind} workloads of the chip", "d"),
        *(TableColumn("/".join(p), f"{p[1].split('-')[-1]}, {KERNELS[p[0]]}", align="right") for p in places),
    ]
    errors = [row["standard_error"] for row in rows if "standard_error" in row]
    note = f"Top-1 / top-5 / pairwise. The standard errors of top-1 are {min(errors):.3f} to {max(errors):.3f}."
    return f"{markdown_table(lines, columns)}\n\n{note}"


KERNELS = {
    "bfloat16-40-seed0": "bfloat16",
    "blocked-40-seed0": "blocked layouts",
    "workload-40-seed0": "plain layouts",
}
"""Split -> what its tested kernels are in."""


MODEL_TABLES: dict[str, Callable[[Result], str]] = {
    "model_comparison": comparison_table,
    "model_headline": model_headline_table,
    "model_literature": literature_table,
    "model_overview": overview_table,
    "model_ablations": comparison_table,
    "model_ablations_validation": comparison_table,
    "model_transfer": comparison_table,
    "model_configuration": comparison_table,
    "model_pairs": paired_table,
    "model_calibration": calibration_table,
    "model_search": curves_table,
    "model_search_genetic": curves_table,
    "model_learning": curves_table,
    "model_learning_joint": learning_table,
    "model_learning_emeraldrapids": learning_table,
    "model_unseen_device": unseen_device_table,
    "model_new_chip": unseen_device_table,
    "unseen_chip": unseen_chip_table,
    "unseen_zen3": unseen_chip_table,
    "unseen_emeraldrapids": unseen_chip_table,
    "layouts": layouts_table,
    "bfloat16_kernels": layouts_table,
}
"""Name of a result file without its suffix, or of a view of one -> its renderer."""

MODEL_VIEWS = {
    **dict.fromkeys(("model_headline", "model_literature", "model_overview"), "model_comparison"),
}
"""Name of a view -> the file whose figures it shows."""


def training_table(result: Mapping[str, Any]) -> str:
    """One line per stage."""
    shown = [c for c in TRAINING_COLUMNS if c.key != "ended" or any("ended" in row for row in result["rows"])]
    return markdown_table(result["rows"], shown)
