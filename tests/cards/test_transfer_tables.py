from __future__ import annotations

import pytest

from costhub.cards.transfer_tables import summaries


def row(method: str, seed: int, top_1: float) -> dict[str, object]:
    return {
        "source": "a", "target": "b", "method": method, "part": "", "trials": 64, "seed": seed,
        "top_1": top_1, "top_5": 1.0, "pairwise": 0.5,
    }  # fmt: skip


def test_seeds_become_a_mean_and_its_standard_error() -> None:
    [first, second] = summaries([row("x", 0, 0.5), row("y", 0, 0.2), row("x", 1, 0.7)])

    assert (first["method"], first["seeds"], second["method"], second["seeds"]) == ("x", 2, "y", 1)
    assert first["top_1"] == pytest.approx(0.6)
    assert first["top_1_se"] == pytest.approx(0.1)
    assert (first["top_5_se"], second["top_1_se"]) == (0.0, None)
