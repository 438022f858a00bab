"""A search over programs that were measured already: latencies are looked up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from costhub.dataset.programs import Programs
from costhub.papers.autotvm_models import expected_improvement, upper_confidence_bound
from scripts.bench.models.grid import Entry

Scores = npt.NDArray[np.float64]
KAPPA = 1.0
"""Standard deviations that the upper confidence bound adds."""


def by_mean(model: Any, pool: Programs, best: float) -> Scores:
    """The model's own score."""
    return np.asarray(model.predict(pool.rows, pool.counts))


def by_bound(model: Any, pool: Programs, best: float) -> Scores:
    """Mean and spread of an ensemble, by the upper confidence bound."""
    mean, std = model.predict_with_spread(pool.rows, pool.counts)
    return np.asarray(upper_confidence_bound(mean, std, KAPPA))


def by_improvement(model: Any, pool: Programs, best: float) -> Scores:
    """Mean and spread of an ensemble, by the expected improvement over the best so far."""
    mean, std = model.predict_with_spread(pool.rows, pool.counts)
    return np.asarray(expected_improvement(mean, std, best))


PICKS: dict[str, Callable[[Any, Programs, float], Scores]] = {
    "mean": by_mean,
    "bound": by_bound,
    "improvement": by_improvement,
}


def search(
    pool: Programs, entry: Entry | None, *, batch: int, trials: int, seed: int, pick: str = "mean"
) -> list[float]:
    """Searches among the programs of one workload with a model that is refitted after each batch.

    Args:
        pool: Measured programs of one workload on one device.
        entry: The model; None picks at random.
        batch: Programs measured between two fits; the first batch is random.
        trials: Programs measured in all.
        seed: Of the first batch, of the fits and of random choice.
        pick: A key of PICKS.

    Returns:
        For each batch the best throughput so far, 1 being the best of the pool.
    """
    rng = np.random.default_rng(seed)
    throughput = pool.throughput()
    order = rng.permutation(pool.n)
    chosen = order[:batch]
    curve = [float(throughput[chosen].max())]
    while len(chosen) < min(trials, pool.n):
        rest = np.setdiff1d(order, chosen, assume_unique=True)  # in the order of `order`: ties stay random
        measured = pool.select(chosen)
        if entry is not None and measured.informative().any():
            model = entry.make()
            model.fit(measured, None, seed=seed, progress=False)
            # Throughput is relative to the best measured so far, so that this best is 1.
            score = PICKS[pick](model, pool.select(rest), 1.0)
            rest = rest[np.argsort(-score, kind="stable")]
        chosen = np.concatenate([chosen, rest[: min(batch, trials - len(chosen))]])
        curve.append(float(throughput[chosen].max()))
    return curve
