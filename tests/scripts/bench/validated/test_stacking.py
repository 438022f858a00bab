"""The benchmark of blends that are fitted out of fold: what is fitted to what, and that it can help."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costhub.models.evaluate import evaluate_scores
from costhub.testing import made_programs
from scripts.bench.common.data import DATASETS, SplitPart
from scripts.bench.common.rows import RowFile
from scripts.bench.models.tasks import DeviceData
from scripts.bench.validated import stacking
from scripts.bench.validated.stacking import (
    EQUAL,
    MEMBERS,
    PENALISED,
    TODAY,
    TREES,
    WAYS,
    WEIGHTED,
    Fold,
    combinations,
    cross_fitted,
    penalised,
    summary,
)
from scripts.bench.validated.validation import KEY, TEST, VALIDATION, named, standardised


def fold(seed: int, errors: tuple[float, ...]) -> Fold:
    """Members whose scores are the true ones and noise."""
    programs = made_programs("demo@1", workloads=6, each=40, seed=seed)
    noise = np.random.default_rng(seed).normal(size=(len(errors), programs.n)) * np.array(errors)[:, None]
    truth = -np.log(programs.latency_s)
    truth -= (np.bincount(programs.group, truth) / np.bincount(programs.group))[programs.group]
    return Fold(truth + noise, programs)


def quality_of(way: str, learned: Fold, tested: Fold) -> float:
    scores = combinations(learned, 0)[way](tested.scores)
    return evaluate_scores(scores, tested.programs).pairwise


def test_fitted_weights_and_trees_find_the_member_that_can_be_trusted() -> None:
    learned, tested = fold(0, (3.0, 3.0, 0.1, 3.0)), fold(1, (3.0, 3.0, 0.1, 3.0))

    assert quality_of(WEIGHTED, learned, tested) > quality_of(EQUAL, learned, tested) + 0.1
    assert quality_of(TREES, learned, tested) > quality_of(EQUAL, learned, tested) + 0.1


def test_todays_blend_is_the_mean_of_the_first_two_and_nothing_is_penalised_that_agrees() -> None:
    learned = fold(0, (0.0, 0.0, 0.0, 0.0))
    found = combinations(learned, 0)
    scores = np.array([[1.0, 2.0], [3.0, 4.0], [9.0, 0.0], [9.0, 0.0]])

    assert found[TODAY](scores).tolist() == [2.0, 3.0]
    assert found[EQUAL](scores).tolist() == [5.5, 1.5]
    np.testing.assert_allclose(found[PENALISED](learned.scores), learned.scores[0])


def test_a_program_on_which_members_disagree_loses_a_share_of_their_spread() -> None:
    agreed, disputed = penalised(1.0, np.array([[1.0, 0.0], [1.0, 4.0]]))

    assert (agreed, disputed) == (1.0, 0.0)


def test_scores_are_on_the_scale_of_what_the_member_learned_from() -> None:
    programs = made_programs("demo@1", workloads=2, each=20, seed=0)
    own = np.random.default_rng(0).normal(size=programs.n)

    once, scaled = standardised([(own, own), (3.0 + 10.0 * own, 3.0 + 10.0 * own)], programs)

    np.testing.assert_allclose(once, scaled)
    assert once.mean() == pytest.approx(0.0, abs=1e-9)


def test_no_combination_is_validated_on_a_fold_that_it_was_fitted_to(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [fold(seed, (1.0, 1.0, 1.0, 1.0)) for seed in range(3)]
    fitted: list[int] = []

    def combining(learned: Fold, seed: int) -> Any:
        fitted.append(learned.programs.n)
        kept = {scores.tobytes() for scores in learned.scores.T}
        return {TODAY: lambda other: np.array([float(each.tobytes() in kept) for each in other.T])}

    monkeypatch.setattr(stacking, "combinations", combining)
    found = cross_fitted(parts, 0)

    assert fitted == [2 * parts[0].programs.n] * 3
    assert found[TODAY].tolist() == [0.0] * (3 * parts[0].programs.n)


def test_what_is_tested_is_learned_by_no_member_and_rows_are_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    source = DeviceData(DATASETS / "amd-epyc-zen5", "amd-epyc-zen5-2c")
    (split,) = source.parts(["workload-40-seed0"], 0)
    sides: list[SplitPart] = []

    def some(self: DeviceData, part: SplitPart, entry: Any, seed: int) -> Any:
        sides.append(part)
        return tuple(made_programs("demo@1", workloads=3, each=20, seed=len(sides) + 9 * side) for side in (0, 1))

    def scored(entry: Any, train: Any, test: Any, seed: int) -> Any:
        rng = np.random.default_rng(seed)
        return rng.normal(size=train.n), rng.normal(size=test.n), 1.0

    monkeypatch.setattr(DeviceData, "sides", some)
    monkeypatch.setattr(stacking, "scores_of", scored)
    kept = RowFile(None, KEY)
    for _ in range(2):
        stacking.add_rows(source, split, kept, 0)

    assert len(sides) == 4  # three folds and the whole, once
    for part in sides[:3]:
        assert part.train | part.test == split.train
        assert not part.train & part.test
        assert not (part.train | part.test) & split.test
    assert set.union(*(set(part.test) for part in sides[:3])) == split.train
    table = summary(kept.all)
    assert [line["model"] for line in table if line["part"] == VALIDATION] == list(WAYS)
    assert [line["model"] for line in table if line["part"] == TEST] == [*WAYS, *map(named, MEMBERS)]
    assert all(line["top_1_gain"] == 0.0 for line in table if line["model"] == TODAY)
