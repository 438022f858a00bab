"""A workload's row: what it computes, counted."""

import json

import pytest

from costhub.collector.suite import find_workload
from costhub.collector.workload_row import describe
from costhub.dataset.schema import table_from_rows


def test_a_matmul_counts_its_operations_and_bytes() -> None:
    workload = find_workload("matmul.128x768x3072")
    row = describe(workload, workload.module())

    assert row["flop"] == 2 * 128 * 768 * 3072
    assert row["bytes"] == 4 * (128 * 3072 + 3072 * 768 + 128 * 768)
    assert json.loads(row["shapes"]) == [[128, 3072], [3072, 768], [128, 768]]
    assert row["operator"] == "matmul"


@pytest.mark.parametrize("name", ["resnet18.c1", "softmax.64x1000", "norm.layer-128x768"])
def test_a_row_fits_the_table(name: str) -> None:
    workload = find_workload(name)
    assert table_from_rows("workloads", [describe(workload, workload.module())]).num_rows == 1
