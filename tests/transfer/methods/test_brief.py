from __future__ import annotations

import copy

import numpy as np

from costhub.dataset.programs import Programs
from costhub.models.protocol import CostModel
from costhub.transfer.methods.brief import Brief


def test_it_is_what_update_does_to_a_copy(sources: dict[str, CostModel], target: Programs) -> None:
    for arch, source in sources.items():
        before = source.predict(target.rows, target.counts)
        updated = copy.deepcopy(source)
        updated.update(target, seed=0)

        adapted = Brief().adapt(source, target, seed=0)

        assert np.array_equal(source.predict(target.rows, target.counts), before), arch
        if arch in ("mlp", "gbt"):  # of one part, which gets the seed itself
            theirs = updated.predict(target.rows, target.counts)
            assert np.array_equal(adapted.predict(target.rows, target.counts), theirs), arch
