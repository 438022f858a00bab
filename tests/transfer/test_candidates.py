from __future__ import annotations

from costhub.transfer.candidates import ADAPTED, CANDIDATES, LOCAL, SOURCE


def test_the_adapted_model_comes_first() -> None:
    assert CANDIDATES == (ADAPTED, SOURCE, LOCAL)
