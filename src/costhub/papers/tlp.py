"""The model of TLP (Zhai et al., ASPLOS 2023): self-attention over the instructions of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from costhub.dataset.features.trace_tokens import COLUMN_NAMES, KINDS, TEXT_NUMBERS, TRACE_TOKENS
from costhub.models.networks.network_options import NetworkOptions
from costhub.models.networks.neural import NeuralModel
from costhub.models.networks.weights import draw_weights
from costhub.models.options import check_ranges

_LENGTH_STEP = 16
"""Programs are padded to a multiple of this, together with programs of similar length."""
_LONGEST_WAVE = 2_000.0
"""In rows; the wavelengths that encode positions rise geometrically from 2 pi to just below 2 pi times this."""


class TokenAttentionNetwork(nn.Module):
    """Self-attention over the tokens of a program, after TLP (Zhai et al., ASPLOS 2023).

    A token is the sum of a linear layer of its numbers, a learned vector for each of its categories, and its
    position as sines and cosines (Vaswani et al., *Attention Is All You Need*, 2017, section 3.5). After the
    attention layers, tokens are summed per program and decoded to a score by the residual decoder of
    `SegmentSumNetwork`.

    Only the products of queries and keys are padded, so a long program costs the others in a batch nothing.

    Args:
        columns: Scaled columns of a row.
        categories: For each category column, its smallest and largest number; values beyond count as
            the nearest of the two.
        hidden: Width of a token, a multiple of twice `heads`.
        heads: Parts into which a token is split for attention.
        layers: Attention layers.
        generator: Draws the initial weights; None leaves them unset, for weights read from a file.
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
            rows: (r, columns + categories) rows, in the order of the programs: the scaled columns, then the categories
                unchanged.
            counts: (n,) number of rows of each program.

        Returns:
            (n,) scores.
        """
        program = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
        start = torch.cumsum(counts, 0) - counts
        position = torch.arange(len(rows), device=rows.device) - start[program]
        tokens = self._tokens(rows) + _waves(position, self.embed.out_features, rows.dtype)
        blocks = padded_blocks(counts)
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
    """Attention, then a per-token layer; both add to their input, which is normalised first.

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

    def forward(self, tokens: Tensor, blocks: Sequence[PaddedBlock]) -> Tensor:
        """(r, hidden) tokens after attending to the others in their program."""
        tokens = tokens + self.joined(self._attend(self.project(self.norm_1(tokens)), blocks))
        wide = functional.relu(self.widen(self.norm_2(tokens)))
        changed: Tensor = tokens + self.narrow(wide)
        return changed

    def _attend(self, projected: Tensor, blocks: Sequence[PaddedBlock]) -> Tensor:
        attended = []
        for block in blocks:
            heads = projected[block.rows].reshape(*block.rows.shape, 3, self._heads, -1)
            query, key, value = heads.permute(2, 0, 3, 1, 4).unbind(0)
            mixed = functional.scaled_dot_product_attention(
                query, key, value, attn_mask=block.is_token[:, None, None, :]
            )
            attended.append(mixed.transpose(1, 2).flatten(2)[block.is_token])
        empty = projected.new_zeros(len(projected), projected.shape[1] // 3)
        order = [block.rows[block.is_token] for block in blocks]
        return empty.index_copy(0, torch.cat(order), torch.cat(attended)) if blocks else empty


@dataclass(frozen=True)
class PaddedBlock:
    """Programs of similar length, as a rectangle."""

    rows: Tensor
    """(programs, length) the row of each token, and after the last token that of the first."""
    is_token: Tensor
    """(programs, length) False after the last token."""


def padded_blocks(counts: Tensor) -> list[PaddedBlock]:
    """Sorts programs into rectangles by length; programs without rows are left out.

    Example:
        >>> block, = padded_blocks(torch.tensor([2, 0, 1]))
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
        blocks.append(PaddedBlock(start[own][:, None] + place.where(is_token, 0), is_token))
    return blocks


def _waves(position: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """(r, width) sines and cosines of positions within a program."""
    exponent = torch.arange(width // 2, device=position.device, dtype=dtype) / (width // 2)
    angle = position[:, None] * _LONGEST_WAVE**-exponent
    return torch.cat([angle.sin(), angle.cos()], dim=1)


_CATEGORIES = {
    "kind": (0, len(KINDS)),
    "text0": (0, TEXT_NUMBERS),
    "text1": (0, TEXT_NUMBERS),
    # Index of a choice: -2 and -1 are places outside all loops, and a schedule seldom has 30 loops.
    "choice": (-2, 29),
}
"""Columns of trace_tokens@1 that are not quantities, with the smallest and the largest number."""


@dataclass(frozen=True)
class TokenAttentionOptions(NetworkOptions):
    """How a TokenAttention is built and trained."""

    epochs: int = 30
    learning_rate: float = 2e-3
    batch: int = 256
    hidden: int = 64
    """Width of a token."""
    heads: int = 4
    """Parts into which a token is split for attention; hidden must be a multiple of twice this number."""
    layers: int = 1
    """Attention layers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges({"hidden": (self.hidden, 2, 4096), "heads": (self.heads, 1, 64), "layers": (self.layers, 1, 16)})
        if self.hidden % (2 * self.heads):
            raise ValueError(f"hidden must be a multiple of 2 * heads = {2 * self.heads}, got {self.hidden}.")


class TokenAttention(NeuralModel[TokenAttentionOptions]):
    """The instructions of a trace attend to one another, see `TokenAttentionNetwork`.

    Made for `trace_tokens@1`, which is computed from the text of a trace: no program is built or lowered to
    be scored. What matters most is in the trace: the factors of a tile and, where an instruction uses a
    number that was sampled, that number.

    A trace does not say what it is applied to. Of the workload's shape it shows the lengths of loops, as
    products of factors, and of the computation only the structure of the schedule; element types, strides,
    padding and operations per element it does not show. So two workloads may share a trace that is fast for
    one and slow for the other, and get one score. Within a workload, where scores are compared, all of these
    are constants: the ranking is that of an average workload with these loops, until the model is updated
    with measurements of the given workload.

    On other feature specs, rows are tokens whose columns are all quantities.

    Example:
        >>> model = TokenAttention(feature_spec="trace_tokens@1", options=TokenAttentionOptions(hidden=64))
        >>> [COLUMN_NAMES[column] for column in model.raw]
        ['kind', 'text0', 'text1', 'choice']
    """

    arch = "tokens"
    default_spec = TRACE_TOKENS
    options_type = TokenAttentionOptions
    update_rows = 30_000

    @property
    def raw(self) -> tuple[int, ...]:
        """The columns that are categories."""
        return tuple(map(COLUMN_NAMES.index, _CATEGORIES)) if self.feature_spec == TRACE_TOKENS else ()

    def build(self, inputs: Sequence[int], generator: torch.Generator | None) -> TokenAttentionNetwork:
        """Builds a network with the current options."""
        options = self.options
        return TokenAttentionNetwork(
            inputs[0],
            list(_CATEGORIES.values()) if self.raw else [],
            options.hidden,
            heads=options.heads,
            layers=options.layers,
            generator=generator,
        )
