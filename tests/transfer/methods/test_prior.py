from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from costhub.transfer.methods.prior import draw_back, share_of_source


def test_the_source_counts_less_the_more_was_learned_from() -> None:
    shares = [share_of_source(128, trials) for trials in (1, 32, 128, 512, 10**6)]

    assert shares == sorted(shares, reverse=True)
    assert shares[2] == 0.5
    assert shares[-1] < 0.001


def test_without_a_prior_nothing_of_the_source_is_kept() -> None:
    assert share_of_source(0, 0) == share_of_source(0, 32) == 0.0


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_every_weight_goes_the_same_share_of_the_way(share: float) -> None:
    torch.manual_seed(0)
    before = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    now = copy.deepcopy(before)
    with torch.no_grad():
        for weight in now.parameters():
            weight.add_(torch.randn_like(weight))
    learned = copy.deepcopy(now)

    draw_back([now], [before], share)

    for moved, new, old in zip(now.parameters(), learned.parameters(), before.parameters(), strict=True):
        torch.testing.assert_close(moved, (1 - share) * new + share * old)
