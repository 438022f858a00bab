"""Provides Mlp: the segment-sum multilayer perceptron as a cost model."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from costhub.errors import ModelError
from costhub.models.networks.network_options import MlpOptions
from costhub.models.networks.neural import NeuralModel
from costhub.models.networks.weights import draw_weights


class SegmentSumNetwork(nn.Module):
    """The network of TenSet's and Moses' multilayer perceptrons.

    Every row is encoded by two layers, and the sum over the rows of a program is decoded to its score. The rows
    of each part of a composite feature spec have an encoder of their own; their sums are concatenated.

    Args:
        columns: Width of a feature row, for each part if there are several.
        hidden: Width of the hidden layers.
        form: One of `network_options.FORMS`.
        generator: Draws the initial weights; None leaves them unset, for weights that are read from a file.
    """

    def __init__(
        self,
        columns: int | Sequence[int],
        hidden: int,
        *,
        form: str = "costhub",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self._form = form
        widths = [columns] if isinstance(columns, int) else list(columns)
        self._encoders = []
        # Layers created on "meta" draw nothing from the global random state.
        with torch.device("meta"):
            for part, width in enumerate(widths):
                # The first part has the names that the only part of a simple spec has always had.
                names = [f"part_{part}_encode_{layer}" if part else f"encode_{layer}" for layer in (1, 2)]
                self.add_module(names[0], nn.Linear(width, hidden))
                self.add_module(names[1], nn.Linear(hidden, hidden))
                self._encoders.append(names)
            summed = hidden * len(widths)
            if form != "moses":
                self.decode_1 = nn.Linear(summed, hidden)
                self.decode_2 = nn.Linear(hidden, hidden)
            self.score = nn.Linear(summed if form == "moses" else hidden, 1)
        if generator is not None:
            draw_weights(self, generator)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Scores programs.

        Args:
            inputs: (r, d) scaled feature rows, programs in order, and (n,) number of rows of each program, for
                each part in turn if there are several. A program without rows gets the score of an empty
                sum.

        Returns:
            (n,) scores.
        """
        parts = zip(self._encoders, inputs[::2], inputs[1::2], strict=True)
        summed = torch.cat([self._sum(names, rows, counts) for names, rows, counts in parts], dim=1)
        if self._form == "moses":
            scores: Tensor = self.score(summed).squeeze(-1)
            return scores
        decoded = functional.relu(self.decode_1(summed))
        if self._form == "tenset":
            decoded = decoded + summed
        decoded = decoded + functional.relu(self.decode_2(decoded))
        scores = self.score(decoded).squeeze(-1)
        return scores

    def _sum(self, names: Sequence[str], rows: Tensor, counts: Tensor) -> Tensor:
        """(n, hidden) sums of the encoded rows of one part."""
        encoded = rows
        for name in names:
            encoded = functional.relu(self.get_submodule(name)(encoded))
        program = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
        return encoded.new_zeros(len(counts), encoded.shape[1]).index_add(0, program, encoded)


class Mlp(NeuralModel[MlpOptions]):
    """Rows are scaled, encoded one by one, summed per program and decoded to a score.

    Args:
        feature_spec: Name and version of the feature layout it reads; every part of a composite one gets an
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
            ModelError: TenSet's form is requested for several parts, whose sums cannot be added to a layer's output.
        """
        if len(inputs) > 1 and self.options.form == "tenset":
            raise ModelError(f"An mlp of the form tenset reads one feature spec, got {self.feature_spec}; use another.")
        return SegmentSumNetwork(inputs, self.options.hidden, form=self.options.form, generator=generator)
