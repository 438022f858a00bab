"""Measures what accuracy buys a search: the order of an oracle whose scores carry noise, in densely measured spaces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import click
import numpy as np

from costhub.api.models import read_model
from costhub.api.replay.bench import SUITE
from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.features.specs import DEFAULT_SPEC
from costhub.dataset.folder import DataFolder
from costhub.dataset.splits.split import find_split
from costhub.hub.catalogue.devices import device_rows
from costhub.hub.catalogue.find import find_model
from costhub.hub.data import find_data
from costhub.models import metrics
from costhub.models.evaluate import NOISE_FLOOR
from costhub.models.protocol import CostModel, Scores
from costhub.search.replay.workloads import Latencies, ReplayWorkload, load_replay
from costhub.terminal_text import counted
from scripts.bench.common import machine, options
from scripts.tables.plots import plot_curves

ERRORS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.2)
"""Standard deviations of the noise, in logarithms of latency; costhub's models order pairs as one of .4 to .5 does."""
TRIALS = (1, 4, 16, 64)
SAMPLE = 32
"""Programs that the metrics compare, as many as most workloads of the datasets have."""
DRAWS = 50
Row = dict[str, Any]
COLUMNS = (
    TableColumn("device", "device"),
    TableColumn("scores", "scores"),
    *(number(name, name, ".3f") for name in ("top_1", "pairwise", *(f"best_of_{k}" for k in TRIALS))),
)


def noisy_figures(latency_s: Latencies, error: float, *, seed: int, draws: int = DRAWS) -> Row:
    """Means over draws of what an oracle achieves whose scores, -log latency, carry normal noise.

    Args:
        latency_s: (n,) of all programs of a workload.
        error: Standard deviation of the noise; infinite for a random order.
        seed: Of the noise, and of the programs that the metrics compare.
        draws: Searches.

    Example:
        >>> noisy_figures(np.arange(1.0, 101.0), 0.0, seed=0)["best_of_1"]
        1.0
    """
    rng = np.random.default_rng(seed)
    truth = np.zeros_like(latency_s) if np.isinf(error) else -np.log(latency_s)
    size = 1.0 if np.isinf(error) else error
    return _mean([figures(latency_s, truth + size * rng.standard_normal(len(truth)), rng) for _ in range(draws)])


def figures(latency_s: Latencies, scores: Scores, rng: np.random.Generator) -> Row:
    """The metrics among a few programs, and the optimum / the best of the first programs in the order of the scores."""
    few = rng.permutation(len(latency_s))[:SAMPLE]
    best = np.minimum.accumulate(latency_s[np.argsort(-scores, kind="stable")])
    return {
        "top_1": metrics.top_k(scores[few], latency_s[few], k=1),
        "pairwise": metrics.pairwise(scores[few], latency_s[few], noise_floor=NOISE_FLOOR),
        **{f"best_of_{k}": float(latency_s.min() / best[min(k, len(best)) - 1]) for k in TRIALS},
    }


def model_figures(latency_s: Latencies, scores: Scores, *, seed: int) -> Row:
    """The same with the scores of a model; the draws only choose the programs that the metrics compare."""
    rng = np.random.default_rng(seed)
    return _mean([figures(latency_s, scores, rng) for _ in range(DRAWS)])


def device_table(workloads: Sequence[ReplayWorkload], models: dict[str, CostModel], seed: int) -> Iterator[Row]:
    """The rows of one device: means over its workloads."""
    sizes = {"workloads": len(workloads), "programs": int(np.median([own.task.n for own in workloads]))}
    for error in (*ERRORS, np.inf):
        found = [noisy_figures(own.latency_s, error, seed=seed + place) for place, own in enumerate(workloads)]
        yield {"scores": "random" if np.isinf(error) else f"error {error:g}", **sizes, **_means(found)}
    for name, model in models.items():
        found = []
        for place, own in enumerate(workloads):
            scores = np.asarray(model.predict(own.task.programs.rows, own.task.programs.counts), np.float64)
            found.append(model_figures(own.latency_s, scores, seed=seed + place))
        yield {"scores": name, **sizes, **_means(found)}


def _means(found: Sequence[Row]) -> Row:
    errors = {
        f"{name}_se": float(np.std([row[name] for row in found], ddof=1) / len(found) ** 0.5) for name in found[0]
    }
    return {**_mean(found), **errors}


def _mean(rows: Sequence[Row]) -> Row:
    return {name: fmean(row[name] for row in rows) for name in rows[0]}


@click.command()
@options.data("A data folder with one more device; its workloads with the most programs are taken.")
@click.option("--model", "models", multiple=True, help="Also the order of this model, on the device of --data.")
@click.option("--seed", default=0, show_default=True)
@options.quick("One device.")
@options.json_file("The figures; a picture goes beside it.")
def main(data: Path | None, models: tuple[str, ...], seed: int, quick: bool, path: Path | None) -> None:
    """Ranks the programs of the replay benchmark, and of one more data folder, by noisy oracles."""
    rows: list[Row] = []
    for device, split in list(SUITE.items())[: 1 if quick else None]:
        place = find_data(device).path
        own = load_replay(Path(place), device, workloads=set(find_split(place, split).test), spec=None)
        rows += [{"device": device, **row} for row in device_table(own, {}, seed)]
    if data is not None:
        for device, described in device_rows(data, DataFolder.open(data).device_ids()).items():
            bound = {name: read_model(find_model(name)).bind(described) for name in models}
            own = load_replay(data, device, spec=DEFAULT_SPEC if models else None)
            table = list(device_table(own, bound, seed))
            if any(row["device"] == device for row in rows):  # The benchmark's own: its oracles are there already.
                table = table[-len(bound) :] if bound else []
            rows += [{"device": device, **row} for row in table]
    click.echo(plain_table(rows, COLUMNS))
    machine.write_result(path, {"rows": rows})
    if path:
        plot_curves(path.with_suffix(".png"), panels(rows), x="top-1 among 32 programs, %", y="optimum / best found")


def panels(rows: Sequence[Row]) -> dict[str, list[dict[str, Any]]]:
    """Device -> a curve for each number of trials, over the accuracy of the oracle."""
    found: dict[str, list[dict[str, Any]]] = {}
    for device in dict.fromkeys(row["device"] for row in rows):
        own = [row for row in rows if row["device"] == device and row["scores"].startswith(("error", "random"))]
        own.sort(key=lambda row: float(row["top_1"]))
        xs = [100 * row["top_1"] for row in own]
        for k in TRIALS:
            ys, se = [row[f"best_of_{k}"] for row in own], [row[f"best_of_{k}_se"] for row in own]
            found.setdefault(device, []).append({"label": counted(k, "trial"), "x": xs, "y": ys, "se": se})
    return found
