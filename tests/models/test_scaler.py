from __future__ import annotations

import numpy as np

from costhub.models.scaler import CLIP, Scaler


def test_training_rows_are_centred_with_unit_spread() -> None:
    rows = np.random.default_rng(0).normal(5.0, 3.0, size=(1000, 2)).astype(np.float32)

    scaled = Scaler.fit(rows)(rows)

    assert scaled.dtype == np.float32
    np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(scaled.std(axis=0), 1.0, atol=1e-5)


def test_a_column_that_was_constant_is_masked_whatever_it_holds_later() -> None:
    # 0.1 has no exact float32, so its spread comes out as a rounding error and not as 0.
    scaler = Scaler.fit(np.full((1000, 1), 0.1, np.float32))

    assert scaler(np.array([[0.1], [-1e6]], np.float32)).tolist() == [[0.0], [0.0]]


def test_far_values_are_clipped() -> None:
    scaler = Scaler.fit(np.array([[0.0], [1.0]], np.float32))

    assert scaler(np.array([[1e9], [-1e9]], np.float32)).tolist() == [[CLIP], [-CLIP]]


def test_the_input_is_left_as_it_was() -> None:
    rows = np.array([[0.0], [1.0]], np.float32)

    Scaler.fit(rows)(rows)

    assert rows.tolist() == [[0.0], [1.0]]


def test_no_rows_mask_every_column() -> None:
    assert Scaler.fit(np.zeros((0, 2), np.float32))(np.ones((1, 2), np.float32)).tolist() == [[0.0, 0.0]]
