"""Provides the training losses of neural cost models; pairs never cross workloads."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

Weighting = Literal["equal", "gap", "dcg"]


def pairwise_logistic(
    scores: Tensor, throughput: Tensor, group: Tensor, *, weighting: Weighting = "equal"
) -> Tensor:
    """Weighted mean of log(1 + exp(-(s_i - s_j))) over pairs of one workload, program i being the faster one.

    With equal weights this is sum_ij log(1 + exp(-sign(c_i - c_j)(f_i - f_j))) of *Learning to Optimize
    Tensor Programs* (eq. 2), c being throughput, divided by the number of pairs.

    Args:
        scores: (b,) scores f.
        throughput: (b,) throughput c, normalised within the workload to (0, 1].
        group: (b,) workload of each program; only equal ones are compared.
        weighting: "equal"; "gap", by c_i - c_j, the throughput lost when the wrong one of the two is taken;
            or "dcg", by the change of discounted cumulative gain when the two swap ranks (LambdaRank, Burges
            et al. 2006).

    Returns:
        The loss, a scalar; 0 where nothing can be compared.

    Example:
        >>> s, c, g = torch.tensor([1.0, 0.0]), torch.tensor([1.0, 0.5]), torch.tensor([0, 0])
        >>> round(float(pairwise_logistic(s, c, g)), 4)
        0.3133
    """
    gap = throughput[:, None] - throughput[None, :]
    faster = (gap > 0) & (group[:, None] == group[None, :])
    if weighting == "gap":
        weight = gap * faster
    elif weighting == "dcg":
        weight = _dcg_change(scores.detach(), throughput, group) * faster
    else:
        weight = faster.to(scores.dtype)
    loss = functional.softplus(scores[None, :] - scores[:, None])
    return (loss * weight).sum() / weight.sum().clamp(min=1e-9)


def best_likelihood(scores: Tensor, throughput: Tensor, group: Tensor, *, temperature: float = 0.1) -> Tensor:
    """Mean over workloads of the cross entropy between softmax(scores) and softmax(throughput / temperature).

    ListNet's top-one loss (Cao et al. 2007): the scores are read as chances of being the best program.

    Args:
        scores: (b,) scores.
        throughput: (b,) throughput, normalised within the workload to (0, 1].
        group: (b,) workload of each program.
        temperature: The smaller, the more the fastest programs count.

    Returns:
        The loss, a scalar, at least the entropy of the targets.
    """
    other = group[:, None] != group[None, :]
    wanted = torch.softmax(
        (throughput / temperature).expand_as(other).masked_fill(other, -torch.inf), dim=1
    ).diagonal()
    log_chance = scores - scores.expand_as(other).masked_fill(other, -torch.inf).logsumexp(dim=1)
    # Each workload's targets add up to 1, so their total is the number of workloads.
    return -(wanted * log_chance).sum() / wanted.sum().clamp(min=1e-9)


def squared_error(scores: Tensor, throughput: Tensor) -> Tensor:
    """Mean of (s - c)^2 over (b,) scores and normalised throughput (TenSet's regression objective)."""
    return (scores - throughput).square().mean()


def _dcg_change(scores: Tensor, throughput: Tensor, group: Tensor) -> Tensor:
    """(b, b) change of DCG when two programs swap ranks; gains are 2^(4c), five grades spread over (0, 1]."""
    higher = (scores[None, :] > scores[:, None]) & (group[:, None] == group[None, :])
    discount = 1.0 / torch.log2(2.0 + higher.sum(dim=1).to(scores.dtype))
    gain = torch.exp2(4.0 * throughput)
    return (gain[:, None] - gain[None, :]).abs() * (discount[:, None] - discount[None, :]).abs()
