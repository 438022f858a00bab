from __future__ import annotations

import pytest

from costhub.errors import UnknownNameError
from costhub.transfer.methods.by_name import METHODS, find_method


def test_every_method_is_found_under_its_own_name() -> None:
    assert {name: find_method(name).name for name in METHODS} == {name: name for name in METHODS}


def test_an_unknown_name_is_refused_with_the_close_ones() -> None:
    with pytest.raises(UnknownNameError, match="lottery"):
        find_method("lotery")
