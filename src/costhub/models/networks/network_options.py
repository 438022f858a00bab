"""Provides the options of networks, without torch: NetworkOptions of all, MlpOptions and TreeGruOptions."""

from __future__ import annotations

from dataclasses import dataclass

from costhub.models.options import NETWORK_OBJECTIVES, added_option, check_choice, check_ranges

FORMS = ("costhub", "tenset", "moses")
"""Of the decoder: two layers, the second one residual; the same with both residual; none at all."""


@dataclass(frozen=True)
class NetworkOptions:
    """The options that every network has; an architecture adds those that shape it."""

    bins: int = 8
    """Maximum number of bins per column in the scaler; 0 only standardises columns."""
    members: int = 1
    """Number of networks, trained from different initial weights, whose scores are averaged."""
    epochs: int = 60
    """Passes over the programs; fewer if validation ends training early."""
    learning_rate: float = 1e-3
    """Peak learning rate: it rises over the first tenth of the steps and falls as a cosine over the rest."""
    weight_decay: float = 1e-2
    """Decoupled from the gradient (AdamW)."""
    batch: int = 512
    """Programs per step."""
    chunk: int = 64
    """Programs of one group that stay together in a batch."""
    listwise: float = 0.2
    """Weight of the ListNet loss added to the pairwise loss of the objective `gap`."""
    patience: int = 20
    """Epochs without a better validation loss after which training ends."""
    objective: str = added_option("gap")
    """`regression`, `rank`, `lambdarank` or `gap`: see `costhub.models.networks.losses`."""

    def __post_init__(self) -> None:
        check_choice("objective", self.objective, NETWORK_OBJECTIVES)
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


@dataclass(frozen=True)
class MlpOptions(NetworkOptions):
    """How an Mlp is built and trained; the defaults are what the benchmark found best.

    TenSet's SegmentSumMLP is `form="tenset", hidden=256, bins=0, objective="lambdarank", epochs=50,
    learning_rate=7e-4` (Zheng et al., NeurIPS Datasets and Benchmarks 2021); Moses' two hidden layers of 512
    are `form="moses", hidden=512, bins=0, objective="rank"` (Zhao et al., 2022, section 4).

    Example:
        >>> MlpOptions(form="moses", hidden=512, bins=0).objective
        'gap'
    """

    hidden: int = 256
    """Width of the hidden layers."""
    form: str = added_option("costhub")
    """What follows the sum over rows. `costhub`: two layers, the second one residual; `tenset`: the same with
    both residual; `moses`: only the linear score, so the two layers before the sum are the only ones."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("form", self.form, FORMS)
        check_ranges({"hidden": (self.hidden, 1, 4096)})


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
