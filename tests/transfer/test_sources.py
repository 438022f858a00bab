from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from costhub.dataset.features.combined import combine
from costhub.dataset.programs import Programs
from costhub.errors import DataError
from costhub.models.trees.gbt import Gbt
from costhub.transfer.sources import PROBED_PROGRAMS, rank_sources


@dataclass
class Column(Gbt):
    """Scores by one column of the rows, with so much noise."""

    feature_spec: str
    column: int
    noise: float = 0.0

    def predict(self, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
        found: np.ndarray = -rows[:, self.column].astype(float)
        return found + self.noise * np.random.default_rng(0).normal(size=len(counts))


WIDTHS = {"per_store@1": 172, "relation@1": 123}
"""Specs that the sources read; only the first two columns say something."""


def programs(spec: str, *, workloads: int = 16) -> Programs:
    """Workloads whose latency the first column says; `relation@1` has the columns swapped."""
    rng = np.random.default_rng(1)
    said = rng.normal(size=(workloads * 20, 2)).astype(np.float32)
    ones = np.ones(len(said), np.int64)
    parts = {name: np.zeros((len(said), width), np.float32) for name, width in WIDTHS.items()}
    parts["per_store@1"][:, :2], parts["relation@1"][:, :2] = said, said[:, ::-1]
    own = [(parts[name], ones) for name in spec.split("+")]
    rows, counts = combine(own) if len(own) > 1 else own[0]
    ids = tuple(f"w{number}" for number in range(workloads))
    latency_s = np.exp(said[:, 0]).astype(float)
    return Programs(rows, counts, np.repeat(np.arange(workloads), 20), ids, latency_s)


def test_the_model_that_ranks_the_target_best_comes_first_whatever_it_reads() -> None:
    sources = {
        "blind": Column("per_store@1", 1),
        "noisy": Column("per_store@1", 0, noise=1.0),
        "right": Column("relation@1", 1),
    }

    found = rank_sources(sources, programs)  # type: ignore[arg-type]

    assert [source.name for source in found] == ["right", "noisy", "blind"]
    assert found[0].pairwise == 1.0
    assert 0.3 < found[2].pairwise < 0.7 < found[1].pairwise < 1.0


def test_of_equals_the_first_comes_first() -> None:
    sources = {name: Column("per_store@1", 0) for name in ("near", "far")}

    assert [source.name for source in rank_sources(sources, programs)] == ["near", "far"]  # type: ignore[arg-type]


def test_only_a_few_programs_are_looked_at() -> None:
    seen: list[int] = []

    class Counts(Column):
        def predict(self, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
            seen.append(len(counts))
            return super().predict(rows, counts)

    rank_sources({"one": Counts("per_store@1", 0)}, programs)  # type: ignore[dict-item]

    assert seen == [PROBED_PROGRAMS]


def test_programs_that_are_equally_fast_tell_nothing() -> None:
    def flat(spec: str) -> Programs:
        found = programs(spec)
        found.latency_s[:] = 1e-3
        return found

    with pytest.raises(DataError):
        rank_sources({"one": Column("per_store@1", 0)}, flat)  # type: ignore[dict-item]


def test_programs_that_all_failed_tell_nothing() -> None:
    def failed(spec: str) -> Programs:
        found = programs(spec)
        found.latency_s[:] = np.inf
        return found

    with pytest.raises(DataError, match="no program to learn from"):
        rank_sources({"one": Column("per_store@1", 0)}, failed)  # type: ignore[dict-item]


def test_sources_that_read_different_specs_are_ranked_on_the_same_programs() -> None:
    asked: list[str] = []

    def given(spec: str) -> Programs:
        asked.append(spec)
        return programs(spec)

    sources = {"one": Column("per_store@1", 0), "two": Column("relation@1", 1)}
    one, two = rank_sources(sources, given)  # type: ignore[arg-type]

    assert asked == ["per_store@1+relation@1"]
    assert one.shares == two.shares
    assert len(one.shares) == 4
    assert (one.mean, one.spread) == (two.mean, two.spread)


def test_shares_are_of_workloads_and_the_scale_is_that_of_the_scores() -> None:
    found = {
        source.name: source
        for source in rank_sources(
            {"small": Column("per_store@1", 0), "noisy": Column("per_store@1", 0, noise=9.0)},  # type: ignore[dict-item]
            programs,
        )
    }

    assert set(found["small"].shares.values()) == {1.0}
    assert found["noisy"].spread > 3 * found["small"].spread > 0.0
    assert found["noisy"].pairwise == pytest.approx(np.mean(list(found["noisy"].shares.values())))


def test_programs_that_tell_sources_apart_are_of_workloads_on_which_they_differ() -> None:
    @dataclass
    class Odd(Column):
        """Wrong about every program whose third number is 1."""

        def predict(self, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
            return np.where(rows[:, 2] == 1.0, -1.0, 1.0) * super().predict(rows, counts)

    def marked(spec: str) -> Programs:
        found = programs(spec)
        found.rows[:, 2] = np.isin(found.workload, (3, 7))
        return found

    sources = {"odd": Odd("per_store@1", 0), "right": Column("per_store@1", 0)}
    found = rank_sources(sources, marked, probed=16, tell_apart=True)  # type: ignore[arg-type]

    assert [source.name for source in found] == ["right", "odd"]
    assert set(found[0].shares) == {"w3", "w7"}
    assert (found[0].pairwise, found[1].pairwise) == (1.0, 0.0)
