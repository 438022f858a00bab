"""Provides objective_loss: what networks are trained to do; pairs never cross groups."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

Weighting = Literal["equal", "gap", "dcg"]


def pairwise_logistic(scores: Tensor, throughput: Tensor, group: Tensor, *, weighting: Weighting = "equal") -> Tensor:
    """Weighted mean of log(1 + exp(-(s_i - s_j))) over pairs of one group, program i being the faster one.

    With equal weights this is sum_ij log(1 + exp(-sign(c_i - c_j)(f_i - f_j))) of *Learning to Optimize
    Tensor Programs* (eq. 2), c being throughput, divided by the number of pairs.

    Args:
        scores: (b,) scores f.
        throughput: (b,) throughput c, normalised within the group to [0, 1].
        group: (b,) group of each program, a workload on a device; only equal ones are compared.
        weighting: "equal"; "gap", by c_i - c_j, the throughput lost if the wrong one of the two is chosen;
            or "dcg", by the change of discounted cumulative gain when the two swap ranks (LambdaRank, Burges
            et al. 2006).

    Returns:
        The loss, a scalar; 0 if nothing can be compared.

    Example:
        >>> s, c, g = torch.tensor([1.0, 0.0]), torch.tensor([1.0, 0.5]), torch.tensor([0, 0])
        >>> round(float(pairwise_logistic(s, c, g)), 4)
        0.3133
    """
    first, second = pairs(group)
    gap = throughput[first] - throughput[second]
    if weighting == "gap":
        weight = gap.abs()
    elif weighting == "dcg":
        weight = _dcg_change(scores.detach(), throughput, first, second) * (gap != 0)
    else:
        weight = (gap != 0).to(scores.dtype)
    loss = functional.softplus(-gap.sign() * (scores[first] - scores[second]))
    return (loss * weight).sum() / weight.sum().clamp(min=1e-9)


def listnet_loss(scores: Tensor, throughput: Tensor, group: Tensor, *, temperature: float = 0.1) -> Tensor:
    """Mean over groups of the cross entropy between softmax(scores) and softmax(throughput / temperature).

    ListNet's top-one loss (Cao et al. 2007): the scores stand for probabilities of being the best program.

    Args:
        scores: (b,) scores.
        throughput: (b,) throughput, normalised within the group to [0, 1].
        group: (b,) group of each program.
        temperature: The smaller, the more the fastest programs count.

    Returns:
        The loss, a scalar, at least the entropy of the targets; 0 for no programs.
    """
    numbers, dense = torch.unique(group, return_inverse=True)
    groups = len(numbers)
    target = _log_softmax(throughput / temperature, dense, groups).exp()
    return -(target * _log_softmax(scores, dense, groups)).sum() / max(groups, 1)


def squared_error(scores: Tensor, throughput: Tensor) -> Tensor:
    """Mean of (s - c)^2 over (b,) scores and normalised throughput (TenSet's regression objective)."""
    return (scores - throughput).square().mean()


def pairs(group: Tensor) -> tuple[Tensor, Tensor]:
    """Every pair of programs of one group, once.

    A list of pairs is about sixteen times shorter than the matrix of all programs of a batch of eight groups.

    Args:
        group: (b,) group of each program, in any order.

    Returns:
        (p,) positions of the first and of the second program.

    Example:
        >>> [side.tolist() for side in pairs(torch.tensor([3, 5, 3, 3]))]
        [[0, 0, 2], [2, 3, 3]]
    """
    order = torch.argsort(group, stable=True)
    ordered, place = group[order], torch.arange(len(group), device=group.device)
    start = torch.searchsorted(ordered, ordered)
    # The program at `place` is paired with those of its group that precede it, from `start` on.
    before = place - start
    within = torch.arange(int(before.sum()), device=group.device) - torch.repeat_interleave(
        torch.cumsum(before, 0) - before, before
    )
    earlier = torch.repeat_interleave(start, before) + within
    return order[earlier], order[torch.repeat_interleave(place, before)]


def _log_softmax(values: Tensor, dense: Tensor, groups: int) -> Tensor:
    """(b,) log of the softmax of (b,) values within their group."""
    top = values.new_full((groups,), -torch.inf).scatter_reduce(0, dense, values.detach(), "amax")
    shifted = values - top[dense]
    total = values.new_zeros(groups).index_add(0, dense, shifted.exp())
    return shifted - total.log()[dense]


def _dcg_change(scores: Tensor, throughput: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """(p,) change of DCG when the programs of a pair swap ranks.

    Gains are 2^(4c), five grades spread over [0, 1].
    """
    lead = scores[first] - scores[second]
    higher = torch.zeros_like(scores).index_add(0, first, (lead < 0).to(scores.dtype))
    higher = higher.index_add(0, second, (lead > 0).to(scores.dtype))
    discount, gain = 1.0 / torch.log2(2.0 + higher), torch.exp2(4.0 * throughput)
    return (gain[first] - gain[second]).abs() * (discount[first] - discount[second]).abs()


_WEIGHTING: dict[str, Weighting] = {"rank": "equal", "lambdarank": "dcg", "gap": "gap"}

OBJECTIVES = ("regression", *_WEIGHTING)
"""`regression`: squared error on normalised throughput. The others compare pairs of programs of one group, a
workload on a device, by the logistic loss: `rank` weights all pairs equally (AutoTVM, eq. 2), `lambdarank` by the
change of discounted cumulative gain, `gap` by the difference in throughput, in addition to ListNet's loss."""


def objective_loss(name: str, scores: Tensor, throughput: Tensor, group: Tensor, *, listwise: float) -> Tensor:
    """The loss of a batch.

    Args:
        name: One of `OBJECTIVES`.
        scores: (b,) scores of the network.
        throughput: (b,) throughput, normalised within the group to [0, 1]; 0 for a failed program.
        group: (b,) group of each program; only equal ones are compared.
        listwise: Weight of the ListNet loss in addition to the pairwise loss of `gap`.

    Returns:
        The loss, a scalar; 0 if a pairwise objective can compare nothing, except for what `listwise` adds.

    Example:
        >>> import torch
        >>> s, c, g = torch.tensor([1.0, 0.0]), torch.tensor([1.0, 0.5]), torch.tensor([0, 0])
        >>> [round(float(objective_loss(name, s, c, g, listwise=0.0)), 4) for name in OBJECTIVES]
        [0.125, 0.3133, 0.3133, 0.3133]
    """
    if name == "regression":
        return squared_error(scores, throughput)
    loss = pairwise_logistic(scores, throughput, group, weighting=_WEIGHTING[name])
    if name == "gap" and listwise:
        loss = loss + listwise * listnet_loss(scores, throughput, group)
    return loss
