from __future__ import annotations

import numpy as np

from costhub.dataset.programs import Programs
from costhub.models.baselines.tvm_xgb import TvmXgb
from costhub.models.evaluation.evaluate import evaluate_scores


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
