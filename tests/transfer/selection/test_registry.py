from __future__ import annotations

import pytest

from costhub.errors import UnknownNameError
from costhub.transfer.selection.registry import SELECTIONS, find_selection


def test_every_selection_has_its_name_and_ranking_needs_none() -> None:
    assert find_selection("ranked") is None
    for name in set(SELECTIONS) - {"ranked"}:
        found = find_selection(name)
        assert found is not None
        assert found.name == name


def test_an_unknown_name_says_what_there_is() -> None:
    with pytest.raises(UnknownNameError, match="diverse"):
        find_selection("divers")
