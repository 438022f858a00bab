from __future__ import annotations

import numpy as np

from costhub.transfer.controller.batch import Batch
from costhub.transfer.controller.forecast import Forecast
from costhub.transfer.controller.worthwhile import Worthwhile


def batch(waiting: float) -> Batch:
    scores = np.linspace(-1.0, 0.0, 8)
    return Batch(np.exp(-scores), scores, waiting)


def test_it_ends_where_the_forecast_falls_below_the_threshold() -> None:
    rule = Worthwhile(threshold=0.02, forecast=Forecast(record_gain=0.0))

    assert rule.goes_on([batch(0.03)])
    assert not rule.goes_on([batch(0.01)])


def test_it_ends_where_nothing_waits() -> None:
    assert not Worthwhile().goes_on([batch(-np.inf)])


def test_a_threshold_of_nothing_never_ends() -> None:
    assert Worthwhile(threshold=0.0).goes_on([batch(-9.0)] * 500)


def test_a_higher_threshold_ends_no_later() -> None:
    batches = [batch(waiting) for waiting in np.linspace(0.2, -0.5, 30)]
    ends = [
        next(count for count in range(1, 31) if not Worthwhile(t).goes_on(batches[:count]))
        for t in (0.005, 0.01, 0.02, 0.05)
    ]

    assert ends == sorted(ends, reverse=True)
    assert len(set(ends)) > 1
