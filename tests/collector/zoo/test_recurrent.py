"""The cells, against torch's own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from costhub.collector.zoo.recurrent import GruCell, LstmCell


@pytest.mark.parametrize(("ours", "theirs"), [(LstmCell, nn.LSTMCell), (GruCell, nn.GRUCell)])
def test_a_cell_computes_what_torchs_cell_does(
    ours: type[LstmCell | GruCell], theirs: type[nn.LSTMCell | nn.GRUCell]
) -> None:
    cell, reference = ours(3, 4), theirs(3, 4)
    cell.given.load_state_dict({"weight": reference.weight_ih, "bias": reference.bias_ih})
    cell.kept.load_state_dict({"weight": reference.weight_hh, "bias": reference.bias_hh})
    x, state = torch.randn(2, 3), (torch.randn(2, 4), torch.randn(2, 4))[: 2 if ours is LstmCell else 1]

    found = cell(x, state)

    expected = reference(x, state if ours is LstmCell else state[0])
    expected = expected if ours is LstmCell else (expected,)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(found, expected, strict=True))
