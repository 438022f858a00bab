"""Tables of the front page, over several result files and what the package holds.

The best of a row is bold; figures that look equal as printed are bold alike.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from costhub.cards.tables import TableColumn, markdown_table, number, plain_table
from costhub.dataset.schema import document
from costhub.hub.catalogue.hubs import EMBEDDED, EVALUATION
from scripts.tables.figures import count, read, version_of
from scripts.tables.networks import ENGINE_TITLES
from scripts.tables.search import LIGHT

MODELS = EMBEDDED / "models"
BENNU = "[lac-dcc/bennu](https://github.com/lac-dcc/bennu)"
NNFUSION = "[microsoft/nnfusion](https://github.com/microsoft/nnfusion)"
"""Who measured the data that were imported."""
DEVICES = {
    "amd-epyc-zen5-2c": "AMD EPYC (Zen 5), 2 threads",
    "intel-xeon-graniterapids-2c": "Intel Xeon (Granite Rapids), 2 threads",
    "nvidia-h200": "NVIDIA H200",
    "nvidia-a100": "NVIDIA A100",
}
RECIPES = {"TVM recipe": "TVM's recipe", "TenSet recipe": "TenSet's recipe"}
_RECIPES_FROM = "The two recipes: `docs/results/models.jsonl`."
NETWORKS = {"resnet-18": "ResNet-18", "mobilenet-v2": "MobileNet-V2", "bert-small": "BERT-small"}
LIBRARIES = {
    "torch": "PyTorch",
    "torch.compile": "`torch.compile`",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
}
"""Form of a network in the results -> title; a form that no row has gets no column."""
ENGINES, ENGINES_BF16 = "engines_graniterapids", "engines_bf16_graniterapids"
"""The results of whole networks beside other engines, with today's code: a run in float32, and one in bfloat16."""
SHORT = {
    "BERT-base, 128 tokens": "BERT-base",
    "GPT-2, 128 tokens": "GPT-2",
    "GPT-2, 1 token after 128": "GPT-2, 1 token",
}
"""Network -> title of a narrow column."""
SEARCHES = {(LIGHT, 64): "stock TVM, 64 trials", ("costhub", 16): "costhub, 16", ("costhub", 32): "costhub, 32"}
"""(Method, trials for each kernel) -> title."""


def network_front(results: Path) -> str:
    """One line per network: the latency of each library and of each search, with the minutes of the search."""
    rows = [row for row in read(results, "networks_tuned")["rows"] if not row["error"]]
    libraries = {form: title for form, title in LIBRARIES.items() if any(form in row["latencies"] for row in rows)}
    lines = []
    for network, title in NETWORKS.items():
        own = [row for row in rows if row["network"] == network]
        times: dict[str, tuple[float, str]] = {}
        for form, name in libraries.items():
            found = [row["latencies"][form]["median_us"] / 1e3 for row in own if form in row["latencies"]]
            times |= {name: (statistics.median(found), "")} if found else {}
        for (method, trials), name in SEARCHES.items():
            tuned = [row for row in own if (row["method"], row["trials"]) == (method, trials)]
            seconds = statistics.median(row["seconds"] for row in tuned)
            tuned_ms = statistics.median(row["latencies"]["tuned"]["median_us"] for row in tuned) / 1e3
            times[name] = tuned_ms, f" ({_duration(seconds)})"
        shown = {name: (f"{ms:.1f}", after) for name, (ms, after) in times.items()}
        best = f"{min(ms for ms, _ in times.values()):.1f}"
        lines.append({"network": title, **{name: bold(ms, ms == best) + after for name, (ms, after) in shown.items()}})
    columns = [TableColumn("network", "ms, 2 threads (search)")]
    columns += [TableColumn(name, name, align="right") for name in [*libraries.values(), *SEARCHES.values()]]
    return f"{markdown_table(lines, columns)}\n\n{source(results, 'networks_tuned')}"


def engines_front(results: Path) -> str:
    """One line per engine and precision, one column per network; costhub's with the time until it was compiled.

    The best of each precision is bold.
    """
    of_float32 = _of_precision(read(results, ENGINES)["rows"], "float32")
    of_bfloat16 = _of_precision(read(results, ENGINES_BF16)["rows"], "bfloat16")
    networks = list(dict.fromkeys(row["network"] for row in of_float32))
    lines = [*_engine_lines(of_float32, ""), *_engine_lines(of_bfloat16, ", bfloat16")]
    columns = [TableColumn("engine", "ms, 2 threads")]
    columns += [TableColumn(name, SHORT.get(name, name), align="right") for name in networks]
    more = f"bfloat16, in a run of its own: `docs/results/{ENGINES_BF16}.json`."
    return f"{markdown_table(lines, columns)}\n\n{source(results, ENGINES, more=more)}"


