from __future__ import annotations

from typing import Any

import pytest

from costhub.models.networks.network_options import NetworkOptions


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"objective": "ranks"}, "objective must be one of regression, rank, lambdarank, gap, got 'ranks'"),
        ({"epochs": 0}, "epochs must be between 1 and 10000, got 0"),
        ({"batch": 1}, "batch must be between 2"),
        ({"learning_rate": float("nan")}, "learning_rate must be between 0 and 1, got nan"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        NetworkOptions(**changes)
