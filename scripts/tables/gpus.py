"""Tables of transfers to devices that a hub did not know: between GPUs, and to a new chip."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from costhub.cards.tables import TableColumn, markdown_table, number
from costhub.papers.moses import CoefficientOfVariation
from costhub.search.scheduler import TrialBatch
from costhub.terminal_text import counted
from scripts.tables.transfer import EVERYTHING, METRICS

TOLD, POOLED = "any-gpu", "pooled"
"""Sources that are models of the other four devices: with the figures of each as input, and without."""
_FROM_NOTHING = "scratch blend"
FEW, MANY = 256, 2560
"""Adapting with FEW trials is set beside MANY from nothing: what a tenth of the measurements is worth."""
_Line = Mapping[str, Any]


def gpu_transfer_table(result: Mapping[str, Any]) -> str:
    """Two tables: unchanged models of each device on each other one, and what trials on the target add."""
    lines: Sequence[_Line] = result["summary"]
    targets = list(dict.fromkeys(line["target"] for line in lines))
    seeds = max(line["seeds"] for line in lines)
    note = f"Top-1 / top-5 / pairwise of unchanged models, means over {seeds} seed{'s' if seeds > 1 else ''}."
    parts = [_matrix(lines, targets), note, _gains(lines), "Share of the pairs in the right order.", *_tenth(lines)]
    return "\n\n".join(parts)


def _matrix(lines: Sequence[_Line], targets: Sequence[str]) -> str:
    """One line per source; the device's own model is on the diagonal, in italics."""
    cells = {(line["source"], line["target"]): _cell(line) for line in lines if line["method"] == "frozen"}
    cells |= {(line["target"],) * 2: f"*{_cell(line)}*" for line in lines if line["method"] == EVERYTHING}
    cells |= {("random order", line["target"]): _cell(line) for line in lines if line["method"] == "random"}
    said = {TOLD: "the other four, with each GPU's figures", POOLED: "the other four, without figures"}
    sources = [*targets, *said, "random order"]
    rows = [
        {"source": said.get(source, source), **{target: cells.get((source, target), "-") for target in targets}}
        for source in sources
    ]
    columns = [TableColumn("source", "model of"), *(TableColumn(t, f"on {t}", align="right") for t in targets)]
    return markdown_table(rows, columns)


def _gains(lines: Sequence[_Line]) -> str:
    """One line per pair: pairwise after the numbers of trials, by each method."""
    value = {(line["source"], line["target"], line["method"], line["trials"]): line["pairwise"] for line in lines}
    methods = list(dict.fromkeys(line["method"] for line in lines if line["source"] and line["trials"]))
    trials = {
        # `corrected` after FEW is in the next table, beside MANY from nothing.
        name: sorted(
            {line["trials"] for line in lines if line["method"] == name} - {0, FEW * (name == "corrected"), MANY}
        )
        for name in (*methods, _FROM_NOTHING)
    }
    rows = []
    for source, target in dict.fromkeys((line["source"], line["target"]) for line in lines if line["trials"]):
        if not source:
            continue
        row = {"pair": f"{source} to {target}", "frozen": f"{value[source, target, 'frozen', 0]:.3f}"}
        for method in (*methods, _FROM_NOTHING):
            start = "" if method == _FROM_NOTHING else source
            shares = [value.get((start, target, method, count)) for count in trials[method]]
            row[method] = " / ".join("-" if share is None else f"{share:.3f}" for share in shares)
        rows.append(row)
    columns = [TableColumn("pair", "from, to"), TableColumn("frozen", "unchanged", align="right")]
    titles = {name: f"{name}, {' / '.join(map(str, counts))} trials" for name, counts in trials.items()}
    columns += [TableColumn(name, title, align="right") for name, title in titles.items()]
    return markdown_table(rows, columns)


