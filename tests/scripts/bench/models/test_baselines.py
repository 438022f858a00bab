from __future__ import annotations

import math

import numpy as np
import torch

from costhub.dataset.programs import Programs
from costhub.models.evaluate import evaluate_scores
from scripts.bench.models.baselines import TensetMlp, TvmXgb, lambda_rank


def test_it_learns_and_carries_over(train: Programs, unseen: Programs) -> None:
    model = TensetMlp()
    model.fit(train, seed=0)

    assert evaluate_scores(model.predict(train.rows, train.counts), train).pairwise > 0.9
    assert evaluate_scores(model.predict(unseen.rows, unseen.counts), unseen).pairwise > 0.8


def test_equal_seeds_give_equal_models_and_leave_the_global_state_alone(train: Programs) -> None:
    small = train.select(np.arange(60))
    before = torch.random.get_rng_state()
    scores = []
    for seed in (0, 0, 1):
        model = TensetMlp()
        model.fit(small, seed=seed)
        scores.append(model.predict(small.rows, small.counts))

    assert torch.equal(torch.random.get_rng_state(), before)
    np.testing.assert_array_equal(scores[0], scores[1])
    assert not np.array_equal(scores[0], scores[2])


def test_blocks_do_not_change_a_score(train: Programs) -> None:
    model = TensetMlp()
    model.fit(train.select(np.arange(60)), seed=0)
    many = train.select(np.arange(5000) % train.n)

    scores = model.predict(many.rows, many.counts)

    np.testing.assert_allclose(scores[: train.n], model.predict(train.rows, train.counts), rtol=1e-4, atol=1e-5)


def test_the_loss_is_the_change_of_ndcg_times_the_surprise() -> None:
    scores, throughput = [0.3, 1.2, -0.4], [1.0, 0.5, 0.25]
    rank = {1: 1, 0: 2, 2: 3}  # by score
    discount = {i: 1 / math.log2(1 + rank[i]) for i in rank}
    highest = sum((2**c - 1) / math.log2(1 + place) for place, c in enumerate(throughput, start=1))
    expected = 0.0
    for i in range(3):
        for j in range(i + 1, 3):  # i is the faster one
            gain = (2 ** throughput[i] - 2 ** throughput[j]) / highest
            weight = abs(discount[i] - discount[j]) * gain
            expected += weight * math.log2(1 + math.exp(scores[j] - scores[i]))

    found = float(lambda_rank(torch.tensor(scores), torch.tensor(throughput)))

    assert math.isclose(found, expected, rel_tol=1e-5)


def test_its_size_counts_every_weight(train: Programs) -> None:
    model = TensetMlp()
    model.fit(train.select(np.arange(20)), seed=0)
    columns = train.rows.shape[1]
    weights = (columns * 256 + 256) + 3 * (256 * 256 + 256) + 257

    assert model.size_bytes() == 4 * (weights + columns)


def test_the_score_of_a_program_is_the_sum_over_its_rows(train: Programs, unseen: Programs) -> None:
    model = TvmXgb()
    model.fit(train)
    single = model.predict(unseen.rows, np.ones(len(unseen.rows), np.int64))

    scores = model.predict(unseen.rows, unseen.counts)

    ends = np.cumsum(unseen.counts)
    expected = [single[e - c : e].sum() for e, c in zip(ends, unseen.counts, strict=True)]
    np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-7)
    assert scores[unseen.counts == 0].tolist() == [0.0] * int((unseen.counts == 0).sum())


def test_it_learns_what_it_was_shown(train: Programs) -> None:
    model = TvmXgb()
    model.fit(train)

    assert evaluate_scores(model.predict(train.rows, train.counts), train).top_1 > 0.9
