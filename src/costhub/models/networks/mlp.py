"""Provides Mlp: the segment-sum multilayer perceptron as a cost model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from costhub.errors import ModelError
from costhub.models.networks.network import FORMS, SegmentSumNetwork
from costhub.models.networks.network_options import NetworkOptions
from costhub.models.networks.neural import NeuralModel
from costhub.models.options import added, check_choice, check_ranges


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
    form: str = added("costhub")
    """What follows the sum over rows. `costhub`: two layers, the second one residual; `tenset`: the same with
    both residual; `moses`: nothing but the linear score, so that the two layers before the sum are all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("form", self.form, FORMS)
        check_ranges({"hidden": (self.hidden, 1, 4096)})


class Mlp(NeuralModel[MlpOptions]):
    """Rows are scaled, encoded one by one, summed per program and decoded to a score.

    Args:
        feature_spec: Name and version of the feature layout it reads; of a composite one, every part gets an
            encoder of its own.
        options: How it is built and trained.

    Example:
        >>> import numpy as np
        >>> from costhub.dataset.programs import Programs
        >>> rows = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
        >>> ones, latency_s = np.ones(64, np.int64), np.exp(rows[:, 0]).astype(float)
        >>> programs = Programs(rows, ones, 0 * ones, ("w",), latency_s)
        >>> model = Mlp(feature_spec="demo@1", options=MlpOptions(hidden=16))
        >>> model.fit(programs, None, seed=0, progress=False)
        >>> scores = model.predict(programs.rows, programs.counts)
        >>> bool(scores[programs.latency_s.argmin()] > scores[programs.latency_s.argmax()])
        True
    """

    arch = "mlp"
    options_type = MlpOptions
    reads_parts = True

    def build(self, inputs: Sequence[int], generator: torch.Generator | None) -> nn.Module:
        """A segment-sum network.

        Raises:
            ModelError: TenSet's form is asked for several parts, whose sums cannot be added to a layer's.
        """
        if len(inputs) > 1 and self.options.form == "tenset":
            raise ModelError(
                f"An mlp of the form tenset reads one feature spec, got {self.feature_spec}; use another."
            )
        return SegmentSumNetwork(inputs, self.options.hidden, form=self.options.form, generator=generator)
