"""Provides TreeGru: the context-encoded TreeGRU as a cost model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from costhub.dataset.features.loop_context import LOOP_CONTEXT, PARENT
from costhub.models.networks.network_options import NetworkOptions
from costhub.models.networks.neural import NeuralModel
from costhub.models.networks.tree_gru_network import TreeGruNetwork
from costhub.models.options import check_ranges


@dataclass(frozen=True)
class TreeGruOptions(NetworkOptions):
    """How a TreeGru is built and trained."""

    epochs: int = 30
    learning_rate: float = 2e-3
    batch: int = 256
    hidden: int = 128
    """Width of the embedding of a loop and of the GRUs' states, as in the paper."""
    slots: int = 8
    """Memory slots over which the loops are scattered."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges({"hidden": (self.hidden, 1, 4096), "slots": (self.slots, 1, 256)})


class TreeGru(NeuralModel[TreeGruOptions]):
    """Loops and statements are encoded along the tree of a program, see `TreeGruNetwork`.

    The tree is that of `loop_context@1`. Rows of any other feature spec are nodes without a tree, each
    encoded by itself.

    Example:
        >>> TreeGru(feature_spec="loop_context@1", options=TreeGruOptions(hidden=64)).raw
        (0,)
    """

    arch = "treegru"
    options_type = TreeGruOptions
    update_rows = 10_000

    @property
    def raw(self) -> tuple[int, ...]:
        """The column of the parents' numbers, where there is one."""
        return (PARENT,) if self.feature_spec == LOOP_CONTEXT else ()

    def build(self, inputs: Sequence[int], generator: torch.Generator | None) -> TreeGruNetwork:
        """A network with the present options."""
        return TreeGruNetwork(inputs[0], self.options.hidden, slots=self.options.slots, generator=generator)
