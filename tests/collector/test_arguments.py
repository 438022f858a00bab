"""What programs are run on: no zeros, no denormals, and no index out of range."""

from __future__ import annotations

import numpy as np
import pytest

from costhub.collector import arguments as module_under_test
from costhub.collector.arguments import forget, nbytes, on_device, on_host

FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn")


@pytest.mark.parametrize("dtype", FLOATS)
def test_numbers_are_neither_zero_nor_denormal_nor_all_the_same(dtype: str) -> None:
    (values,) = on_host(((dtype, (64, 65)),))
    assert str(values.dtype) == dtype
    plain = values.astype(np.float64)
    assert plain.min() > 0.09
    assert plain.max() <= 1.0
    assert np.unique(plain).size > 10


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "uint32"])
def test_integers_are_small_and_not_zero(dtype: str) -> None:
    (values,) = on_host(((dtype, (100, 200)),))
    assert str(values.dtype) == dtype
    assert set(np.unique(values).tolist()) == set(range(1, 8))


def test_an_index_stays_within_every_extent_over_one() -> None:
    table, index, scalar = on_host((("float32", (1, 3, 64)), ("int64", (50,)), ("int32", ())))
    assert table.shape == (1, 3, 64)
    assert set(index.tolist()) == {1, 2}
    assert scalar.shape == ()


def test_truth_values_are_of_both_kinds() -> None:
    (values,) = on_host((("bool", (100,)),))
    assert values.dtype == bool
    assert set(values.tolist()) == {True, False}


def test_they_are_the_same_every_time() -> None:
    wanted = (("float32", (4, 4)), ("int8", (9,)))
    assert all(np.array_equal(a, b) for a, b in zip(on_host(wanted), on_host(wanted), strict=True))


@pytest.mark.parametrize("dtype", [*FLOATS, "bool", "int8"])
def test_devices_take_them(dtype: str) -> None:
    import tvm

    (tensor,) = on_device(((dtype, (3, 5)),), "cpu", tvm.cpu())
    assert tensor.dtype == dtype
    assert np.array_equal(tensor.numpy().view(np.uint8), on_host(((dtype, (3, 5)),))[0].view(np.uint8))


def test_they_are_kept_until_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    import tvm

    small, other = (("float32", (8,)),), (("float32", (9,)),)
    forget()
    kept = on_device(small, "cpu", tvm.cpu())
    assert on_device(small, "cpu", tvm.cpu()) is kept
    monkeypatch.setattr(module_under_test, "ARGUMENT_CACHE_BYTES", nbytes(small))
    on_device(other, "cpu", tvm.cpu())
    assert on_device(small, "cpu", tvm.cpu()) is not kept
