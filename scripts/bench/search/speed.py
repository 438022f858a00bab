"""Measures how long costhub's models and TVM's own take to score the candidates of a search."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import click
import numpy as np

from costhub.collector.workloads.suites import find_workload
from costhub.dataset.features.spec import Features
from costhub.dataset.features.specs import find_spec
from costhub.dataset.load import load_programs
from costhub.dataset.workload import workload_id
from costhub.hub.pull import resolve
from costhub.models.folder import load_model
from costhub.models.protocol import CostModel
from costhub.models.train import train_model
from costhub.papers.pruner import DraftModel
from costhub.papers.tlp import TokenAttention, TokenAttentionOptions
from costhub.search.search_model import SearchModel
from scripts.bench.common import machine
from scripts.bench.common.data import copy_dataset
from scripts.bench.search import speed_floor, stock_models
from scripts.bench.search.held_candidates import held_candidates
from scripts.bench.search.speed_searches import searches
from scripts.tables.search import speed_table

WORKLOADS = ("resnet18.c7", "matmul.512x512x512", "softmax.64x1000")
TOKENS, DECISIONS = "trace_tokens@1", "trace_decisions@1"
Parts = tuple[float, float]


def clocked(work: Callable[[], Any]) -> tuple[Any, float]:
    """Result and seconds."""
    start = perf_counter()
    return work(), perf_counter() - start


def joined(features: Features) -> tuple[Any, Any]:
    """Rows and counts of the programs with features."""
    present = [f for f in features if f is not None]
    return np.concatenate(present), np.array([len(f) for f in present])


def of_stock(name: str, model: Any, context: Any, candidates: list[Any]) -> Parts:
    """Seconds that one of TVM's models takes for features and for prediction."""
    rows, features_s = clocked(lambda: stock_models.features(name, model, context, candidates))
    _, prediction_s = clocked(lambda: stock_models.scores(name, model, rows))
    return features_s, prediction_s


def of_ours(model: CostModel, context: Any, candidates: list[Any]) -> Parts:
    """Seconds that one of costhub's models takes for features and for prediction."""
    spec = find_spec(model.feature_spec)
    features, features_s = clocked(lambda: spec.extract_candidates(context, candidates))
    _, prediction_s = clocked(lambda: model.predict(*joined(features)))
    return features_s, prediction_s


class Drafting:
    """The full model behind a draft model; the time of features is that of both."""

    def __init__(self, full: CostModel, draft: CostModel) -> None:
        self.full, self.draft = full, draft
        self.verified: set[int] = set()
        """Positions of the candidates that the full model has scored."""
        self._seconds = 0.0

    def __call__(self, context: Any, candidates: list[Any]) -> Parts:
        """Seconds for features and for prediction in a second round, which knows the scale of the scores."""
        specs = [find_spec(m.feature_spec) for m in (self.draft, self.full)]
        both = DraftModel(SearchModel(self.full), SearchModel(self.draft))
        features_of = self._features_of(specs[1], context, candidates)
        both.predict("task", specs[0].extract_candidates(context, candidates), features_of)
        start = perf_counter()
        drafts, features_s = clocked(lambda: specs[0].extract_candidates(context, candidates))
        both.predict("task", drafts, features_of)
        total_s = perf_counter() - start
        return features_s + self._seconds, total_s - features_s - self._seconds

    def _features_of(self, spec: Any, context: Any, candidates: list[Any]) -> Callable[[Any], Features]:
        def features_of(chosen: Any) -> Features:
            self.verified = {int(i) for i in chosen}
            features, self._seconds = clocked(
                lambda: spec.extract_candidates(context, [candidates[int(i)] for i in chosen])
            )
            return list(features)

        return features_of


