from __future__ import annotations

import copy

import numpy as np

from costhub.dataset.programs import Programs
from costhub.models.networks.mlp import Mlp
from costhub.models.protocol import CostModel
from costhub.transfer.methods.fine_tune import FineTune


def test_a_network_takes_plain_steps(sources: dict[str, CostModel], target: Programs) -> None:
    by_hand = copy.deepcopy(sources["mlp"])
    assert isinstance(by_hand, Mlp)
    by_hand.fine_tune(target, epochs=3, learning_rate=2e-3, seed=4)

    adapted = FineTune(epochs=3, learning_rate=2e-3).adapt(sources["mlp"], target, seed=4)

    found, expected = (m.predict(target.rows, target.counts) for m in (adapted, by_hand))
    np.testing.assert_array_equal(found, expected)
