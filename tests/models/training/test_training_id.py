from __future__ import annotations

from dataclasses import replace

import numpy as np

from costhub.dataset.programs import Programs
from costhub.models.training.training_id import training_id


def test_the_id_changes_with_all_that_the_result_depends_on(train: Programs) -> None:
    slower = train.latency_s.copy()
    slower[3] *= 1.5
    rows = train.rows.copy()
    rows[0, 0] += 1.0
    one = {"seed": 0}
    found = [
        training_id(train, None, one),
        training_id(train, None, {"seed": 1}),
        training_id(train, train, one),
        training_id(replace(train, latency_s=slower), None, one),
        training_id(replace(train, rows=rows), None, one),
        training_id(train.select(np.arange(train.n)[::-1]), None, one),
    ]

    assert len(set(found)) == len(found)
    assert training_id(train.select(np.arange(train.n)), None, one) == found[0]
