"""Measures how long costhub's models and TVM's own take to score the candidates of a search."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import click
import numpy as np

from costhub.collector.device.identity import identify
from costhub.collector.device.local import find_local
from costhub.collector.measurer import local_measurer
from costhub.collector.propose.spaces import DEFAULT
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
from costhub.search.options import Search
from costhub.search.search_model import SearchModel
from costhub.search.strategies.strategy import Evolutionary
from costhub.search.tune import tune
from scripts.bench.common import machine, options
from scripts.bench.common.data import copy_dataset
from scripts.bench.search import stock_models
from scripts.bench.search.stock_models import held_candidates
from scripts.tables.search import speed_table

SIZES = ((Evolutionary(), 16), (Evolutionary(population=512, generations=4), 64))
"""Strategy and trials per round, of costhub's search and of TVM's own."""
WORKLOADS = ("resnet18.c7", "matmul.512x512x512", "softmax.64x1000")
TOKENS, DECISIONS = "trace_tokens@1", "trace_decisions@1"
Parts = tuple[float, float]


def floor(model: Any, rows: Any, counts: Any) -> dict[str, float]:
    """Bytes, operations and milliseconds of a prediction at the probed rates; {} on a machine not probed.

    Rows are read once, from memory. A network multiplies and adds in float32; each level of a tree counts as
    one operation, a comparison.
    """
    probes = {probe["device_id"]: probe for probe in json.loads((machine.RESULTS / "probe.json").read_text())["probe"]}
    probe = probes.get(identify()["device_id"])
    if probe is None:
        return {}
    moved, done = float(rows.nbytes), OPERATIONS[model.arch](model, rows, counts)
    seconds = max(moved / probe["dram_gbs"], done / probe["peak_gflops"]) * 1e-9
    return {"bytes": moved, "operations": done, "floor_ms": seconds * 1e3}


def of_trees(model: Any, rows: Any, counts: Any) -> float:
    """Three operations per number for the pooling, and one for each level of each tree."""
    return float(3 * rows.size + len(counts) * model.booster.num_boosted_rounds() * model.options.depth)


def of_mlp(model: Any, rows: Any, counts: Any) -> float:
    """Two layers for each row, two and the score for each program."""
    hidden, inputs = model.options.hidden, model.config()["inputs"]
    per_row, per_program = hidden * (inputs + hidden), hidden * (2 * hidden + 1)
    return float(2 * model.options.members * (len(rows) * per_row + len(counts) * per_program))


def of_tokens(model: Any, rows: Any, counts: Any) -> float:
    """As `of_mlp`, with eight square layers per token, and products with all other tokens."""
    hidden, inputs, layers = model.options.hidden, model.config()["inputs"], model.options.layers
    per_layer = len(rows) * 8 * hidden**2 + 2 * hidden * float((counts**2).sum())
    per_program = hidden * (2 * hidden + 1)
    return float(2 * (len(rows) * inputs * hidden + layers * per_layer + len(counts) * per_program))


OPERATIONS = {"gbt": of_trees, "mlp": of_mlp, "tokens": of_tokens}


def search(workload: str, name: str, how: Search, trials: int) -> dict[str, Any]:
    """One search: its seconds by stage, and its result."""
    mod = find_workload(workload).module()
    with tempfile.TemporaryDirectory() as folder, local_measurer(find_local(["auto"])) as measurer:
        result = tune(mod, workload, how, measurer, out=Path(folder), trials=trials)
    assert isinstance(how.strategy, Evolutionary)
    sized = how.strategy.sized(DEFAULT)
    sizes = {"population": sized.population, "generations": sized.generations}
    return {
        "workload": workload,
        "model": name,
        **sizes,
        "trials": result.trials,
        "seconds": result.seconds,
        "best_us": result.best_us,
        "stages": result.stages,
    }


def searches(workload: str, models: dict[str, CostModel], trials: int) -> list[dict[str, Any]]:
    """The MLP alone and behind a draft, with costhub's sizes and with TVM's."""
    drafts = {"mlp": None, "mlp behind a draft": models["draft"]}
    return [
        search(workload, name, Search(models["mlp"], draft=draft, strategy=strategy, trials_per_round=each), trials)
        for strategy, each in SIZES
        for name, draft in drafts.items()
    ]


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
        features = joined(find_spec(models[name].feature_spec).extract_candidates(context, candidates))
        score[name] = models[name].predict(*features)
    latency_s = np.exp(-score["mlp"])[: stock_models.LEARNT]
    stock = stock_models.trained(context, candidates[: stock_models.LEARNT], latency_s.tolist())
    drafting = {f"{name} behind a draft": Drafting(models[name], models["draft"]) for name in ("mlp", "gbt")}
    work: dict[str, Callable[[], Parts]] = {
        **{name: partial(of_stock, name, m, context, candidates) for name, m in stock.items()},
        **{name: partial(of_ours, m, context, candidates) for name, m in models.items()},
        **{name: partial(m, context, candidates) for name, m in drafting.items()},
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
            row.update(floor(model, *read[model.feature_spec]))
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
@options.workloads(WORKLOADS)
@click.option("--candidates", default=2048, show_default=True)
@click.option("--repeats", default=5, show_default=True)
@options.quick("One workload, 256 candidates, two repeats.")
@options.json_file()
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
        machine.write_result(path, {"speed": rows, "searches": searched})