def _of_precision(rows: Iterable[Mapping[str, Any]], precision: str) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["precision"] == precision and row["latency"]]


def _engine_lines(rows: Sequence[Mapping[str, Any]], precision: str) -> Iterator[dict[str, str]]:
    best: dict[str, float] = {}
    for row in rows:
        best[row["network"]] = min(row["latency"]["median_us"] / 1e3, best.get(row["network"], math.inf))
    for engine in dict.fromkeys(row["engine"] for row in rows):
        line = {"engine": ENGINE_TITLES[engine].split(", ")[0] + precision}
        for row in (row for row in rows if row["engine"] == engine):
            ms = f"{row['latency']['median_us'] / 1e3:.1f}"
            spent = [row[key] for key in ("reading_s", "seconds", "compile_s") if row.get(key) is not None]
            after = f" ({_duration(sum(spent))})" if len(spent) == 3 else ""
            line[row["network"]] = bold(ms, ms == f"{best[row['network']]:.1f}") + after
        yield line


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 100 else f"{seconds:.0f} s"


def ranking_front(results: Path) -> str:
    """One line per device: the recipes of others and the shipped model, on the workloads that this model held out."""
    release = [row for row in read(results, "release")["rows"] if row["default"]]
    measured = [json.loads(line) for line in (results / "models.jsonl").read_text(encoding="utf-8").splitlines()]
    lines = []
    for device, title in DEVICES.items():
        (row,) = [row for row in release if row["device"] == device]
        card = json.loads((MODELS / row["model"] / EVALUATION).read_text(encoding="utf-8"))
        held_out = {each["workload_id"] for each in card["workloads"] if each["device_id"] == device}
        own = [each for each in measured if each["device"] == device and not each["also"]]
        # On the very split of the model, where the recipes were run on it.
        own = [each for each in own if set(each["workload_ids"]) == {name[:12] for name in held_out}] or own
        figures = {
            name: recipe_on(held_out, [each for each in own if each["model"] == recipe])
            for recipe, name in RECIPES.items()
        }
        figures["costhub"] = row["top_1"], row["pairwise"]
        cells = {name: [f"{figure:.2f}" for figure in pair] for name, pair in figures.items()}
        best = [max(pair[place] for pair in cells.values()) for place in (0, 1)]
        lines.append(
            {
                "device": title,
                "workloads": str(row["workloads"]),
                **{
                    name: " / ".join(bold(text, text == b) for text, b in zip(pair, best, strict=True))
                    for name, pair in cells.items()
                },
                "model": f"`{row['model'].removeprefix('costhub/')}`",
            }
        )
    columns = [
        TableColumn("device", "top-1 / pairs in the right order"),
        TableColumn("workloads", "workloads", align="right"),
        *(TableColumn(name, name, align="right") for name in [*RECIPES.values(), "costhub"]),
        TableColumn("model", "shipped model"),
    ]
    return f"{markdown_table(lines, columns)}\n\n{source(results, 'release', more=_RECIPES_FROM)}"


def recipe_on(held_out: set[str], rows: Iterable[Mapping[str, Any]]) -> tuple[float, float]:
    """Top-1 and pairwise of a recipe on exactly these workloads, where each was held out: means over seeds.

    Raises:
        ValueError: Some of the workloads have no figures.
    """
    totals = []
    for metric in ("top_1", "pairwise"):
        by_workload: dict[str, list[float]] = {}
        for row in rows:
            if not row["split"].startswith("network-"):
                for workload, figure in zip(row["workload_ids"], row["by_workload"][metric], strict=True):
                    by_workload.setdefault(workload, []).append(figure)
        chosen = [by_workload[short] for each in held_out if (short := each[:12]) in by_workload]
        if len(chosen) < len(held_out):
            raise ValueError(f"{len(held_out) - len(chosen)} of {len(held_out)} workloads have no {metric}")
        totals.append(statistics.fmean(statistics.fmean(seeds) for seeds in chosen))
    return totals[0], totals[1]


