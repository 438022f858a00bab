from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

from costhub.dataset.programs import Programs
from costhub.models.evaluation.breakdown import by_network, by_operator, network_top_k, workload_uses
from costhub.models.evaluation.evaluate import evaluate_scores

LATENCY_S = np.array([1.0, 2.0, 1.0, 4.0, 3.0, 6.0])
PROGRAMS = Programs.from_list([np.ones((1, 1))] * 6, np.array([0, 0, 1, 1, 2, 2]), ("a", "b", "c"), LATENCY_S)
RIGHT_WRONG_RIGHT = np.array([1.0, 0.0, 0.0, 1.0, 1.0, 0.0])
USES = workload_uses(
    pa.table(
        {
            "workload_id": ["a", "b", "c"],
            "operator": ["conv", "conv", "matmul"],
            "networks": [
                [{"name": "n1", "weight": 2.0}],
                [{"name": "n1", "weight": 1.0}, {"name": "n2", "weight": 1.0}],
                [],
            ],
        }
    )
)


def test_families_are_evaluated_by_themselves() -> None:
    found = by_operator(evaluate_scores(RIGHT_WRONG_RIGHT, PROGRAMS), USES)

    assert {name: part.top_1 for name, part in found.items()} == {"conv": 0.625, "matmul": 1.0}
    assert list(by_operator(evaluate_scores(RIGHT_WRONG_RIGHT, PROGRAMS), {})) == ["other"]


def test_a_workload_is_in_every_network_that_uses_it() -> None:
    found = by_network(evaluate_scores(RIGHT_WRONG_RIGHT, PROGRAMS), USES)

    assert {name: [row.workload_id for row in part.workloads] for name, part in found.items()} == {
        "n1": ["a", "b"],
        "n2": ["b"],
    }


def test_the_variants_of_the_literature_weigh_layers() -> None:
    found = network_top_k(evaluate_scores(RIGHT_WRONG_RIGHT, PROGRAMS), USES, k=1)

    # n1: (2 x 1 + 1 x 1) / (2 x 1 + 1 x 4); n2: 1 / 4; pooled: 4 / 10.
    assert found is not None
    assert dict(found.networks) == {"n1": 0.5, "n2": 0.25}
    assert found.tenset == pytest.approx(0.375)
    assert found.tlp == pytest.approx(0.4)


def test_latencies_of_different_devices_are_not_added() -> None:
    slow = dataclasses.replace(PROGRAMS, latency_s=100 * LATENCY_S, device_ids=("slow",))
    both = Programs.join([dataclasses.replace(PROGRAMS, device_ids=("fast",)), slow])
    scores = np.concatenate([RIGHT_WRONG_RIGHT, -LATENCY_S])  # perfect on the slow one

    found = network_top_k(evaluate_scores(scores, both), USES, k=1)

    assert found is not None
    assert found.tlp == pytest.approx((0.4 + 1.0) / 2)
    assert found.networks["n1"] == pytest.approx((0.5 + 1.0) / 2)


def test_five_are_enough_for_two_and_without_networks_there_is_nothing() -> None:
    evaluation = evaluate_scores(RIGHT_WRONG_RIGHT, PROGRAMS)

    found = network_top_k(evaluation, USES, k=5)

    assert found is not None
    assert found.tlp == 1.0
    assert network_top_k(evaluation, {}, k=1) is None
