"""Provides recurrent networks, unrolled over a few steps: an LSTM and a GRU of two layers each.

(doi:10.1162/neco.1997.9.8.1735; arXiv:1406.1078 as torch computes it.) The cells are written out: what TVM
sees of a step are its dense layers, sigmoids and hyperbolic tangents.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class LstmCell(nn.Module):
    """One step of a long short-term memory."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.given, self.kept = nn.Linear(inputs, 4 * width), nn.Linear(width, 4 * width)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """(batch, inputs) and the state to the next state, whose first part is the output."""
        hidden, cell = state
        enter, forget, new, leave = (self.given(x) + self.kept(hidden)).chunk(4, 1)
        cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(new)
        return torch.sigmoid(leave) * torch.tanh(cell), cell


class GruCell(nn.Module):
    """One step of a gated recurrent unit."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.given, self.kept = nn.Linear(inputs, 3 * width), nn.Linear(width, 3 * width)

    def forward(self, x: Tensor, state: tuple[Tensor]) -> tuple[Tensor]:
        """(batch, inputs) and the state to the next state, which is the output too."""
        (hidden,) = state
        reset, update, new = self.given(x).chunk(3, 1)
        kept_reset, kept_update, kept_new = self.kept(hidden).chunk(3, 1)
        update = torch.sigmoid(update + kept_update)
        new = torch.tanh(new + torch.sigmoid(reset + kept_reset) * kept_new)
        return ((1 - update) * new + update * hidden,)


class Recurrent(nn.Module):
    """Layers of cells over the steps of a sequence, and a dense layer that reads the last output."""

    def __init__(self, cells: Sequence[LstmCell | GruCell], *, states: int, outputs: int) -> None:
        super().__init__()
        self.cells = nn.ModuleList(cells)
        self.width, self.states = cells[-1].width, states
        self.head = nn.Linear(self.width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, steps, inputs) to (batch, outputs)."""
        sequence = list(x.unbind(1))
        for cell in self.cells:
            state = (x.new_zeros(x.shape[0], self.width),) * self.states
            for step, item in enumerate(sequence):
                state = cell(item, state)
                sequence[step] = state[0]
        scores: Tensor = self.head(sequence[-1])
        return scores


def lstm() -> nn.Module:
    """Two layers of 512 on 256 inputs, and a vocabulary of 10,000 words."""
    return Recurrent([LstmCell(256, 512), LstmCell(512, 512)], states=2, outputs=10_000)


def gru() -> nn.Module:
    """Two layers of 384 on 192 inputs, and 1,000 classes."""
    return Recurrent([GruCell(192, 384), GruCell(384, 384)], states=1, outputs=1000)
