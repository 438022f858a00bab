"""Compares ways to choose what a search measures next: by score, also by diversity, or by cluster.

Each way is a search over the measured programs of a workload, led by a model that has learned from other
workloads, and from other devices if asked to, and that learns after each batch.
"""

from __future__ import annotations

import fnmatch
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.programs import IntArray
from costhub.papers.autotvm import Diverse
from costhub.papers.release import Clustered
from costhub.search.selection import Candidates, Ranked, Selection
from costhub.transfer.methods.corrected import Corrected
from scripts.bench.common import machine
from scripts.bench.common.data import own_copy
from scripts.bench.common.rows import mean_curves, read_rows
from scripts.bench.transfer.measured_pools import Pool, pools
from scripts.bench.transfer.tasks import Devices
from scripts.tables.gains import mean_with_error
from scripts.tables.plots import plot_curves


@dataclass(frozen=True)
class Shortlist:
    """Random programs among the best that `Clustered` considers: a control for the effect of clustering."""

    top: float = Clustered.top
    name = "shortlist"

    def choose(self, candidates: Candidates, count: int, *, seed: int) -> IntArray:
        """See `Selection`."""
        best = candidates.waiting()[: math.ceil(self.top * count)]
        return np.random.default_rng(seed).permutation(best)[:count]


RANKED = "ranked"
METHODS: dict[str, Selection] = {
    "random": Ranked(epsilon=1.0),
    RANKED: Ranked(),
    "ranked, no chance": Ranked(epsilon=0.0),
    **{f"diverse {alpha}": Diverse(alpha) for alpha in (0.1, 0.3, 1.0)},
    "clustered": Clustered(),
    "clustered, all": Clustered(top=math.inf),
    "shortlist": Shortlist(),
}
DRAWN = ("random", RANKED, "diverse 0.3", "diverse 1.0", "clustered", "shortlist")
KEY = ("source", "target", "workload", "method", "batch", "seed")
STEP = 8
"""Measurements between two points of a curve."""
SHARES = {"to_95": 0.95, "to_99": 0.99}
"""Measurements until this share of the pool's best throughput."""


def search(pool: Pool, selection: Selection, *, batch: int, trials: int, seed: int) -> tuple[IntArray, int]:
    """Positions of the programs in the order of measuring, and in how many batches they were chosen."""
    # Candidates of equal scores keep their order, which must not depend on the device.
    order = np.random.default_rng(seed).permutation(pool.programs.n)
    programs, knobs = pool.programs.select(order), [pool.knobs[place] for place in order]
    chosen, model, batches = np.zeros(0, np.int64), pool.source, 0
    while len(chosen) < min(trials, programs.n):
        scores = model.predict(programs.rows, programs.counts)
        picked = selection.choose(
            Candidates(scores, knobs, {knobs[place] for place in chosen}),
            min(batch, trials - len(chosen)),
            seed=1000 * seed + batches,
        )
        chosen, batches = np.concatenate([chosen, picked]), batches + 1
        if selection is not METHODS["random"]:
            model = Corrected().adapt(pool.source, programs.select(chosen), seed=seed)
    return order[chosen], batches


def row_of(pool: Pool, method: str, *, batch: int, trials: int, seed: int) -> dict[str, Any]:
    """The figures of one search."""
    chosen, batches = search(pool, METHODS[method], batch=batch, trials=trials, seed=seed)
    best = np.maximum.accumulate(pool.programs.throughput()[chosen])
    return {
        "method": method,
        "batch": batch,
        "seed": seed,
        "programs": pool.programs.n,
        "batches": batches,
        "curve": [round(float(value), 4) for value in best[STEP - 1 :: STEP]],
        **{name: int(np.argmax(best >= share)) + 1 if best[-1] >= share else None for name, share in SHARES.items()},
    }