def box(_: Path) -> str:
    """What the package holds, one line per dataset."""
    lines = []
    for folder, what in (
        ("amd-epyc-zen5", "an AMD EPYC (Zen 5): 1 and 2 threads, AVX-512, AVX2 and SSE4.2"),
        (
            "amd-epyc-zen4 amd-epyc-zen3 intel-xeon-graniterapids intel-xeon-emeraldrapids "
            "intel-xeon-emeraldrapids-avx2",
            "two AMD EPYCs (Zen 4, Zen 3) and two Intel Xeons (Granite Rapids, Emerald Rapids): 1 and 2 threads, "
            "and ten workloads of the last densely with AVX2",
        ),
        ("nvidia-h200", "an NVIDIA H200, imported from a MetaSchedule database whose authors are not recorded"),
        ("nvidia-a100", f"an NVIDIA A100, imported from databases of {BENNU} (TVM 0.16)"),
        (
            "nvidia-v100 nvidia-k80 amd-mi50",
            f"a V100, a K80 and an MI50, replayed from {NNFUSION}'s logs of Ansor (TVM 0.7), "
            "made for *Roller* (OSDI 2022)",
        ),
    ):
        names = folder.split()
        lines.append(
            {
                "dataset": ", ".join(f"`{name}`" for name in names),
                "of": what,
                "measurements": ", ".join(f"{count('measurements', name):,}" for name in names),
                "workloads": ", ".join(f"{count('measured', name):,}" for name in names),
                "licence": ", ".join(sorted({licence(name) for name in names})),
            }
        )
    columns = [
        TableColumn("dataset", "dataset"),
        TableColumn("of", "measured on"),
        TableColumn("measurements", "measurements", align="right"),
        TableColumn("workloads", "workloads", align="right"),
        TableColumn("licence", "licence"),
    ]
    return markdown_table(lines, columns)


def licence(dataset: str) -> str:
    """The licence that the card of an embedded dataset declares."""
    card = (EMBEDDED / "datasets" / "costhub" / dataset / "README.md").read_text(encoding="utf-8")
    name = next(line for line in card.splitlines() if line.startswith("license: ")).removeprefix("license: ")
    return {"cc-by-4.0": "CC-BY-4.0", "apache-2.0": "Apache-2.0", "mit": "MIT"}[name]


def guide_network(results: Path) -> str:
    """What `costhub tune` measures of MobileNet-V2 with 16 trials for each kernel, in a median search."""
    rows = read(results, "network_seconds")["rows"]
    own = [row for row in rows if (row["command"], row["network"], row["trials"]) == ("tune", "mobilenet_v2", 16)]
    row = sorted(own, key=lambda row: row["latencies_us"]["tuned"])[len(own) // 2]
    columns = [
        TableColumn("network", "network"),
        *(number(form, f"{form} (us)", ",.1f") for form in ("tuned", "torch")),
    ]
    outputs = "differ from torch's" if row["error"] else "agree with torch's"
    table = plain_table(
        [{"network": "mobilenet-v2", **row["latencies_us"], "outputs": outputs}],
        [*columns, TableColumn("outputs", "outputs")],
    )
    return f"```text\n{table}\n```\n\n{source(results, 'network_seconds')}"


def columns(table: str, _: Path) -> str:
    """The columns of a table of a data folder, from the schema."""
    return document(table)


def bold(text: str, is_best: bool) -> str:
    """The text, in bold if it is the best of its row."""
    return f"**{text}**" if is_best else text


def source(results: Path, name: str, *, more: str = "") -> str:
    """One short line: the file that a table shows, the machine, the date and the version.

    Args:
        results: The folder of the results.
        name: The file, without `.json`.
        more: A sentence about another file.
    """
    result = read(results, name)
    line = f"`docs/results/{name}.json`: {result['machine']}, {result['date'][:10]}, costhub {version_of(result)}."
    return f"<sub>{line}{more and f' {more}'}</sub>"


FRONT_TABLES: dict[str, Callable[[Path], str]] = {
    **{f"columns_{table}": partial(columns, table) for table in ("devices", "measurements", "workloads")},
    "front_box": box,
    "front_engines": engines_front,
    "front_networks": network_front,
    "front_ranking": ranking_front,
    "guide_network": guide_network,
}
"""Name of a place -> its renderer, which takes the folder of the results."""
