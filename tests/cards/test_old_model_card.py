"""Cards of earlier versions are read, and rendered as they were."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from costhub.cards.model_card import from_results, is_as_rendered, parse, render
from costhub.errors import DataError

TRANSFER = {
    "source": "acme/a-mlp",
    "method": "lottery",
    "trials": 1024,
    "chosen": "adapted",
    "pictures": ["adaptation.png", "masks.png"],
}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_card_of_an_older_version_keeps_its_sentences(
    config: dict[str, Any], evaluation: dict[str, Any], version: int
) -> None:
    card = from_results(config, evaluation, transfer=TRANSFER)
    old = render(replace(card, version=version, workloads=evaluation["workloads"][:2]))

    assert f"card_version: {version}\n" in old
    assert ("It is no latency" in old) == (version < 3)
    assert "--model nvidia-h200 --trials 200" in old
    assert "| resnet18 conv1 | conv2d | 53 | 0.900 | 0.990 | 0.950 | 0.800 |" in old
    assert is_as_rendered(old)
    assert not is_as_rendered(old.replace(f"card_version: {version}", f"card_version: {2 if version == 3 else 3}"))


def test_a_card_of_0_1_0_is_read_and_is_as_rendered() -> None:
    folder = Path(__file__).parents[1] / "artefacts/0.1.0/models/gbt"
    text = (folder / "README.md").read_text(encoding="utf-8")

    card = parse(text)
    assert (card.version, len(card.workloads), card.operators, card.address) == (2, 1, [], "")
    assert is_as_rendered(text)
    assert not is_as_rendered(text.replace("0.625", "0.725", 1))


def test_a_card_without_the_rows_of_its_version_is_refused() -> None:
    folder = Path(__file__).parents[1] / "artefacts/0.1.0/models/gbt"
    text = (folder / "README.md").read_text(encoding="utf-8").replace("  workloads:\n", "  rows:\n")

    with pytest.raises(DataError, match="The card lacks workloads"):
        parse(text)
