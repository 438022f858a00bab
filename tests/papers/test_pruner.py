"""The slow copy, and a draft that the full model verifies."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from costhub.dataset.programs import Programs
from costhub.errors import ScoreError
from costhub.models.networks.mlp import Mlp
from costhub.models.protocol import CostModel
from costhub.papers.pruner import MIN_VERIFIED, DraftModel, Momentum
from costhub.search.search_model import SearchModel
from costhub.transfer.methods.method import FineTune

Models = dict[str, CostModel]


def distance(one: CostModel, other: CostModel) -> float:
    assert isinstance(one, Mlp)
    assert isinstance(other, Mlp)
    pairs = zip(one.networks[0].parameters(), other.networks[0].parameters(), strict=True)
    return float(torch.stack([(a - b).detach().norm() for a, b in pairs]).norm())


def test_the_slow_copy_stays_nearer_to_the_source(sources: Models, measured_here: Programs) -> None:
    source, fast = sources["mlp"], FineTune().adapt(sources["mlp"], measured_here, seed=0)
    found = [Momentum(keep=keep).adapt(source, measured_here, seed=0) for keep in (0.0, 0.9, 0.99)]

    away = [distance(model, source) for model in found]

    assert away[0] == pytest.approx(distance(fast, source))
    assert away[0] > away[1] > away[2] > 0


def test_keeping_all_is_the_source(sources: Models, measured_here: Programs) -> None:
    assert distance(Momentum(keep=1.0).adapt(sources["mlp"], measured_here, seed=0), sources["mlp"]) == 0.0


@pytest.mark.parametrize("option", [{"keep": 3.0}, {"epochs": 0}, {"learning_rate": 2.0}, {"learning_rate": math.nan}])
def test_momentum_beyond_its_limits_is_refused_before_anything_is_learned(option: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(option))} must be between"):
        Momentum(**option)  # type: ignore[arg-type]


N = 256


def features(values: np.ndarray) -> list[Any]:
    return [np.array([[value]], np.float32) for value in values]


class Lowering:
    """Features for the full model, and a note of whose were asked for."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self.asked: list[list[int]] = []

    def __call__(self, chosen: np.ndarray) -> list[Any]:
        self.asked.append(chosen.tolist())
        return features(self.values[chosen])


@pytest.fixture
def values() -> np.ndarray:
    return np.random.default_rng(0).permutation(N).astype(float)


@pytest.fixture
def both(linear: Any) -> DraftModel:
    # The full model doubles what the draft says, and adds nothing.
    return DraftModel(SearchModel(linear([2.0])), SearchModel(linear([1.0])), share=0.125)


def test_only_the_best_of_the_draft_are_lowered_once_the_scale_is_known(both: DraftModel, values: np.ndarray) -> None:
    lowering = Lowering(values)
    for _ in range(2):
        both.predict("t", features(values), lowering)

    best = np.argsort(-values)[: N // 8].tolist()
    assert lowering.asked[1] == best
    assert lowering.asked[0][: len(best)] == best
    # Then a few of the others, for the line.
    assert len(best) < len(lowering.asked[0]) < N // 4


def test_a_draft_that_agrees_gives_the_scores_of_the_full_model(
    both: DraftModel, values: np.ndarray, linear: Any
) -> None:
    scores = both.predict("t", features(values), Lowering(values))

    alone = SearchModel(linear([2.0])).predict("t", features(values))
    np.testing.assert_allclose(scores, alone, rtol=1e-6)


def test_scores_of_different_calls_compare(both: DraftModel, values: np.ndarray) -> None:
    everything = both.predict("t", features(values), Lowering(values))
    few = both.predict("t", features(values[:40]), Lowering(values[:40]))

    assert few == pytest.approx(everything[:40])
    assert (few > 0).all()


def test_what_the_full_model_says_goes_before_the_draft(linear: Any) -> None:
    both = DraftModel(SearchModel(linear([1.0])), SearchModel(linear([1.0])), share=0.125)
    guess, truth = np.arange(N, dtype=float), np.arange(N, dtype=float)
    truth[-1] = -1000.0
    both.predict("t", features(guess[:-1]), Lowering(truth[:-1]))

    scores = both.predict("t", features(guess), Lowering(truth))

    assert scores.argmin() == N - 1
    assert scores.argmax() == N - 2


@pytest.mark.parametrize("sign", [0.0, -1.0])
def test_a_draft_that_knows_nothing_does_no_harm(linear: Any, sign: float, values: np.ndarray) -> None:
    both = DraftModel(SearchModel(linear([1.0])), SearchModel(linear([sign])), share=0.125)
    lowering = Lowering(values)

    scores = both.predict("t", features(values), lowering)

    seen = lowering.asked[0]
    unseen = np.setdiff1d(np.arange(N), seen)
    assert np.ptp(scores[unseen]) == 0
    assert scores[seen].max() > scores[unseen[0]] > scores[seen].min()


def test_a_small_batch_is_scored_whole(both: DraftModel) -> None:
    values = np.arange(MIN_VERIFIED, dtype=float)
    lowering = Lowering(values)

    both.predict("t", features(values), lowering)

    assert sorted(lowering.asked[0]) == list(range(MIN_VERIFIED))
    assert both.predict("t", [], Lowering(values)).shape == (0,)


def test_candidates_without_features_score_lowest(both: DraftModel, values: np.ndarray) -> None:
    drafts: list[Any] = features(values)
    best = int(values.argmax())
    drafts[7] = None

    scores = both.predict("t", drafts, lambda chosen: [None if i == best else f for i, f in _lowered(chosen, values)])

    assert scores[best] == scores[7] == scores.min() > 0


def _lowered(chosen: np.ndarray, values: np.ndarray) -> list[tuple[int, Any]]:
    return list(zip(chosen.tolist(), features(values[chosen]), strict=True))


def test_the_scale_is_taken_anew_when_a_model_has_learned(linear: Any, values: np.ndarray) -> None:
    both = DraftModel(SearchModel(linear([1.0], shift=3.0)), SearchModel(linear([1.0])), share=0.125)
    lowering = Lowering(values)
    both.predict("t", features(values), lowering)
    both.full.update("t", features(values[:4]), np.array([4e-3, 3e-3, 2e-3, 1e-3]))

    scores = both.predict("t", features(values), lowering)

    assert len(lowering.asked[1]) == len(lowering.asked[0])
    np.testing.assert_allclose(scores, SearchModel(linear([4.0])).predict("t", features(values)), rtol=1e-6)


def test_a_full_model_without_usable_scores_is_refused(linear: Any, values: np.ndarray) -> None:
    both = DraftModel(SearchModel(linear([np.nan])), SearchModel(linear([1.0])))

    with pytest.raises(ScoreError, match="NaN"):
        both.predict("t", features(values), Lowering(values))


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5, float("nan")])
def test_a_share_that_is_none_is_refused(linear: Any, share: float) -> None:
    model = SearchModel(linear([1.0]))
    with pytest.raises(ValueError, match="share"):
        DraftModel(model, model, share=share)