def models_of(device: str, without: tuple[str, ...]) -> dict[str, CostModel]:
    """The shipped models of this device, and a draft model trained on its other workloads."""
    models = {arch: load_model(resolve(device, arch=arch))[0] for arch in ("mlp", "gbt")}
    held = {workload_id(find_workload(name).module()) for name in without}
    with tempfile.TemporaryDirectory() as folder:
        path = copy_dataset(folder)
        read = {s: load_programs(path, device=device, spec=s, progress=False) for s in (TOKENS, DECISIONS)}
    others = {s: p.of_workloads(set(p.workload_ids) - held) for s, p in read.items()}
    # How long it takes to score does not depend on how well it was trained.
    tokens = TokenAttention(feature_spec=TOKENS, options=TokenAttentionOptions(epochs=1))
    tokens.fit(others[TOKENS].select(np.arange(0, others[TOKENS].n, 16)), None, seed=0, progress=False)
    draft = train_model(others[DECISIONS], "gbt", progress=False)
    return {**models, "tokens": tokens, "draft": draft}


def compare(workload: str, models: dict[str, CostModel], count: int, repeats: int) -> list[dict[str, Any]]:
    """One row for each model with medians over the repeats, in which the models take turns."""
    context, candidates = held_candidates(workload, count=count)
    score = {}
    for name in ("mlp", "gbt"):
        rows = joined(find_spec(models[name].feature_spec).extract_candidates(context, candidates))
        score[name] = models[name].predict(*rows)
    latency_s = np.exp(-score["mlp"])[: stock_models.LEARNT]
    stock = stock_models.trained(context, candidates[: stock_models.LEARNT], latency_s.tolist())
    drafting = {f"{name} behind a draft": Drafting(models[name], models["draft"]) for name in ("mlp", "gbt")}
    work: dict[str, Callable[[], Parts]] = {
        **{name: lambda n=name, m=m: of_stock(n, m, context, candidates) for name, m in stock.items()},
        **{name: lambda m=m: of_ours(m, context, candidates) for name, m in models.items()},
        **{name: lambda m=m: m(context, candidates) for name, m in drafting.items()},
    }
    seconds: dict[str, list[Parts]] = {name: [] for name in work}
    for _ in range(repeats):
        for name, run in work.items():
            seconds[name].append(run())
    specs = {m.feature_spec for m in models.values()}
    read = {spec: joined(find_spec(spec).extract_candidates(context, candidates)) for spec in specs}
    rows = [_row(workload, name, parts, len(candidates)) for name, parts in seconds.items()]
    for row in rows:
        row["of_tvm_xgb"] = rows[0]["total_s"] / row["total_s"]
        if row["model"] in models:
            model = models[row["model"]]
            row.update(speed_floor.floor(model, *read[model.feature_spec]))
        if row["model"] in drafting:
            full = score[row["model"].split()[0]]
            kept = drafting[row["model"]].verified
            row["kept_best_16"] = float(np.mean([int(i) in kept for i in np.argsort(-full)[:16]]))
    return rows


def _row(workload: str, model: str, parts: list[Parts], candidates: int) -> dict[str, Any]:
    features_s, prediction_s = (statistics.median(p) for p in zip(*parts, strict=True))
    return {
        "workload": workload,
        "model": model,
        "candidates": candidates,
        "features_s": features_s,
        "prediction_s": prediction_s,
        "total_s": statistics.median(map(sum, parts)),
        "runs": parts,
    }


@click.command()
@click.option("--device", default="amd-epyc-zen5-2c", show_default=True, help="Whose models.")
@click.option("--workload", "workloads", multiple=True, default=WORKLOADS)
@click.option("--candidates", default=2048, show_default=True)
@click.option("--repeats", default=5, show_default=True)
@click.option("--quick", is_flag=True, help="One workload, 256 candidates, two repeats.")
@click.option("--json", "path", type=click.Path(path_type=Path))
def main(
    device: str, workloads: tuple[str, ...], candidates: int, repeats: int, quick: bool, path: Path | None
) -> None:
    """Scores the candidates of a search with each model in turn; run it with nothing else on the machine."""
    models = models_of(device, workloads)
    if quick:
        workloads, candidates, repeats = workloads[:1], 256, 2
    rows: list[dict[str, Any]] = []
    searched: list[dict[str, Any]] = []
    for workload in workloads:
        rows += compare(workload, models, candidates, repeats)
        searched += searches(workload, models, 16 if quick else 64)
        click.echo(speed_table({"speed": rows, "searches": searched}))
        if path:
            result = {"speed": rows, "searches": searched}
            path.write_text(json.dumps({**machine.describe(), **result}, indent=1))


if __name__ == "__main__":
    main()