def _tenth(lines: Sequence[_Line]) -> list[str]:
    """A table of pairs where a source was adapted with a tenth of the trials of a model from nothing; or none."""
    few = [line for line in lines if _of(line, "corrected", FEW)]
    if not few:
        return []
    frozen = {(line["source"], line["target"]): line["pairwise"] for line in lines if line["method"] == "frozen"}
    many = {line["target"]: line for line in lines if _of(line, _FROM_NOTHING, MANY)}
    alone = {line["target"]: line for line in lines if _of(line, _FROM_NOTHING, FEW)}
    rows = [
        {
            "pair": f"{line['source']} to {line['target']}",
            "frozen": frozen[line["source"], line["target"]],
            "few": _shares(line),
            "alone": _shares(alone.get(line["target"])),
            "many": _shares(other),
            "reached": "-" if other is None else "yes" if line["pairwise"] >= other["pairwise"] else "no",
        }
        for line in few
        for other in (many.get(line["target"]),)
    ]
    columns = [TableColumn("pair", "from, to"), number("frozen", "unchanged", ".3f")]
    columns += [TableColumn("few", f"corrected, {FEW:,} trials", align="right")]
    columns += [TableColumn("alone", f"from nothing, {FEW:,} trials", align="right")]
    columns += [TableColumn("many", f"from nothing, {MANY:,} trials", align="right"), TableColumn("reached", "reached")]
    note = f"A dash: the target has fewer than {MANY:,} programs to learn from. ± is the standard error over seeds."
    return [markdown_table(rows, columns), note]


def _of(line: _Line, method: str, trials: int) -> bool:
    return (line["method"], line["trials"]) == (method, trials)


def _shares(line: _Line | None) -> str:
    """The pairs in the right order with their standard error; a dash if there is no such line."""
    return "-" if line is None else f"{line['pairwise']:.3f} ± {line['pairwise_se'] or 0.0:.3f}"


def _cell(line: _Line) -> str:
    return " / ".join(f"{line[metric]:.3f}" for metric in METRICS)


def device_vector_table(result: Mapping[str, Any]) -> str:
    """What device@2 adds for each GPU, and one line for each GPU left out and layout."""
    numbers: Sequence[_Line] = result["numbers"]
    names = [name for name in numbers[0] if name != "device"]
    columns = [TableColumn("device", "GPU"), *(number(name, f"`{name}`", ",d") for name in names)]
    rows = []
    for line in result["summary"]:
        gains = {m: f"{line[f'{m}_gain']:+.3f} ± {line[f'{m}_gain_se'] or 0.0:.3f}" for m in METRICS}
        first = line["layout"] == result["summary"][0]["layout"]
        rows.append({**line, "cell": _cell(line), **{f"{m}_gain": "" if first else gains[m] for m in METRICS}})
    told = [TableColumn("target", "left out"), TableColumn("layout", "told"), number("seeds", "seeds", "d")]
    told += [TableColumn("cell", "top-1 / top-5 / pairwise", align="right")]
    told += [TableColumn(f"{m}_gain", f"{m}, more than with device@1", align="right") for m in METRICS]
    note = (
        f"Both learn from the same programs of the other GPUs, up to {result['each']} of each workload. ± is the "
        "standard error of the differences: over seeds for a GPU (0 for a single seed), over the GPUs for their mean."
    )
    return f"{markdown_table(numbers, columns)}\n\n{markdown_table(rows, told)}\n\n{note}"


def gpu_mixtures_table(result: Mapping[str, Any]) -> str:
    """One line for each choice of what a model learns from."""
    rows: Sequence[_Line] = result["summary"]
    lines = [
        {"form": line["form"], "programs": line["programs"], **{m: _with_error(line, m) for m in METRICS}}
        for line in rows
    ]
    columns = [TableColumn("form", "learns from"), number("programs", "programs", ",d")]
    columns += [TableColumn(name, name, align="right") for name in METRICS]
    note = (
        f"Means over all workloads, each held out once, and over {counted(rows[0]['seeds'], 'division')} into fifths."
    )
    return f"{markdown_table(lines, columns)}\n\n{note}"


def _with_error(line: _Line, metric: str) -> str:
    error = line[f"{metric}_se"]
    return f"{line[metric]:.3f}" + ("" if error is None else f" ± {error:.3f}")


