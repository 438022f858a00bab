from __future__ import annotations

import dataclasses
import json

import numpy as np
import pyarrow as pa
import pytest

from costhub.dataset.programs import Programs, workload_uses
from costhub.errors import ArgumentError, DataError, ScoreError
from costhub.models import metrics
from costhub.models.evaluate import by_network, by_operator, evaluate_scores, lead, network_top_k


def programs(latency_s: list[float], workload: list[int]) -> Programs:
    ids = tuple(f"w{i}" for i in range(max(workload) + 1))
    return Programs.from_list([np.ones((1, 2))] * len(workload), np.array(workload), ids, np.array(latency_s))


TWO = programs([1.0, 2.0, 4.0, 8.0, 2.0], [0, 1, 0, 1, 0])


def test_totals_are_means_over_workloads_and_not_over_programs() -> None:
    scores = np.array([0.0, 1.0, 2.0, 0.0, 1.0])

    found = evaluate_scores(scores, TWO)

    first, second = found.workloads
    assert (first.workload_id, first.n, first.top_1, first.pairwise, first.spearman) == (
        "w0",
        3,
        0.25,
        0.0,
        -1.0,
    )
    assert (second.workload_id, second.n, second.top_1, second.pairwise) == ("w1", 2, 1.0, 1.0)
    assert found.totals == {
        "top_1": 0.625,
        "top_5": 1.0,
        "pairwise": 0.5,
        "spearman": pytest.approx(0.0, abs=1e-12),
    }


def test_the_figures_are_those_of_the_metrics(train: Programs) -> None:
    scores = np.random.default_rng(0).normal(size=train.n)

    found = evaluate_scores(scores, train, noise_floor=0.1)

    expected = [
        metrics.pairwise(scores[train.workload == i], train.latency_s[train.workload == i], noise_floor=0.1)
        for i in range(6)
    ]
    assert [w.pairwise for w in found.workloads] == expected
    assert found.pairwise == pytest.approx(np.mean(expected))


def test_measured_throughput_as_score_is_perfect(train: Programs) -> None:
    assert list(evaluate_scores(train.throughput(), train).totals.values()) == pytest.approx([1.0] * 4)


def test_workloads_with_nothing_to_rank_are_left_out_and_named() -> None:
    data = programs([1.0, 1.01, 1.0, 2.0, 3.0], [0, 0, 1, 1, 2])

    found = evaluate_scores(np.arange(5.0), data)

    assert [w.workload_id for w in found.workloads] == ["w1"]
    assert found.skipped == ("w0", "w2")


def test_nothing_to_rank_at_all_is_said_so() -> None:
    with pytest.raises(DataError, match="The only workload lacks two programs that differ by more than 2%"):
        evaluate_scores(np.zeros(2), programs([1.0, 1.001], [0, 0]))


def test_no_programs_at_all_is_said_so() -> None:
    empty = TWO.select(np.zeros(5, bool))

    with pytest.raises(
        DataError, match=r"no program to evaluate on: .* no module or trace could be read .*check --deep"
    ):
        evaluate_scores(np.zeros(0), empty)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_scores_that_are_no_numbers_are_refused(value: float) -> None:
    with pytest.raises(ScoreError, match="1 of 5 scores is NaN or infinite"):
        evaluate_scores(np.array([value, 1.0, 2.0, 3.0, 4.0]), TWO)


def test_json_holds_the_totals_and_the_rows() -> None:
    found = json.loads(json.dumps(evaluate_scores(TWO.throughput(), TWO).to_json(), allow_nan=False))

    assert found["totals"]["top_1"] == 1.0
    assert found["standard_errors"]["top_1"] == 0.0
    assert found["workloads"][0] == {
        "workload_id": "w0",
        "device_id": "",
        "n": 3,
        "top_1": 1.0,
        "top_5": 1.0,
        "pairwise": 1.0,
        "spearman": pytest.approx(1.0),
        "best_s": 1.0,
        "best_of_1_s": 1.0,
        "best_of_5_s": 1.0,
    }
    assert (found["noise_floor"], found["skipped"]) == (0.02, [])


def test_programs_that_failed_are_left_out() -> None:
    failed = dataclasses.replace(TWO, latency_s=np.array([1.0, 2.0, 4.0, np.inf, 2.0]))

    found = evaluate_scores(np.array([0.0, 1.0, 2.0, 9.0, 1.0]), failed)

    assert [(row.workload_id, row.n) for row in found.workloads] == [("w0", 3)]
    assert found.skipped == ("w1",)  # one program ran, so there is nothing to rank


