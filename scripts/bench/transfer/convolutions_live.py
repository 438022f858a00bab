"""Searches on this machine for some convolutions, with a model of others of the same device, or with none."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.collector.device.identity import identify
from costhub.collector.device.local import find_local
from costhub.collector.measurer import Measurer, local_measurer
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.load import load_programs
from costhub.dataset.programs import FloatArray, IntArray, Programs
from costhub.dataset.workload import workload_id
from costhub.models.architectures import new_model
from costhub.models.protocol import CostModel, Scores
from costhub.models.trees.gbt import Gbt
from costhub.search.options import Search
from costhub.search.strategies.by_name import find_strategy
from costhub.search.tune import tune
from costhub.transfer.methods.by_name import find_method
from scripts.bench.common.data import copy_with
from scripts.bench.common.remeasure import best_trace, with_best_us
from scripts.bench.common.rows import RowFile
from scripts.tables.papers.autotvm import FIGURE_8_BASE, live_figure_8_summary

KEY = ("workload", "method", "seed", "trials", "spec")
TREES = {"objective": "log", "rounds": 100, "min_child_weight": 1.0}
"""Of a model that learns from the searched workload alone."""


class Untrained(Gbt):
    """Scores all programs alike, so that the first batch is a random one."""

    def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
        """(n,) zeros."""
        return np.zeros(len(counts))


@dataclass(frozen=True)
class FromNothing:
    """A transfer method that leaves the source out: trees fitted to the target alone."""

    name = FIGURE_8_BASE

    def adapt(
        self, source: CostModel, target: Programs, *, seed: int, source_programs: Programs | None = None
    ) -> CostModel:
        """See `TransferMethod`."""
        if not target.informative().any():
            return source
        model = new_model("gbt", feature_spec=source.feature_spec, options=TREES)
        model.fit(target, None, seed=seed, progress=False)
        return model


def live_searches(
    data: Path | None,
    rows_path: Path | None,
    sources: Sequence[str],
    targets: Sequence[str],
    methods: Sequence[str],
    *,
    trials: int,
    seeds: int,
    spec: str,
) -> dict[str, Any]:
    """Adds the missing searches to the rows; returns the result file's figures.

    Args:
        data: A folder with this machine's measurements of `sources`; None for the embedded dataset that has some.
        rows_path: Where rows are kept; None for nowhere.
        sources: Names of the workloads to learn from.
        targets: Names of those to search.
        methods: `random`, FIGURE_8_BASE, or transfer methods.
        trials: Of a search.
        seeds: How many.
        spec: Feature spec of all models.

    Raises:
        ClickException: No dataset has measurements of this machine.
    """
    device = str(identify()["device_id"])
    data = data or copy_with(device)
    if data is None:
        raise click.ClickException(
            f"No embedded dataset has measurements of {device}; measure {', '.join(sources)} with `costhub collect`, "
            "and name the folder with --data."
        )
    learned_from = {workload_id(find_workload(name).module()) for name in sources}
    programs = load_programs(data, device=device, spec=spec, workloads=learned_from)
    kept = RowFile(rows_path, KEY)
    with local_measurer(find_local(["auto"])) as measurer:
        measurer.launch()
        for seed in range(seeds):
            model = new_model("gbt", feature_spec=spec, options={"objective": "log"})
            model.fit(programs, None, seed=seed, progress=False)
            for target, method in ((t, m) for t in targets for m in methods):
                key = (target, method, seed, trials, spec)
                if key not in kept:
                    kept.add({**dict(zip(KEY, key, strict=True)), **_searched(measurer, model, *key[:4])})
                    click.echo(f"{target}, {method}, seed {seed}: {kept.all[-1]['seconds']:.0f} s")
    rows = with_best_us(row for row in kept if (row["trials"], row["spec"]) == (trials, spec))
    short = [{name: value for name, value in row.items() if name != "trace"} for row in rows]
    return {
        "base": FIGURE_8_BASE,
        "spec": spec,
        "trials": trials,
        "summary": live_figure_8_summary(rows),
        "rows": short,
    }


def _searched(measurer: Measurer, model: CostModel, workload: str, method: str, seed: int, trials: int) -> Any:
    """The course of one search and the best program that it found."""
    if method == "random":
        search = Search(model, strategy=find_strategy("random"), method=find_method("frozen"), seed=seed)
    elif method == FIGURE_8_BASE:
        search = Search(Untrained(feature_spec=model.feature_spec), method=FromNothing(), seed=seed)
    else:
        search = Search(model, method=find_method(method), seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        result = tune(find_workload(workload).module(), workload, search, measurer, out=Path(folder), trials=trials)
        trace = best_trace(Path(folder), trials) if result.curve else None
    return {
        "measured": result.trials,
        "failures": result.failures,
        "seconds": result.seconds,
        "stages": result.stages,
        "curve": result.curve,
        "trace": trace,
    }
