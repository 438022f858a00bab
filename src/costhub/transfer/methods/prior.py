"""Provides share_of_source and draw_back: what a network has learned counts by what it has learned from."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn


def share_of_source(prior: float, trials: int) -> float:
    """The share of the source that stays if it counts as much as `prior` trials on the target.

    A mean is shrunk towards prior knowledge in the same way: the variance of what few trials teach falls with
    their number, whereas the bias of the source does not.

    Args:
        prior: Trials that the source is worth; 0 takes what was learned as it is.
        trials: How many were learned from.

    Example:
        >>> [share_of_source(128, trials) for trials in (32, 128, 384)]
        [0.8, 0.5, 0.25]
    """
    return prior / (prior + trials) if prior else 0.0


def draw_back(networks: Sequence[nn.Module], before: Sequence[nn.Module], share: float) -> None:
    """Moves the weights of networks back to where they came from.

    For small steps, the scores are a weighted mean of the scores before and after learning (Wortsman et al.,
    "Robust fine-tuning of zero-shot models", 2022), and scoring costs no more than with one network.

    Args:
        networks: Changed in place.
        before: The same networks with the weights that they had before learning.
        share: How far to go back: 0 changes nothing, 1 undoes all learning.

    Example:
        >>> now, then = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
        >>> _ = nn.init.constant_(now.weight, 3.0), nn.init.constant_(then.weight, 1.0)
        >>> draw_back([now], [then], 0.25)
        >>> now.weight.item()
        2.5
    """
    with torch.no_grad():
        for network, old in zip(networks, before, strict=True):
            for weight, was in zip(network.parameters(), old.parameters(), strict=True):
                weight.lerp_(was, share)
