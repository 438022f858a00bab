from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from costhub.models.networks.scaler import CLIP, Scaler

ROWS = np.random.default_rng(0).normal(5.0, 3.0, size=(1000, 3)).astype(np.float32)


def test_training_rows_are_centred_with_unit_spread() -> None:
    scaled = Scaler.fit(ROWS, bins=4)(ROWS)[:, :3]

    np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(scaled.std(axis=0), 1.0, atol=1e-5)


def test_bins_lie_between_quantiles_and_fill_one_after_the_other() -> None:
    column = np.arange(9.0, dtype=np.float32)[:, None]

    scaler = Scaler.fit(column, bins=4)

    assert scaler.width == 5
    found = scaler(np.array([[-3.0], [1.0], [5.0], [99.0]], np.float32))[:, 1:]
    assert found.tolist() == [[0, 0, 0, 0], [0.5, 0, 0, 0], [1, 1, 0.5, 0], [1, 1, 1, 1]]


def test_columns_of_one_or_two_values_need_no_bins() -> None:
    rows = np.stack([np.ones(100), np.arange(100) % 2, np.arange(100)], axis=1).astype(np.float32)

    assert set(Scaler.fit(rows, bins=4).bin_column.tolist()) == {2}


def test_quantiles_that_fall_together_are_one_edge() -> None:
    mostly_zero = np.concatenate([np.zeros(90), np.arange(1.0, 11.0)]).astype(np.float32)[:, None]

    scaler = Scaler.fit(mostly_zero, bins=20)

    # Quantiles 0.05 to 0.9 are all 0: the two edges 0.95 and 1 remain beside it.
    assert scaler.width == 3
    assert np.isfinite(scaler.bin_inverse_width).all()


def test_a_column_that_was_constant_is_masked_whatever_it_holds_later() -> None:
    # 0.1 has no exact float32, so its spread comes out as a rounding error and not as 0.
    scaler = Scaler.fit(np.full((1000, 1), 0.1, np.float32), bins=4)

    assert scaler(np.array([[0.1], [-1e6]], np.float32)).tolist() == [[0.0], [0.0]]


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_any_value_stays_in_bounds(value: float) -> None:
    encoded = Scaler.fit(ROWS, bins=4)(np.full((1, 3), value, np.float32))

    assert encoded.dtype == np.float32
    assert np.abs(encoded[:, :3]).max() <= CLIP
    assert encoded[:, 3:].min() >= 0.0
    assert encoded[:, 3:].max() <= 1.0


def test_the_input_is_left_as_it_was() -> None:
    rows = ROWS.copy()

    Scaler.fit(rows, bins=2)(rows)

    assert np.array_equal(rows, ROWS)


def test_no_rows_mask_every_column() -> None:
    scaler = Scaler.fit(np.zeros((0, 2), np.float32), bins=4)

    assert scaler(np.ones((1, 2), np.float32)).tolist() == [[0.0, 0.0]]


def test_raw_columns_follow_the_encoded_ones_as_they_are() -> None:
    rows = np.array([[5.0, 0.0, 1.0], [7.0, 2.0, 2.0], [9.0, 1.0, 6.0]], np.float32)

    scaler = Scaler.fit(rows, bins=2, raw=(1,))
    encoded = scaler(rows)

    assert set(scaler.bin_column.tolist()) == {0, 2}
    assert encoded.shape == (3, scaler.width + 1)
    assert encoded[:, 1].tolist() == [0.0, 0.0, 0.0]
    assert encoded[:, -1].tolist() == [0.0, 2.0, 1.0]


def test_a_scaler_comes_back_from_its_tensors() -> None:
    scaler = Scaler.fit(ROWS, bins=4, raw=(2,))

    found = Scaler.of_tensors(scaler.tensors(), raw=(2,))

    np.testing.assert_array_equal(found(ROWS), scaler(ROWS))
    blank = Scaler.blank(3, scaler.width - 3, raw=(2,))
    assert {name: t.shape for name, t in blank.tensors().items()} == {
        name: t.shape for name, t in scaler.tensors().items()
    }


def test_rows_that_cannot_be_written_to_are_read() -> None:
    rows = ROWS.copy()
    rows.flags.writeable = False

    np.testing.assert_array_equal(Scaler.fit(rows, bins=2)(rows), Scaler.fit(ROWS, bins=2)(ROWS))
