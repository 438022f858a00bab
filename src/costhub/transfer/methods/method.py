"""Provides TransferMethod, and the simple methods: Frozen, Brief, FineTune and ResidualTrees."""

from __future__ import annotations

import copy
import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from costhub.dataset.programs import Programs
from costhub.models.compound.residual import Residual
from costhub.models.networks.neural import NeuralModel
from costhub.models.options import check_ranges
from costhub.models.protocol import CostModel
from costhub.models.trees.gbt import Gbt

log = logging.getLogger("costhub")


class TransferMethod(Protocol):
    """Makes a model for a target device from one for source devices."""

    @property
    def name(self) -> str:
        """A key of `METHODS`."""

    def adapt(
        self, source: CostModel, target: Programs, *, seed: int, source_programs: Programs | None = None
    ) -> CostModel:
        """A model that has learned from programs of the target; the source is not changed.

        Args:
            source: A fitted model.
            target: What was measured on the target, as the source reads it. With nothing to learn from,
                the result scores like the source.
            seed: The only source of randomness.
            source_programs: Some of what the source learned from, for the methods that compare.

        Returns:
            A model that can be saved, and shares nothing with the source.
        """


NetworkUpdate = Callable[[NeuralModel[Any], Programs, int], object]
TreesUpdate = Callable[[Gbt, Programs, int], object]


def adapt_sub_models(
    source: CostModel, target: Programs, *, seed: int, network: NetworkUpdate, trees: TreesUpdate | None = None
) -> CostModel:
    """A copy of the source in which each network and each set of trees has learned separately.

    Args:
        source: A fitted model.
        target: What was measured on the target, as the source reads it.
        seed: Each part gets a different one.
        network: Changes a network; called with it, the programs as it reads them, and a seed.
        trees: The same for trees; by default they are updated, like any other model.
    """
    adapted = copy.deepcopy(source)
    if not target.n:
        return adapted
    for number, (part, own) in enumerate(adapted.sub_models(target)):
        if isinstance(part, NeuralModel):
            network(part, own, seed + number)
        elif isinstance(part, Gbt) and trees is not None:
            trees(part, own, seed + number)
        else:
            if not isinstance(part, Gbt) and network is not _update_briefly:
                _warn_of_update_alone(type(part).__name__)
            part.update(own, seed=seed + number)
    return adapted


@functools.cache  # a search adapts in every round
def _warn_of_update_alone(name: str) -> None:
    """Says that a method does nothing of its own for a class that is neither a network nor trees of costhub's."""
    log.warning(
        "%s derives neither from NeuralModel nor from Gbt, so only its `update` is called: brief, fine-tune, lottery, "
        "moses, momentum and corrected are the same for it; frozen and residual differ.",
        name,
    )


@dataclass(frozen=True)
class Frozen:
    """Learns nothing."""

    name = "frozen"

    def adapt(
        self, source: CostModel, target: Programs, *, seed: int, source_programs: Programs | None = None
    ) -> CostModel:
        """A copy, see `TransferMethod`."""
        return copy.deepcopy(source)


@dataclass(frozen=True)
class Brief:
    """Trains networks for a few passes at a low rate, and grows twenty more trees (`CostModel.update`).

    This is for searches, which learn from one workload, a few programs at a time, and have to wait for it.
    """

    name = "brief"

    def adapt(
        self, source: CostModel, target: Programs, *, seed: int, source_programs: Programs | None = None
    ) -> CostModel:
        """See `TransferMethod`."""
        return adapt_sub_models(source, target, seed=seed, network=_update_briefly)


def _update_briefly(part: CostModel, own: Programs, seed: int) -> None:
    part.update(own, seed=seed)


@dataclass(frozen=True)
class FineTune:
    """Networks take plain gradient steps, trees continue from the source's trees."""

    name = "fine-tune"
    epochs: int = 30
    """Passes over the programs of the target."""
    learning_rate: float = 1e-3
    """Peak learning rate; it rises over the first tenth of the steps, and then falls as a cosine."""

    def __post_init__(self) -> None:
        check_ranges({"epochs": (self.epochs, 1, 10_000), "learning_rate": (self.learning_rate, 0.0, 1.0)})

    def adapt(
        self, source: CostModel, target: Programs, *, seed: int, source_programs: Programs | None = None
    ) -> CostModel:
        """See `TransferMethod`."""
        return adapt_sub_models(source, target, seed=seed, network=self.tune)

    def tune(self, part: NeuralModel[Any], own: Programs, seed: int) -> None:
        """Changes one network; the programs are as it reads them."""
        part.fine_tune(own, epochs=self.epochs, learning_rate=self.learning_rate, seed=seed)


@dataclass(frozen=True)
class ResidualTrees:
    """Global plus local model, see `Residual`; if the source already is one, its local part is trained again."""

    name = "residual"

    def adapt(
        self, source: CostModel, target: Programs, *, seed: int, source_programs: Programs | None = None
    ) -> CostModel:
        """See `TransferMethod`."""
        kept = copy.deepcopy(source)
        model = kept if isinstance(kept, Residual) else Residual(feature_spec=kept.feature_spec, base=kept)
        model.update(target, seed=seed)
        return model
