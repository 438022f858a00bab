from __future__ import annotations

import pytest
import torch

from costhub.models.training.objective import OBJECTIVES, objective_loss
from costhub.models.training.rank_loss import best_likelihood, pairwise_logistic, squared_error

SCORES = torch.tensor([2.0, 0.5, 1.0, -1.0, 0.0])
THROUGHPUT = torch.tensor([0.5, 1.0, 1.0, 0.25, 0.0])
GROUP = torch.tensor([0, 0, 1, 1, 1])


def test_names_stand_for_the_losses_of_the_papers() -> None:
    args = (SCORES, THROUGHPUT, GROUP)
    expected = {
        "regression": squared_error(SCORES, THROUGHPUT),
        "rank": pairwise_logistic(*args, weighting="equal"),
        "lambdarank": pairwise_logistic(*args, weighting="dcg"),
        "gap": pairwise_logistic(*args, weighting="gap") + 0.2 * best_likelihood(*args),
    }

    assert set(expected) == set(OBJECTIVES)
    for name, value in expected.items():
        torch.testing.assert_close(objective_loss(name, *args, listwise=0.2), value)


@pytest.mark.parametrize("name", ["rank", "lambdarank", "gap"])
def test_a_failed_program_is_to_be_scored_below_all_that_ran(name: str) -> None:
    scores = SCORES.clone().requires_grad_()

    objective_loss(name, scores, THROUGHPUT, GROUP, listwise=0.0).backward()  # type: ignore[no-untyped-call]

    assert scores.grad is not None
    assert scores.grad[4] > 0  # gradient descent lowers it
