from __future__ import annotations

import numpy as np

from costhub.dataset.check.context import Context, WorkloadFacts


def test_columns_end_with_nan_for_what_is_unknown() -> None:
    facts = WorkloadFacts("w0", 1e6, 1e3, True)
    context = Context({"cpu0": {"cores": 2}, "cpu1": {}}, {"w0": facts})

    np.testing.assert_equal(context.device_column("cores"), [2, np.nan, np.nan])
    np.testing.assert_equal(context.workload_column("flop"), [1e6, np.nan])
    assert context.device_ids().to_pylist() == ["cpu0", "cpu1"]
    assert context.workload_ids().to_pylist() == ["w0"]


def test_nothing_known_is_a_context_too() -> None:
    assert Context().device_ids().type == "string"
    np.testing.assert_equal(Context().workload_column("bytes"), [np.nan])
