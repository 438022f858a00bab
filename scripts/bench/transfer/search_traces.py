"""Searches over measured programs to the end, with a record of all that a stop rule may ask for."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from costhub.dataset.folder import DataFolder
from costhub.dataset.programs import Programs
from costhub.models.architectures import new_model
from costhub.models.protocol import CostModel
from costhub.search.scheduler import TrialBatch
from costhub.transfer.methods.corrected import Corrected
from scripts.bench.common.data import folds
from scripts.bench.transfer.tasks import SPEC, TransferPair

FOLDS = 4
MOST = 1000
"""The most programs of a pool; a search over more takes longer without a difference."""
SHARE = 0.9
"""The share of a workload's programs in the pool of one seed."""
KEY = ("pair", "workload", "seed", "trials", "batch")


@dataclass(frozen=True)
class SearchTrace:
    """A search over the programs of one workload, recorded far beyond the trials at which it is compared."""

    pair: str
    workload: str
    name: str
    weights: dict[str, float]
    """Network -> how often the workload occurs in it."""
    seed: int
    trials: int
    """The trials of a search by itself."""
    batch: int
    pool: int
    """Programs to choose from."""
    pool_best_s: float
    batches: list[TrialBatch]

    @property
    def full(self) -> int:
        """Batches in the trials of a search."""
        return -(-self.trials // self.batch)

    def to_json(self) -> dict[str, Any]:
        """As JSON values; scores are rounded to six digits."""
        batches = [[b.latency_s.tolist(), b.scores.round(6).tolist(), round(b.waiting, 6)] for b in self.batches]
        return {**self.__dict__, "batches": batches}

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> SearchTrace:
        """Reads what `to_json` gave."""
        batches = [
            TrialBatch(np.array(seconds), np.array(scores), waiting) for seconds, scores, waiting in row["batches"]
        ]
        return cls(**{**row, "batches": batches})


def search(pool: Programs, source: CostModel, *, batch: int, trials: int, seed: int) -> list[TrialBatch]:
    """Measures what the model scores highest; the model learns from all measurements after each batch.

    Args:
        pool: Measured programs of one workload, in random order; one at least stays unmeasured.
        source: A model that knows neither the workload nor, perhaps, the device.
        batch: Programs measured at a time.
        trials: Programs measured in all.
        seed: Of the training.
    """
    order, batches = np.zeros(0, np.int64), []
    scores = source.predict(pool.rows, pool.counts)
    for _ in range(min(trials, pool.n - 1) // batch):
        waiting = np.setdiff1d(np.arange(pool.n), order)
        picked = waiting[np.argsort(-scores[waiting], kind="stable")[:batch]]
        order = np.concatenate([order, picked])
        model = Corrected().adapt(source, pool.select(order), seed=seed)
        predicted, scores = scores[picked], model.predict(pool.rows, pool.counts)
        waiting = np.setdiff1d(waiting, picked)
        batches.append(TrialBatch(pool.latency_s[picked], predicted, float(scores[waiting].max())))
    return batches


def traces_of(
    pair: TransferPair, done: Container[tuple[Any, ...]], *, trials: int, batch: int, seed: int, workloads: int
) -> Iterator[SearchTrace]:
    """The missing searches of a seed, twice as long as its trials; the source has seen none of the workloads.

    A workload is searched if its pool has twice as many programs as the search measures.
    """
    ids, sizes = np.unique(pair.target_programs.measured().workload, return_counts=True)
    large = [pair.target_programs.workload_ids[i] for i, n in zip(ids, sizes, strict=True) if SHARE * n >= 2 * trials]
    large = large[:: max(1, len(large) // workloads)][:workloads]
    columns = ["workload_id", "name", "operator", "networks"]
    rows = DataFolder.open(pair.target.data).workloads(columns).sort_by("workload_id").to_pylist()
    about = [row for row in rows if row["workload_id"] in large]
    names = f"{pair.source.name} -> {pair.target.name}"
    for part in folds(about, FOLDS, seed):
        missing = [row for row in about if row["workload_id"] in part.test]
        missing = [row for row in missing if (names, row["workload_id"], seed, trials, batch) not in done]
        if not missing:
            continue
        source = _source(pair.source_programs.of_workloads(set(pair.source_programs.workload_ids) - part.test), seed)
        for row in missing:
            pool = _pool(pair.target_programs.of_workloads({row["workload_id"]}).measured(), seed)
            batches = search(pool, source, batch=batch, trials=2 * trials, seed=seed)
            weights = {network["name"]: float(network["weight"]) for network in row["networks"] or ()}
            yield SearchTrace(
                names,
                row["workload_id"],
                row["name"],
                weights,
                seed,
                trials,
                batch,
                pool.n,
                float(pool.latency_s.min()),
                batches,
            )


def _source(programs: Programs, seed: int) -> CostModel:
    model = new_model("gbt", feature_spec=SPEC, options={"objective": "log"})
    model.fit(programs, None, seed=seed, progress=False)
    return model


def _pool(programs: Programs, seed: int) -> Programs:
    """Some programs of a workload, in random order."""
    drawn = np.random.default_rng(seed).permutation(programs.n)
    return programs.select(drawn[: min(MOST, round(SHARE * programs.n))])
