"""The card of the latency predictor: who measured what it learned from."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from costhub.api.estimating.estimate import PREDICTOR
from costhub.hub.catalogue.hubs import EMBEDDED
from scripts.release.train_latency import card

CREDIT = (
    "costhub (CC-BY-4.0), microsoft/nnfusion (MIT; replayed from logs of Ansor), measurer not recorded (Apache-2.0)."
)


class Table:
    inputs = np.zeros((3, 61))

    def __len__(self) -> int:
        return 3


def test_the_card_names_those_who_measured_once_with_their_licences() -> None:
    datasets = [f"costhub/{name}@0" for name in ("amd-epyc-zen4", "nvidia-k80", "nvidia-h200", "amd-mi50")]
    predictor: Any = SimpleNamespace(devices=("one",), workloads=("w",), facts={"datasets": datasets})

    text = card(predictor, cast(Any, Table()))

    assert f"- Who measured the data, and their licences: {CREDIT}\n" in text
    assert text.endswith("under CC-BY-4.0 (https://creativecommons.org/licenses/by/4.0/), like the data of the CPUs.\n")


def test_the_shipped_card_says_so_too() -> None:
    text = (EMBEDDED / PREDICTOR / "README.md").read_text()

    assert "- Who measured the data, and their licences: costhub (CC-BY-4.0), " in text
    assert all(f"{who} (MIT" in text for who in ("lac-dcc/bennu", "microsoft/nnfusion"))
    assert "measurer not recorded (Apache-2.0)" in text
    assert "The predictor itself is under CC-BY-4.0" in text
