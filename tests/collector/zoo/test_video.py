"""The networks with windows in one and in three dimensions."""

from __future__ import annotations

import torch

from costhub.collector.zoo.video import Block3d, SpeechBlock


def test_blocks_keep_the_size_and_a_stride_halves_it() -> None:
    video = torch.randn(1, 4, 4, 6, 6)

    assert Block3d(4, 4, 1).eval()(video).shape == video.shape
    assert Block3d(4, 8, 2).eval()(video).shape == (1, 8, 2, 3, 3)
    assert SpeechBlock(4, 33).eval()(torch.randn(1, 4, 20)).shape == (1, 4, 20)
