from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from costhub.dataset.check.rule import Finding, Rule


def test_a_rule_is_named_by_keywords_and_does_not_change() -> None:
    rule = Rule(id="CH999", title="t", severity="error", fix="f")

    assert not rule.is_deep
    with pytest.raises(FrozenInstanceError):
        rule.title = "u"  # type: ignore[misc]


def test_a_finding_on_a_file_is_about_no_rows() -> None:
    assert Finding("CH001", "error", "a", "m.", "f").rows == 0
