from __future__ import annotations

import numpy as np

from costhub.dataset.programs import Programs
from costhub.models.compound.residual import Residual
from costhub.models.protocol import CostModel
from costhub.transfer.methods.residual_trees import ResidualTrees


def test_the_global_model_is_the_source(sources: dict[str, CostModel], target: Programs) -> None:
    adapted = ResidualTrees().adapt(sources["mlp"], target, seed=0)

    assert isinstance(adapted, Residual)
    assert adapted.local is not None
    assert adapted.slope > 0
    found, expected = (m.predict(target.rows, target.counts) for m in (adapted.base, sources["mlp"]))
    np.testing.assert_array_equal(found, expected)


def test_of_a_source_with_a_local_model_the_global_one_is_carried_over(
    sources: dict[str, CostModel], target: Programs
) -> None:
    source = ResidualTrees().adapt(sources["mlp"], target, seed=0)

    again = ResidualTrees().adapt(source, target, seed=0)

    assert isinstance(again, Residual)
    found, expected = (m.predict(target.rows, target.counts) for m in (again, source))
    np.testing.assert_array_equal(found, expected)
