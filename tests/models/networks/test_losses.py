from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from costhub.models.networks.losses import (
    OBJECTIVES,
    Weighting,
    listnet_loss,
    objective_loss,
    pairs,
    pairwise_logistic,
    squared_error,
)

SCORES = torch.tensor([2.0, 0.5, 1.0, -1.0])
THROUGHPUT = torch.tensor([0.5, 1.0, 1.0, 0.25])
GROUP = torch.tensor([0, 0, 1, 1])


def test_pairwise_is_the_mean_over_the_pairs_of_a_workload() -> None:
    # Workload 0: program 1 is faster but scored lower by 1.5; workload 1: 2 is, and scored higher by 2.
    expected = (math.log1p(math.exp(1.5)) + math.log1p(math.exp(-2.0))) / 2

    assert float(pairwise_logistic(SCORES, THROUGHPUT, GROUP)) == pytest.approx(expected, rel=1e-6)


def test_gap_weighting_weighs_pairs_by_the_throughput_lost() -> None:
    expected = (0.5 * math.log1p(math.exp(1.5)) + 0.75 * math.log1p(math.exp(-2.0))) / 1.25

    assert float(pairwise_logistic(SCORES, THROUGHPUT, GROUP, weighting="gap")) == pytest.approx(expected, rel=1e-6)


def test_dcg_weighting_minds_a_swap_at_the_top_more_than_one_at_the_bottom() -> None:
    throughput, group = torch.tensor([1.0, 0.7, 0.4, 0.1]), torch.zeros(4, dtype=torch.int64)
    top, bottom = torch.tensor([2.0, 3.0, 1.0, 0.0]), torch.tensor([3.0, 2.0, 0.0, 1.0])

    at_top, at_bottom = (pairwise_logistic(s, throughput, group, weighting="dcg") for s in (top, bottom))

    assert at_top > at_bottom
    equal_top, equal_bottom = (pairwise_logistic(s, throughput, group) for s in (top, bottom))
    torch.testing.assert_close(equal_top, equal_bottom)


@pytest.mark.parametrize("weighting", ["equal", "gap", "dcg"])
def test_nothing_to_compare_is_no_loss_and_no_gradient(weighting: Weighting) -> None:
    scores = torch.tensor([1.0, 2.0], requires_grad=True)

    loss = pairwise_logistic(scores, torch.tensor([1.0, 1.0]), torch.tensor([0, 1]), weighting=weighting)
    loss.backward()  # type: ignore[no-untyped-call]

    assert loss.item() == 0.0
    assert scores.grad is not None
    assert scores.grad.tolist() == [0.0, 0.0]


@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(0.01, 1.0), st.integers(0, 2)), min_size=2, max_size=8))
def test_a_shift_of_one_workloads_scores_changes_no_loss(programs: list[tuple[float, float, int]]) -> None:
    scores, throughput = torch.tensor([p[0] for p in programs]), torch.tensor([p[1] for p in programs])
    group = torch.tensor([p[2] for p in programs])
    shifted = scores + 1.5 * (group == 1)

    for loss in (pairwise_logistic, listnet_loss):
        torch.testing.assert_close(loss(scores, throughput, group), loss(shifted, throughput, group))


def test_best_likelihood_is_the_mean_cross_entropy_of_workloads() -> None:
    total = torch.zeros(())
    for group in (0, 1):
        own = group == GROUP
        wanted = torch.softmax(THROUGHPUT[own] / 0.1, dim=0)
        total = total - (wanted * torch.log_softmax(SCORES[own], dim=0)).sum()

    assert float(listnet_loss(SCORES, THROUGHPUT, GROUP)) == pytest.approx(float(total) / 2, rel=1e-5)


def test_squared_error_is_the_mean_square() -> None:
    assert float(squared_error(torch.tensor([1.0, 0.0]), torch.tensor([0.5, 1.0]))) == pytest.approx(0.625)


