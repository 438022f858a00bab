from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from costhub.search.options import Search


def test_two_searches_share_what_is_not_changed(linear: Any) -> None:
    model = linear(np.zeros(3))
    search = Search(model, trials_per_round=8)

    again = replace(search, seed=7)

    assert again.model is model
    assert (again.trials_per_round, again.seed, search.seed) == (8, 7, 0)
