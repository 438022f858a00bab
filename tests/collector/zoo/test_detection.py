"""The networks that give images or boxes."""

from __future__ import annotations

import torch

from costhub.collector.zoo.detection import UNet, dcgan, ssd, yolo


def test_detectors_answer_for_every_pixel_of_every_size() -> None:
    with torch.device("meta"):
        image = torch.empty(1, 3, 64, 64)
        boxes, (coarse, fine) = ssd().eval()(image), yolo().eval()(image)

    assert boxes.shape == (1, 6 * (16 * 16 + 8 * 8 + 4 * 4 + 2 * 2 + 1), 25)
    assert coarse.shape == (1, 255, 2, 2)
    assert fine.shape == (1, 255, 4, 4)


def test_segmentation_gives_each_pixel_a_class_with_chances() -> None:
    found = UNet(width=2, classes=5).eval()(torch.randn(1, 3, 32, 48))

    assert found.shape == (1, 5, 32, 48)
    assert torch.allclose(found.sum(1), torch.ones(1, 32, 48), atol=1e-5)


def test_the_generator_makes_an_image_of_each_code() -> None:
    with torch.device("meta"):
        assert dcgan()(torch.empty(2, 100, 1, 1)).shape == (2, 3, 64, 64)
