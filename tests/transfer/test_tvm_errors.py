"""Exceptions through TVM's C++: they come out as what they were."""

from __future__ import annotations

import pytest

from costhub.errors import MeasureError
from costhub.transfer.tvm_errors import KINDS, register_errors


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_in_a_callback_keeps_its_class_and_its_words(kind: type[BaseException]) -> None:
    import tvm_ffi

    def callback() -> None:
        raise kind("It is what it is.")

    register_errors()
    register_errors()
    with pytest.raises(kind, match=r"It is what it is\."):
        tvm_ffi.convert(callback)()


def test_a_class_is_not_taken_for_its_base() -> None:
    import tvm_ffi

    def callback() -> None:
        raise MeasureError("The device is gone.")

    register_errors()
    with pytest.raises(MeasureError) as caught:
        tvm_ffi.convert(callback)()
    assert type(caught.value) is MeasureError
