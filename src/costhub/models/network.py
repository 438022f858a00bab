"""Provides SegmentSumNetwork: rows encoded one by one, summed per program, decoded to a score."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class SegmentSumNetwork(nn.Module):
    """The network of TenSet's and Moses' multilayer perceptrons, with one residual layer in the decoder.

    Args:
        columns: Width d of a feature row.
        hidden: Width of the hidden layers.
        generator: Draws the initial weights; None leaves them unset, for weights that are read from a file.
    """

    def __init__(self, columns: int, hidden: int, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        # Layers made on "meta" draw nothing from the global random state.
        with torch.device("meta"):
            self.encode_1 = nn.Linear(columns, hidden)
            self.encode_2 = nn.Linear(hidden, hidden)
            self.decode_1 = nn.Linear(hidden, hidden)
            self.decode_2 = nn.Linear(hidden, hidden)
            self.score = nn.Linear(hidden, 1)
        if generator is not None:
            self.to_empty(device="cpu")
            self._draw(generator)

    def _draw(self, generator: torch.Generator) -> None:
        for weight in self.parameters():
            # PyTorch's own choice for linear layers: uniform within 1 / sqrt(inputs), biases included.
            inputs = weight.shape[1] if weight.ndim == 2 else self._inputs_of(weight)
            nn.init.uniform_(weight, -1 / math.sqrt(inputs), 1 / math.sqrt(inputs), generator=generator)

    def _inputs_of(self, bias: Tensor) -> int:
        return next(m.in_features for m in self.modules() if isinstance(m, nn.Linear) and m.bias is bias)

    def forward(self, rows: Tensor, counts: Tensor) -> Tensor:
        """Scores programs.

        Args:
            rows: (r, d) scaled feature rows, programs in order.
            counts: (n,) number of rows of each program; a program without rows gets the score of an empty
                sum.

        Returns:
            (n,) scores.
        """
        encoded = functional.relu(self.encode_2(functional.relu(self.encode_1(rows))))
        program = torch.repeat_interleave(torch.arange(len(counts)), counts)
        pooled = encoded.new_zeros(len(counts), encoded.shape[1]).index_add(0, program, encoded)
        decoded = functional.relu(self.decode_1(pooled))
        decoded = decoded + functional.relu(self.decode_2(decoded))
        scores: Tensor = self.score(decoded).squeeze(-1)
        return scores