def summaries(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line for each pair, batch and method; means over workloads of means over seeds, and their errors.

    `ahead` is the mean of the curve less that of RANKED on the same workload; of searches that do not reach a
    share, its measurements are those of the whole search.
    """
    table = []
    for group in dict.fromkeys((row["source"], row["target"], row["batch"]) for row in rows):
        own = [row for row in rows if (row["source"], row["target"], row["batch"]) == group]
        plain = _by_workload([row for row in own if row["method"] == RANKED], _mean)
        for method in dict.fromkeys(row["method"] for row in own):
            mine = [row for row in own if row["method"] == method]
            level = _by_workload(mine, _mean)
            shared = [name for name in level if name in plain]
            ends = ((f"at_{t}", lambda row, i=i: row["curve"][i]) for i, t in enumerate(_trials(mine[0])))
            measures = {
                **dict(ends),
                **{name: lambda row, n=name: row[n] or _trials(row)[-1] for name in SHARES},
                **{f"reach{name[2:]}": lambda row, n=name: float(row[n] is not None) for name in SHARES},
                "batches": lambda row: row["batches"],
            }
            line = dict(zip(("source", "target", "batch"), group, strict=True))
            line |= {"method": method, "workloads": len(level)}
            for name, measure in measures.items():
                line |= _mean_and_error(name, list(_by_workload(mine, measure).values()))
            table.append(line | _mean_and_error("ahead", [level[name] - plain[name] for name in shared]))
    return table


def _trials(row: dict[str, Any]) -> list[int]:
    """The measurements after which the curve was read."""
    return [STEP * (i + 1) for i in range(len(row["curve"]))]


def _mean(row: dict[str, Any]) -> float:
    return float(np.mean(row["curve"]))


def _by_workload(rows: list[dict[str, Any]], measure: Any) -> dict[str, float]:
    """Workload -> the mean over seeds."""
    names = dict.fromkeys(row["workload"] for row in rows)
    return {n: float(np.mean([measure(row) for row in rows if row["workload"] == n])) for n in names}


def _mean_and_error(name: str, values: list[float]) -> dict[str, float | None]:
    return dict(zip((name, f"{name}_se"), mean_with_error(values), strict=True))


COLUMNS = (
    TableColumn("target", "target"),
    number("batch", "batch", "d"),
    TableColumn("method", "method"),
    *(part for name in ("at_16", "at_32", "at_64") for part in (number(name, name), number(f"{name}_se", "se"))),
    *(part for name in SHARES for part in (number(name, name, ".1f"), number(f"{name}_se", "se", ".1f"))),
    number("reach_95", "reach 0.95", ".0%"),
    number("reach_99", "reach 0.99", ".0%"),
    number("ahead", "ahead of ranked", "+.4f"),
    number("ahead_se", "se", ".4f"),
    number("batches", "batches", ".1f"),
)


def report(rows: list[dict[str, Any]], path: Path) -> None:
    """Writes rows and summary, and draws the curves of every pair and batch."""
    panels = {}
    for line in summaries(rows):
        pair = (line["source"], line["target"], line["batch"])
        device = f"{pair[0]} to {pair[1]}\nbatches of {pair[2]}"
        mine = [row for row in rows if (row["source"], row["target"], row["batch"]) == pair]
        panels[device] = mean_curves([{**row, "device": device, "trials": _trials(row)} for row in mine], DRAWN)
    axes = {"x": "measured programs", "y": "best so far / best of all"}
    plot_curves(path.with_suffix(".png"), panels, **axes)
    about = {**machine.describe(), "key": KEY, "step": STEP, "summary": summaries(rows)}
    path.write_text(json.dumps({**about, "rows": rows}, indent=1))


@click.command()
@click.option(
    "--pair",
    "pairs",
    multiple=True,
    help="FOLDER:DEVICE+DEVICE=FOLDER:DEVICE; by default from two cores to one in a copy of the embedded dataset.",
)
@click.option("--only", default="*", show_default=True, help="Pattern of methods.")
@click.option("--batch", "batches", multiple=True, default=(8, 16), show_default=True)
@click.option("--trials", default=64, show_default=True)
@click.option("--programs", default=150, show_default=True, help="The least of a workload.")
@click.option("--workloads", default=24, show_default=True, help="The most of a pair.")
@click.option("--seeds", default=3, show_default=True)
@click.option("--quick", is_flag=True, help="Two workloads, one seed, batches of 16.")
@click.option(
    "--rows", "rows_path", type=click.Path(path_type=Path), help="JSON lines; what is there is not done again."
)
@click.option("--json", "path", type=click.Path(path_type=Path), help="A picture goes beside it.")
def main(
    pairs: tuple[str, ...],
    only: str,
    batches: tuple[int, ...],
    trials: int,
    programs: int,
    workloads: int,
    seeds: int,
    quick: bool,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Best throughput found after equal numbers of measurements, as a share of the best that was measured."""
    if not pairs:
        data = own_copy()
        pairs = (f"{data}:amd-epyc-zen5-2c={data}:amd-epyc-zen5-1c",)
    if quick:
        workloads, seeds, batches = 2, 1, (16,)
    methods = fnmatch.filter(METHODS, only)
    rows = read_rows(rows_path)
    done = {tuple(row[key] for key in KEY) for row in rows}
    for text in pairs:
        source, target = map(Devices.parse, text.split("="))
        about = {"source": source.name, "target": target.name}
        for pool in pools(source, target, programs=programs, workloads=workloads):
            name = pool.workload_id[:12]
            for seed, batch, method in ((s, b, m) for s in range(seeds) for b in batches for m in methods):
                if (source.name, target.name, name, method, batch, seed) in done:
                    continue
                row = {
                    **about,
                    "workload": name,
                    **row_of(pool, method, batch=batch, trials=trials, seed=seed),
                }
                rows.append(row)
                if rows_path:
                    with rows_path.open("a") as file:
                        file.write(json.dumps(row) + "\n")
            click.echo(f"{source.name} -> {target.name}: {name}, {pool.programs.n} programs")
    click.echo(plain_table(summaries(rows), COLUMNS))
    if path:
        report(rows, path)


if __name__ == "__main__":
    main()
