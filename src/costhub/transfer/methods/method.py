"""Provides TransferMethod: how a source model becomes one of the target, and what methods have in common."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Protocol

from costhub.dataset.programs import Programs
from costhub.models.compound.inner import leaves
from costhub.models.networks.neural import NeuralModel
from costhub.models.protocol import CostModel
from costhub.models.trees.gbt import Gbt


class TransferMethod(Protocol):
    """Makes a model of a target device out of one of source devices."""

    @property
    def name(self) -> str:
        """A key of `METHODS`."""

    def adapt(
        self, source: CostModel, target: Programs, *, seed: int, source_programs: Programs | None = None
    ) -> CostModel:
        """A model that has learned from programs of the target; the source stays as it is.

        Args:
            source: A fitted model.
            target: What has been measured on the target, as the source reads it. With nothing to learn from,
                the result scores like the source.
            seed: The only source of chance.
            source_programs: Some of what the source learned from, for the methods that compare.

        Returns:
            A model that can be saved, and shares nothing with the source.
        """


Network = Callable[[NeuralModel[Any], Programs, int], object]
Trees = Callable[[Gbt, Programs, int], object]


def adapt_leaves(
    source: CostModel, target: Programs, *, seed: int, network: Network, trees: Trees | None = None
) -> CostModel:
    """A copy of the source in which each network and each set of trees has learned by itself.

    Args:
        source: A fitted model.
        target: What has been measured on the target, as the source reads it.
        seed: Each part gets one of its own.
        network: Changes a network; called with it, the programs as it reads them, and a seed.
        trees: The same for trees; by default they are updated, as any other model is.
    """
    adapted = copy.deepcopy(source)
    if not target.n:
        return adapted
    for number, (part, own) in enumerate(leaves(adapted, target)):
        if isinstance(part, NeuralModel):
            network(part, own, seed + number)
        elif isinstance(part, Gbt) and trees is not None:
            trees(part, own, seed + number)
        else:
            part.update(own, seed=seed + number)
    return adapted
