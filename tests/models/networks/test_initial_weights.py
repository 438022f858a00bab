from __future__ import annotations

import torch
from torch import nn

from costhub.models.networks.initial_weights import draw_weights


class Layers(nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        with torch.device("meta"):
            self.linear = nn.Linear(9, 4)
            self.cell = nn.GRUCell(4, 4)
            self.table = nn.Embedding(5, 4)
            self.norm = nn.LayerNorm(4)
        draw_weights(self, torch.Generator().manual_seed(seed))


def test_weights_come_from_the_generator_and_nothing_else() -> None:
    before = torch.get_rng_state()

    one, same, other = (Layers(seed).state_dict() for seed in (1, 1, 2))

    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert [name for name in one if torch.equal(one[name], other[name])] == ["norm.weight", "norm.bias"]


def test_weights_lie_within_the_bound_of_their_layer() -> None:
    layers = Layers(0)

    for layer, inputs in ((layers.linear, 9), (layers.cell, 4), (layers.table, 4)):
        for weight in layer.parameters():
            assert 0.0 < float(weight.detach().abs().max()) <= inputs**-0.5


def test_a_normalisation_begins_by_changing_nothing() -> None:
    norm = Layers(0).norm

    assert norm.weight.tolist() == [1.0] * 4
    assert norm.bias.tolist() == [0.0] * 4
