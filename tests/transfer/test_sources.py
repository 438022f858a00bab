from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.errors import DataError
from costhub.transfer.sources import PROBED, rank_sources


@dataclass
class Column:
    """Scores by one column of the rows, with so much noise."""

    feature_spec: str
    column: int
    noise: float = 0.0

    def predict(self, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
        found: np.ndarray = -rows[:, self.column].astype(float)
        return found + self.noise * np.random.default_rng(0).normal(size=len(counts))


def programs(spec: str) -> Programs:
    """Sixteen workloads whose latency the first column says; another spec has the columns swapped."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(16 * 20, 2)).astype(np.float32)
    latency_s = np.exp(rows[:, 0]).astype(float)
    workload = np.repeat(np.arange(16), 20)
    ids = tuple(f"w{number}" for number in range(16))
    seen = rows if spec == "a@1" else rows[:, ::-1].copy()
    return Programs(seen, np.ones(len(rows), np.int64), workload, ids, latency_s)


def test_the_model_that_ranks_the_target_best_comes_first_whatever_it_reads() -> None:
    sources = {
        "blind": Column("a@1", 1), "noisy": Column("a@1", 0, noise=1.0), "right": Column("b@1", 1),
    }  # fmt: skip

    found = rank_sources(sources, programs)  # type: ignore[arg-type]

    assert [source.name for source in found] == ["right", "noisy", "blind"]
    assert found[0].pairwise == 1.0
    assert 0.3 < found[2].pairwise < 0.7 < found[1].pairwise < 1.0


def test_of_equals_the_first_comes_first() -> None:
    sources = {name: Column("a@1", 0) for name in ("near", "far")}

    assert [source.name for source in rank_sources(sources, programs)] == ["near", "far"]  # type: ignore[arg-type]


def test_only_a_few_programs_are_looked_at() -> None:
    seen: list[int] = []

    class Counts(Column):
        def predict(self, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
            seen.append(len(counts))
            return super().predict(rows, counts)

    rank_sources({"one": Counts("a@1", 0)}, programs)  # type: ignore[dict-item]

    assert seen == [PROBED]


def test_programs_that_are_equally_fast_tell_nothing() -> None:
    def flat(spec: str) -> Programs:
        found = programs(spec)
        found.latency_s[:] = 1e-3
        return found

    with pytest.raises(DataError):
        rank_sources({"one": Column("a@1", 0)}, flat)  # type: ignore[dict-item]