def new_chip_table(result: Mapping[str, Any]) -> str:
    """One table for each device: a line per method, a column per number of trials; means over seeds."""
    rows: Sequence[_Line] = result["rows"]
    return "\n\n".join(
        f"**{device}**, {rows[0]['workloads']} workloads\n\n{_adapted([r for r in rows if r['device'] == device])}"
        for device in dict.fromkeys(row["device"] for row in rows)
    )


def _adapted(rows: Sequence[_Line]) -> str:
    trials = sorted({row["trials"] for row in rows})
    lines = []
    for method in dict.fromkeys(row["method"] for row in rows):
        line = {"method": method}
        for count in trials:
            own = [row for row in rows if (row["method"], row["trials"]) == (method, count)]
            means = (f"{statistics.fmean(row[metric] for row in own):.3f}" for metric in METRICS if own)
            line[str(count)] = " / ".join(means) or "-"
        lines.append(line)
    columns = [TableColumn("method", "top-1 / top-5 / pairwise")]
    columns += [TableColumn(str(count), f"{count:,} trials", align="right") for count in trials]
    return markdown_table(lines, columns)


_Row = dict[str, Any]
MOSES_BASE = "fine-tune"
CONTROLLED = ", controller"
SHARES = (0.5, 0.75)
"""Of the trials: what a search without a controller would give at as many."""
MOSES_COLUMNS = (
    TableColumn("method", "method"),
    number("searches", "searches", "d"),
    number("trials", "trials measured", ".0%"),
    number("latency_gain", "latency gain", ".3f"),
    number("latency_gain_se", "se", ".3f"),
    number("learning_s", "learning (s)", ".1f"),
    number("time_gain", "search-time gain", ".3f"),
    number("cmat", "CMAT (%)", "+.1f"),
    number("cmat_se", "se", ".1f"),
    number("of_best", "best found / best of the pool", ".3f"),
)


@dataclass(frozen=True)
class TrialCosts:
    """What building and running a program takes on each GPU, in seconds."""

    measured_s: Mapping[str, float]
    """GPU -> what its log says."""
    assumed_s: float
    """Of all others."""
    otherwise: str
    """The measured GPU whose seconds are tried too where they are assumed."""

    @classmethod
    def of(cls, result: Mapping[str, Any], assumed_s: float, otherwise: str) -> TrialCosts:
        """The medians over all operators in a result of the benchmark `trial-costs`."""
        measured_s = {row["device"]: row["median_s"] for row in result["rows"] if row["operator"] == "all"}
        return cls(measured_s, assumed_s, otherwise)


def moses_summaries(rows: Sequence[_Row], costs: TrialCosts) -> dict[str, Any]:
    """For each pair of devices, a row for each method and for each with the controller."""
    pairs: list[_Row] = []
    for source, target in dict.fromkeys((row["source"], row["target"]) for row in rows):
        own = [row for row in rows if (row["source"], row["target"]) == (source, target)]
        pair = {"source": source, "target": target, "trial_s": costs.measured_s.get(target, costs.assumed_s)}
        lines = _lines(own, pair["trial_s"])
        if target not in costs.measured_s:
            pair |= {"otherwise": costs.otherwise, "otherwise_s": costs.measured_s[costs.otherwise]}
            for line, other in zip(lines, _lines(own, pair["otherwise_s"]), strict=True):
                line |= {"otherwise_cmat": other["cmat"], "otherwise_cmat_se": other["cmat_se"]}
        pairs.append({**pair, "rows": lines})
    return {"pairs": pairs}


def _lines(rows: Sequence[_Row], trial_s: float) -> list[_Row]:
    """A row for each way to search for one pair of devices, if a trial takes so many seconds."""
    names = list(dict.fromkeys(row["method"] for row in rows))
    ends = {name: _ends(rows, name, trial_s) for name in names}
    ends |= {name + CONTROLLED: _ends(rows, name, trial_s, _controlled) for name in names if name != "frozen"}
    ends |= {
        f"{MOSES_BASE}, {share:.0%} of the trials": _ends(rows, MOSES_BASE, trial_s, _fixed(share)) for share in SHARES
    }
    return [_line(name, ends) for name in ends]


