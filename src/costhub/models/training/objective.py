"""Provides objective_loss: what a network is trained to do, by the name that all architectures use for it."""

from __future__ import annotations

from torch import Tensor

from costhub.models.training.rank_loss import Weighting, best_likelihood, pairwise_logistic, squared_error

_WEIGHTING: dict[str, Weighting] = {"rank": "equal", "lambdarank": "dcg", "gap": "gap"}

OBJECTIVES = ("regression", *_WEIGHTING)
"""`regression`: squared error on normalised throughput. The others compare pairs of programs of one group, a
workload on a device, by the logistic loss: `rank` all pairs alike (AutoTVM, eq. 2), `lambdarank` by the
change of discounted cumulative gain, `gap` by the difference in throughput, beside ListNet's loss."""


def objective_loss(
    name: str, scores: Tensor, throughput: Tensor, group: Tensor, *, listwise: float
) -> Tensor:
    """The loss of a batch.

    Args:
        name: One of `OBJECTIVES`.
        scores: (b,) scores of the network.
        throughput: (b,) throughput, normalised within the group to [0, 1]; 0 for a failed program.
        group: (b,) group of each program; only equal ones are compared.
        listwise: Weight of the ListNet loss beside the pairwise one of `gap`.

    Returns:
        The loss, a scalar; under the pairwise objectives 0 where nothing can be compared.

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
        loss = loss + listwise * best_likelihood(scores, throughput, group)
    return loss
