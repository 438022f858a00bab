"""The transformers, against torch's own layer, and what a decoder may see."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from costhub.collector.zoo.transformer import Gpt, Layer


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_layer_computes_what_torchs_layer_does(norm_first: bool) -> None:
    reference = nn.TransformerEncoderLayer(
        8, 2, 32, dropout=0.0, activation="gelu", batch_first=True, norm_first=norm_first
    )
    layer = Layer(8, 2, causal=False, norm_first=norm_first)
    attention = reference.self_attn
    for part, weight, bias in zip(
        (layer.attention.query, layer.attention.key, layer.attention.value),
        attention.in_proj_weight.chunk(3),
        attention.in_proj_bias.chunk(3),
        strict=True,
    ):
        part.load_state_dict({"weight": weight, "bias": bias})
    layer.attention.out.load_state_dict(attention.out_proj.state_dict())
    layer.dense[0].load_state_dict(reference.linear1.state_dict())
    layer.dense[2].load_state_dict(reference.linear2.state_dict())
    x = torch.randn(2, 5, 8)

    assert torch.allclose(layer(x), reference(x), atol=1e-5)


def test_a_decoder_does_not_see_what_comes_later() -> None:
    decoder = Gpt(1, 8, 2).layers
    x = torch.randn(1, 4, 8)
    changed = x.clone()
    changed[:, 3] += 1

    assert torch.allclose(decoder(x)[:, :3], decoder(changed)[:, :3], atol=1e-6)
    assert not torch.allclose(decoder(x)[:, 3], decoder(changed)[:, 3])
