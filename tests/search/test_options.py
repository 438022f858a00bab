from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from costhub.errors import ArgumentError
from costhub.search.options import Search, check_known_sources


def test_two_searches_share_what_is_not_changed(linear: Any) -> None:
    model = linear(np.zeros(3))
    search = Search(model, trials_per_round=8)

    again = replace(search, seed=7)

    assert again.model is model
    assert (again.trials_per_round, again.seed, search.seed) == (8, 7, 0)


def test_a_source_of_known_schedules_that_does_not_exist_is_refused() -> None:
    check_known_sources(("measured",))
    with pytest.raises(ArgumentError, match=r"^'model' is not a source of known schedules; .* measured, carried\.$"):
        check_known_sources(("measured", "model"))


def test_no_source_and_one_text_are_refused_with_what_to_write_instead() -> None:
    with pytest.raises(ArgumentError, match=r"a sequence of names, not a text: \('measured',\)\.$"):
        check_known_sources("measured")
    with pytest.raises(ArgumentError, match=r"^Name a source .*; from_scratch=True begins without any\.$"):
        check_known_sources(())
