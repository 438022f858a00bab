"""The blocks of the networks that put channels side by side."""

from __future__ import annotations

import torch

from costhub.collector.zoo.cnn_classic import DenseLayer, Fire, Inception


def test_blocks_put_what_they_compute_beside_each_other() -> None:
    image = torch.randn(1, 8, 5, 5)

    assert Fire(8, 4, 6)(image).shape == (1, 12, 5, 5)
    assert Inception(8, 1, (2, 3), (4, 5), 6)(image).shape == (1, 1 + 3 + 5 + 6, 5, 5)


def test_a_dense_layer_keeps_its_input() -> None:
    layer, image = DenseLayer(8, 3).eval(), torch.randn(1, 8, 5, 5)

    found = layer(image)

    assert found.shape == (1, 11, 5, 5)
    assert torch.equal(found[:, :8], image)