def test_programs_of_different_devices_are_never_compared() -> None:
    fast, slow = (dataclasses.replace(TWO, device_ids=(name,)) for name in ("fast", "slow"))
    slow = dataclasses.replace(slow, latency_s=1000 * TWO.latency_s)
    scores = np.concatenate([TWO.throughput(), -TWO.throughput()])

    found = evaluate_scores(scores, Programs.join([fast, slow]))

    assert [(row.workload_id, row.device_id, row.pairwise) for row in found.workloads] == [
        ("w0", "fast", 1.0),
        ("w0", "slow", 0.0),
        ("w1", "fast", 1.0),
        ("w1", "slow", 0.0),
    ]


def test_the_standard_error_is_that_of_a_mean_over_workloads() -> None:
    found = evaluate_scores(np.array([0.0, 1.0, 2.0, 0.0, 1.0]), TWO)

    # top_1 is 0.25 and 1: their standard deviation over sqrt(2).
    assert found.standard_errors["top_1"] == pytest.approx(np.std([0.25, 1.0], ddof=1) / np.sqrt(2))
    one = evaluate_scores(np.zeros(2), programs([1.0, 2.0], [0, 0]))
    assert one.to_json()["standard_errors"]["top_1"] is None


def test_a_workload_measured_twice_as_often_is_no_surer() -> None:
    both = Programs.join([dataclasses.replace(TWO, device_ids=(name,)) for name in ("a", "b")])
    scores = np.array([0.0, 1.0, 2.0, 0.0, 1.0])

    found = evaluate_scores(np.concatenate([scores, scores]), both)

    assert found.standard_errors == pytest.approx(evaluate_scores(scores, TWO).standard_errors)


def test_a_lead_is_the_mean_of_the_differences_with_their_own_error() -> None:
    first, other = (
        evaluate_scores(np.array(scores), TWO) for scores in ([2.0, 1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 2.0, 0.0, 1.0])
    )

    # top_1 is 1 and 1, and 0.25 and 1.
    assert lead(first, other, "top_1") == pytest.approx((0.375, 0.375))
    assert lead(other, first, "top_1") == pytest.approx((-0.375, 0.375))
    assert lead(first, first, "top_1") == (0.0, 0.0)


LATENCY_S = np.array([1.0, 2.0, 1.0, 4.0, 3.0, 6.0])
PROGRAMS = Programs.from_list([np.ones((1, 1))] * 6, np.array([0, 0, 1, 1, 2, 2]), ("a", "b", "c"), LATENCY_S)
RIGHT_WRONG_RIGHT = np.array([1.0, 0.0, 0.0, 1.0, 1.0, 0.0])
USES = workload_uses(
    pa.table(
        {
            "workload_id": ["a", "b", "c"],
            "name": ["conv1", "conv2", None],
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


def test_an_evaluation_is_a_short_table_and_a_data_frame() -> None:
    evaluation = evaluate_scores(RIGHT_WRONG_RIGHT, dataclasses.replace(PROGRAMS, uses=USES, device_ids=("acme",)))

    lines = str(evaluation).splitlines()
    assert lines[0] == "6 programs of 3 workloads on acme"
    assert lines[1].split() == ["top_1", "0.750", "±0.250"]
    assert [line.split()[0] for line in lines[5:]] == ["top_1_tenset", "top_5_tenset", "top_1_tlp", "top_5_tlp"]
    assert lines[5].split() == ["top_1_tenset", "0.375"]
    assert repr(evaluation) == str(evaluation)
    frame = evaluation.to_pandas()
    assert frame["workload"].tolist() == ["conv1", "conv2", "c"]
    assert frame[["operator", "programs", "top_1"]].values.tolist() == [
        ["conv", 2, 1.0],
        ["conv", 2, 0.25],
        ["matmul", 2, 1.0],
    ]
    assert frame["best_of_1_us"].tolist() == [1e6, 4e6, 3e6]


def test_without_names_ids_stand_for_workloads_and_no_variant_is_printed() -> None:
    evaluation = evaluate_scores(RIGHT_WRONG_RIGHT, PROGRAMS)

    assert evaluation.variants == {}
    assert str(evaluation).splitlines()[0] == "6 programs of 3 workloads"
    assert evaluation.to_pandas()["workload"].tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("noise_floor", [-0.1, 1.0, float("nan")])
def test_a_noise_that_is_no_share_is_refused(noise_floor: float, train: Programs) -> None:
    with pytest.raises(ArgumentError, match="noise_floor must be at least 0 and below 1"):
        evaluate_scores(np.zeros(train.n), train, noise_floor=noise_floor)