End = Callable[[Sequence[TrialBatch]], int]
"""How many of the batches of a search are measured."""


def _controlled(batches: Sequence[TrialBatch]) -> int:
    rule = CoefficientOfVariation(sum(batch.n for batch in batches))
    return next((n for n in range(1, len(batches)) if not rule.should_continue(batches[:n])), len(batches))


def _fixed(share: float) -> End:
    return lambda batches: math.ceil(share * len(batches))


def _ends(rows: Sequence[_Row], method: str, trial_s: float, end: End = len) -> dict[tuple[int, str], _Row]:
    """Seed and workload -> where the search ended."""
    return {(row["seed"], row["workload"]): _end(row, trial_s, end) for row in rows if row["method"] == method}


def _end(row: _Row, trial_s: float, end: End) -> _Row:
    batches = [
        TrialBatch(np.array(latency_s), np.array(scores), waiting=0.0)
        for latency_s, scores in zip(row["latency_s"], row["scores"], strict=True)
    ]
    trials, count = sum(batch.n for batch in batches), end(batches)
    spent = sum(batch.n for batch in batches[:count])
    learning_s = sum(row["learning_s"][:count])
    return {
        "best_s": min(float(batch.latency_s.min()) for batch in batches[:count]),
        "pool_best_s": row["pool_best_s"],
        "share": spent / trials,
        "learning_s": learning_s,
        "seconds": spent * trial_s + learning_s,
    }


def _line(name: str, ends: Mapping[str, Mapping[tuple[int, str], _Row]]) -> _Row:
    """Gains over fine-tuning without a controller, as geometric means over the searches that both made."""
    base, own = ends[MOSES_BASE], ends[name]
    both = sorted(base.keys() & own.keys())
    latency = [math.log(base[key]["best_s"] / own[key]["best_s"]) for key in both]
    seconds = [math.log(base[key]["seconds"] / own[key]["seconds"]) for key in both]
    together = [a + b for a, b in zip(latency, seconds, strict=True)]
    mean = math.exp(statistics.fmean(together))
    return {
        "method": name,
        "searches": len(both),
        "trials": statistics.fmean(own[key]["share"] for key in both),
        "latency_gain": math.exp(statistics.fmean(latency)),
        "latency_gain_se": _error(latency),
        "learning_s": statistics.fmean(own[key]["learning_s"] for key in both),
        "time_gain": math.exp(statistics.fmean(seconds)),
        "cmat": 100 * (mean - 1),
        "cmat_se": 100 * mean * _error(together),
        "of_best": math.exp(statistics.fmean(math.log(own[k]["pool_best_s"] / own[k]["best_s"]) for k in both)),
    }


def _error(values: Sequence[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def moses_table(result: Mapping[str, Any]) -> str:
    """A table for each pair of devices, and where they were searched if that was not where the rows were summarised."""
    parts = [_moses_pair(pair) for pair in result["pairs"]]
    if searched := result.get("searched"):
        where = f"{searched['machine']} ({searched['device']}), {searched['date'][:10]}"
        parts.append(f"Searches, and the CPU seconds of learning: {where}.")
    return "\n\n".join(parts)


def _moses_pair(pair: _Line) -> str:
    known = "assumed" if "otherwise" in pair else "the median of its log"
    title = f"**{pair['source']} to {pair['target']}**, {pair['trial_s']:.2f} s a trial ({known})"
    columns = list(MOSES_COLUMNS)
    if "otherwise" in pair:
        said = f"CMAT (%) at the {pair['otherwise']}'s {pair['otherwise_s']:.2f} s a trial"
        columns += [number("otherwise_cmat", said, "+.1f"), number("otherwise_cmat_se", "se", ".1f")]
    return f"{title}\n\n{markdown_table(pair['rows'], columns)}"


GPU_TABLES = {
    "gpu_transfer": gpu_transfer_table,
    "device_vector": device_vector_table,
    "gpu_mixtures": gpu_mixtures_table,
    "moses": moses_table,
    "new_chip": new_chip_table,
}
"""Name of a result file without its suffix -> its renderer."""
