from __future__ import annotations

from typing import Any

from costhub.cards.training_table import training_table

DONE: dict[str, Any] = {"stage": "gbt", "programs": 951_360, "passes": 30, "seconds": 485.18, "peak_gib": 2}


def test_a_stage_shows_its_time_and_memory() -> None:
    lines = training_table({"rows": [DONE]}).splitlines()

    assert "| gbt | 951,360 | 30 | 485.2 |" in lines[-1]
    assert "| 2.00 |" in lines[-1]
    assert "ended by" not in lines[0]


def test_a_stage_that_ran_out_of_memory_says_so() -> None:
    lines = training_table({"rows": [DONE, {"stage": "mlp", "ended": "the limit of 8 GiB"}]}).splitlines()

    assert "the limit of 8 GiB" in lines[-1]