def of_matrices(scores: Tensor, throughput: Tensor, group: Tensor, weighting: Weighting) -> Tensor:
    """The same loss written as the papers do, with all pairs in a matrix."""
    gap = throughput[:, None] - throughput[None, :]
    same = group[:, None] == group[None, :]
    faster = ((gap > 0) & same).to(scores.dtype)
    if weighting == "gap":
        faster = faster * gap
    elif weighting == "dcg":
        rank = ((scores[None, :] > scores[:, None]) & same).sum(dim=1)
        discount, gain = 1 / torch.log2(2.0 + rank), 2.0 ** (4 * throughput)
        faster = faster * (gain[:, None] - gain).abs() * (discount[:, None] - discount).abs()
    loss = torch.log1p(torch.exp(scores[None, :] - scores[:, None]))
    return (loss * faster).sum() / faster.sum().clamp(min=1e-9)


@pytest.mark.parametrize("weighting", ["equal", "gap", "dcg"])
@given(st.lists(st.tuples(st.floats(-3, 3), st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.integers(0, 3)), max_size=12))
def test_the_list_of_pairs_gives_what_the_matrix_gives(
    weighting: Weighting, programs: list[tuple[float, float, int]]
) -> None:
    scores, throughput = (torch.tensor([p[i] for p in programs], dtype=torch.float64) for i in (0, 1))
    group = torch.tensor([p[2] for p in programs], dtype=torch.int64)
    # Scores that are equal or nearly so are ranked by the last bit.
    scores = scores + torch.arange(len(programs)) * 1e-3

    found = pairwise_logistic(scores, throughput, group, weighting=weighting)

    torch.testing.assert_close(found, of_matrices(scores, throughput, group, weighting))


@given(st.lists(st.integers(0, 3), max_size=12))
def test_pairs_are_all_of_one_group_and_each_comes_once(group: list[int]) -> None:
    first, second = pairs(torch.tensor(group, dtype=torch.int64))

    found = {frozenset(pair) for pair in zip(first.tolist(), second.tolist(), strict=True)}
    expected = {frozenset((i, j)) for i, a in enumerate(group) for j, b in enumerate(group[:i]) if a == b}
    assert found == expected
    assert len(first) == len(expected)


def test_no_programs_are_no_loss() -> None:
    none = torch.zeros(0)

    assert float(listnet_loss(none, none, none.long())) == 0.0
    assert float(pairwise_logistic(none, none, none.long())) == 0.0


SCORES_OBJECTIVE = torch.tensor([2.0, 0.5, 1.0, -1.0, 0.0])
THROUGHPUT_OBJECTIVE = torch.tensor([0.5, 1.0, 1.0, 0.25, 0.0])
GROUP_OBJECTIVE = torch.tensor([0, 0, 1, 1, 1])


def test_names_stand_for_the_losses_of_the_papers() -> None:
    args = (SCORES_OBJECTIVE, THROUGHPUT_OBJECTIVE, GROUP_OBJECTIVE)
    expected = {
        "regression": squared_error(SCORES_OBJECTIVE, THROUGHPUT_OBJECTIVE),
        "rank": pairwise_logistic(*args, weighting="equal"),
        "lambdarank": pairwise_logistic(*args, weighting="dcg"),
        "gap": pairwise_logistic(*args, weighting="gap") + 0.2 * listnet_loss(*args),
    }

    assert set(expected) == set(OBJECTIVES)
    for name, value in expected.items():
        torch.testing.assert_close(objective_loss(name, *args, listwise=0.2), value)


@pytest.mark.parametrize("name", ["rank", "lambdarank", "gap"])
def test_a_failed_program_is_to_be_scored_below_all_that_ran(name: str) -> None:
    scores = SCORES_OBJECTIVE.clone().requires_grad_()

    objective_loss(name, scores, THROUGHPUT_OBJECTIVE, GROUP_OBJECTIVE, listwise=0.0).backward()  # type: ignore[no-untyped-call]

    assert scores.grad is not None
    assert scores.grad[4] > 0  # gradient descent lowers it
