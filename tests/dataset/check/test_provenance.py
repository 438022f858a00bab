from __future__ import annotations

from typing import Any

import pytest

from costhub import __version__
from costhub.dataset.check.provenance import missing_licence, strange_versions


def test_a_row_without_a_licence(batch: Any) -> None:
    [(_, mask)] = missing_licence(batch(licence=["MIT", None, " "]))

    assert mask.tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("version", "is_newer", "is_strange"),
    [
        (__version__, False, False),
        ("0.0.1", False, False),
        ("99.0", True, False),
        ("99.1.2.dev3+g123", True, False),
        ("latest", False, True),
        ("9" * 400 + ".1", False, True),
        (None, False, False),
        ("", False, False),
    ],
)
def test_versions_that_this_costhub_cannot_judge(
    batch: Any, version: str, is_newer: bool, is_strange: bool
) -> None:
    newer, strange = (bool(mask[0]) for _, mask in strange_versions(batch(costhub_version=[version])))

    assert (newer, strange) == (is_newer, is_strange)
