"""Provides TokenAttentionNetwork: a sequence of instructions, each read in the light of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from costhub.models.networks.initial_weights import draw_weights

_LENGTH_STEP = 16
"""Programs are padded to a multiple of this, together with those of about their length."""
_LONGEST_WAVE = 2_000.0
"""Rows; the waves that tell positions apart are from 2 pi to 2 pi times this long."""


class TokenAttentionNetwork(nn.Module):
    """Self-attention over the tokens of a program, after TLP (Zhai et al., ASPLOS 2023).

    A token is the sum of a linear layer of its numbers, a learned vector for each of its categories, and its
    position as sines and cosines (Vaswani et al., *Attention Is All You Need*, 2017, section 3.5). After the
    attention layers, tokens are summed per program and decoded to a score by the residual decoder of
    `SegmentSumNetwork`.

    Only the products of queries and keys are padded, so a long program costs the others of a batch nothing.

    Args:
        columns: Scaled columns of a row.
        categories: For each category column its smallest and its largest number; what lies beyond counts as
            the nearest of the two.
        hidden: Width of a token, a multiple of twice `heads`.
        heads: Parts into which a token is split for attention.
        layers: Attention layers.
        generator: Draws the initial weights; None leaves them unset, for weights that are read from a file.
    """

    def __init__(
        self,
        columns: int,
        categories: Sequence[tuple[int, int]],
        hidden: int,
        *,
        heads: int,
        layers: int,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self._categories = tuple(categories)
        with torch.device("meta"):
            self.embed = nn.Linear(columns, hidden)
            self.tables = nn.ModuleList(nn.Embedding(high - low + 1, hidden) for low, high in categories)
            self.layers = nn.ModuleList(AttentionLayer(hidden, heads) for _ in range(layers))
            self.decode_1 = nn.Linear(hidden, hidden)
            self.decode_2 = nn.Linear(hidden, hidden)
            self.score = nn.Linear(hidden, 1)
        if generator is not None:
            draw_weights(self, generator)

    def forward(self, rows: Tensor, counts: Tensor) -> Tensor:
        """Scores programs.

        Args:
            rows: (r, columns + categories) rows, programs in order: the scaled columns, then the categories
                as they are.
            counts: (n,) number of rows of each program.

        Returns:
            (n,) scores.
        """
        program = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
        start = torch.cumsum(counts, 0) - counts
        position = torch.arange(len(rows), device=rows.device) - start[program]
        tokens = self._tokens(rows) + _waves(position, self.embed.out_features, rows.dtype)
        blocks = blocks_of(counts)
        for layer in self.layers:
            tokens = layer(tokens, blocks)
        pooled = tokens.new_zeros(len(counts), tokens.shape[1]).index_add(0, program, tokens)
        decoded = functional.relu(self.decode_1(pooled))
        decoded = decoded + functional.relu(self.decode_2(decoded))
        scores: Tensor = self.score(decoded).squeeze(-1)
        return scores

    def _tokens(self, rows: Tensor) -> Tensor:
        columns = self.embed.in_features
        tokens: Tensor = self.embed(rows[:, :columns])
        for table, (low, high), column in zip(
            self.tables, self._categories, rows[:, columns:].unbind(dim=1), strict=True
        ):
            tokens = tokens + table((column.clamp(low, high) - low).long())
        return tokens


class AttentionLayer(nn.Module):
    """Attention, then a layer for each token by itself; both add to what is there, normalised beforehand.

    Args:
        hidden: Width of a token, a multiple of `heads`.
        heads: Parts into which a token is split for attention.
    """

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self._heads = heads
        self.norm_1 = nn.LayerNorm(hidden)
        self.project = nn.Linear(hidden, 3 * hidden)
        self.joined = nn.Linear(hidden, hidden)
        self.norm_2 = nn.LayerNorm(hidden)
        self.widen = nn.Linear(hidden, 2 * hidden)
        self.narrow = nn.Linear(2 * hidden, hidden)

    def forward(self, tokens: Tensor, blocks: Sequence[Block]) -> Tensor:
        """Changes (r, hidden) tokens in the light of the others of their program."""
        tokens = tokens + self.joined(self._attend(self.project(self.norm_1(tokens)), blocks))
        wide = functional.relu(self.widen(self.norm_2(tokens)))
        changed: Tensor = tokens + self.narrow(wide)
        return changed

    def _attend(self, projected: Tensor, blocks: Sequence[Block]) -> Tensor:
        found = []
        for block in blocks:
            heads = projected[block.rows].reshape(*block.rows.shape, 3, self._heads, -1)
            query, key, value = heads.permute(2, 0, 3, 1, 4).unbind(0)
            mixed = functional.scaled_dot_product_attention(
                query, key, value, attn_mask=block.is_token[:, None, None, :]
            )
            found.append(mixed.transpose(1, 2).flatten(2)[block.is_token])
        empty = projected.new_zeros(len(projected), projected.shape[1] // 3)
        order = [block.rows[block.is_token] for block in blocks]
        return empty.index_copy(0, torch.cat(order), torch.cat(found)) if blocks else empty


@dataclass(frozen=True)
class Block:
    """Programs of about one length, as a rectangle."""

    rows: Tensor
    """(programs, length) the row of each token, and after the last token that of the first."""
    is_token: Tensor
    """(programs, length) False after the last token."""


def blocks_of(counts: Tensor) -> list[Block]:
    """Sorts programs into rectangles by length; those without rows are in none.

    Example:
        >>> block, = blocks_of(torch.tensor([2, 0, 1]))
        >>> block.rows[:, :3].tolist(), block.is_token.sum(dim=1).tolist()
        ([[0, 1, 0], [2, 2, 2]], [2, 1])
    """
    start = torch.cumsum(counts, 0) - counts
    lengths = (counts + _LENGTH_STEP - 1) // _LENGTH_STEP * _LENGTH_STEP
    blocks = []
    for length in torch.unique(lengths[counts > 0]).tolist():
        own = lengths == length
        place = torch.arange(length, device=counts.device)
        is_token = place < counts[own][:, None]
        blocks.append(Block(start[own][:, None] + place.where(is_token, 0), is_token))
    return blocks


def _waves(position: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """(r, width) sines and cosines of positions within a program."""
    exponent = torch.arange(width // 2, device=position.device, dtype=dtype) / (width // 2)
    angle = position[:, None] * _LONGEST_WAVE**-exponent
    return torch.cat([angle.sin(), angle.cos()], dim=1)
