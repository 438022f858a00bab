from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from costhub.models.networks.gradient import Schedule
from costhub.models.networks.network_options import NetworkOptions


def test_the_schedule_has_the_options_but_for_what_is_given() -> None:
    options = NetworkOptions(epochs=7, learning_rate=0.5, objective="rank", batch=32)

    whole, other = options.schedule(), options.schedule(epochs=2, learning_rate=0.25)

    assert {f.name: getattr(whole, f.name) for f in fields(Schedule)} == {
        f.name: getattr(options, f.name) for f in fields(Schedule)
    }
    assert (other.epochs, other.learning_rate, other.objective) == (2, 0.25, "rank")


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
