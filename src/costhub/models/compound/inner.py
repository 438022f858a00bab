"""Provides Compound and leaves: the models that a model is made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from costhub.dataset.programs import Programs
from costhub.models.protocol import CostModel


@runtime_checkable
class Compound(Protocol):
    """A model that scores by others, which can learn in its place."""

    def inner(self, programs: Programs) -> list[tuple[CostModel, Programs]]:
        """The models it is made of, each with these programs as that model reads them.

        Raises:
            ModelError: It was neither fitted nor loaded, or reads rows of another width.
        """


def leaves(model: CostModel, programs: Programs) -> Iterator[tuple[CostModel, Programs]]:
    """The networks and trees of a model, down through compounds of compounds; of a simple one, itself.

    Args:
        model: Any model.
        programs: As it reads them.

    Yields:
        Each with the programs as it reads them.
    """
    if not isinstance(model, Compound):
        yield model, programs
        return
    for part, own in model.inner(programs):
        yield from leaves(part, own)


def update_inner(model: Compound, programs: Programs, *, seed: int) -> None:
    """Every model that this one is made of learns a little more."""
    for number, (part, own) in enumerate(model.inner(programs)):
        part.update(own, seed=seed + number)
