"""Provides NetworkOptions: how a network of any architecture is trained."""

from __future__ import annotations

from dataclasses import dataclass

from costhub.models.networks.losses import OBJECTIVES
from costhub.models.options import added_option, check_choice, check_ranges


@dataclass(frozen=True)
class NetworkOptions:
    """The options that every network has; an architecture adds those that shape it."""

    bins: int = 8
    """Most bins into which the scaler spreads a column; 0 leaves columns standardised only."""
    members: int = 1
    """Networks, trained from different initial weights, whose scores are averaged."""
    epochs: int = 60
    """Passes over the programs; fewer where validation ends the training."""
    learning_rate: float = 1e-3
    """The highest one: it rises over the first tenth of the steps and falls as a cosine over the rest."""
    weight_decay: float = 1e-2
    """Decoupled from the gradient (AdamW)."""
    batch: int = 512
    """Programs per step."""
    chunk: int = 64
    """Programs of one group that stay together in a batch."""
    listwise: float = 0.2
    """Weight of the ListNet loss beside the pairwise one of the objective `gap`."""
    patience: int = 20
    """Epochs without a better validation loss after which training ends."""
    objective: str = added_option("gap")
    """`regression`, `rank`, `lambdarank` or `gap`: see `costhub.models.networks.losses`."""

    def __post_init__(self) -> None:
        check_choice("objective", self.objective, OBJECTIVES)
        check_ranges(
            {
                "bins": (self.bins, 0, 64),
                "members": (self.members, 1, 64),
                "epochs": (self.epochs, 1, 10_000),
                "learning_rate": (self.learning_rate, 0.0, 1.0),
                "weight_decay": (self.weight_decay, 0.0, 1.0),
                "batch": (self.batch, 2, 65_536),
                "chunk": (self.chunk, 2, 65_536),
                "listwise": (self.listwise, 0.0, 100.0),
                "patience": (self.patience, 1, 10_000),
            }
        )
