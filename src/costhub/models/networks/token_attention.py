"""Provides TokenAttention: self-attention over the instructions of a trace as a cost model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from costhub.dataset.features.trace_tokens import COLUMN_NAMES, KINDS, TEXT_NUMBERS, TRACE_TOKENS
from costhub.models.networks.network_options import NetworkOptions
from costhub.models.networks.neural import NeuralModel
from costhub.models.networks.token_attention_network import TokenAttentionNetwork
from costhub.models.options import check_ranges

_CATEGORIES = {
    "kind": (0, len(KINDS)),
    "text0": (0, TEXT_NUMBERS),
    "text1": (0, TEXT_NUMBERS),
    # Which of some choices: -2 and -1 are places outside all loops, and a schedule seldom has 30 loops.
    "choice": (-2, 29),
}
"""Columns of trace_tokens@1 that are no quantities, with the smallest and the largest number."""


@dataclass(frozen=True)
class TokenAttentionOptions(NetworkOptions):
    """How a TokenAttention is built and trained."""

    epochs: int = 30
    learning_rate: float = 2e-3
    batch: int = 256
    hidden: int = 64
    """Width of a token."""
    heads: int = 4
    """Parts into which a token is split for attention; hidden is a multiple of twice as many."""
    layers: int = 1
    """Attention layers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(
            {"hidden": (self.hidden, 2, 4096), "heads": (self.heads, 1, 64), "layers": (self.layers, 1, 16)}
        )
        if self.hidden % (2 * self.heads):
            raise ValueError(f"hidden must be a multiple of 2 * heads = {2 * self.heads}, got {self.hidden}.")


class TokenAttention(NeuralModel[TokenAttentionOptions]):
    """The instructions of a trace attend to one another, see `TokenAttentionNetwork`.

    Made for `trace_tokens@1`, which is computed from the text of a trace: no program is built or lowered to
    be scored. What matters most is there as it is: the factors of a tile and, where an instruction uses a
    number that was sampled, that number.

    A trace does not say what it is applied to. Of the shape of the workload it shows the lengths of loops, as
    products of factors, and of the computation only the structure of the schedule; element types, strides,
    padding and operations per element it does not show. Two workloads may so share a trace that is fast for
    one and slow for the other, and get one score. Within a workload, where scores are compared, all of these
    are constants: the ranking is that of an average workload with these loops, until the model is updated
    with measurements of the one at hand.

    On other feature specs, rows are tokens whose columns are all quantities.

    Example:
        >>> model = TokenAttention(feature_spec="trace_tokens@1", options=TokenAttentionOptions(hidden=64))
        >>> [COLUMN_NAMES[column] for column in model.raw]
        ['kind', 'text0', 'text1', 'choice']
    """

    arch = "tokens"
    options_type = TokenAttentionOptions
    update_rows = 30_000

    @property
    def raw(self) -> tuple[int, ...]:
        """The columns that are categories."""
        return tuple(map(COLUMN_NAMES.index, _CATEGORIES)) if self.feature_spec == TRACE_TOKENS else ()

    def build(self, inputs: Sequence[int], generator: torch.Generator | None) -> TokenAttentionNetwork:
        """A network with the present options."""
        options = self.options
        return TokenAttentionNetwork(
            inputs[0], list(_CATEGORIES.values()) if self.raw else [], options.hidden,
            heads=options.heads, layers=options.layers, generator=generator,
        )  # fmt: skip
