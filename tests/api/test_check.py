"""`costhub.check`: data and models, by name or folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from costhub.api.check import Findings, check
from costhub.dataset.check.rule import Finding
from costhub.dataset.check.rules import RULES
from costhub.errors import CosthubError, ModelError


def test_sound_data_have_no_findings(measured: Callable[..., Path], tmp_path: Path) -> None:
    found = check(measured(tmp_path / "data"), progress=False)

    assert (len(found), found.errors, bool(found)) == (0, 0, False)
    assert str(found) == repr(found) == f"{tmp_path / 'data'}: no errors, no warnings."
    assert found.to_pandas().empty


def test_findings_are_shown_by_rule_with_the_first_places() -> None:
    rule = next(iter(RULES.values()))
    places = [Finding(rule.id, "error", f"file-{n}", "It is wrong.", rule.fix) for n in range(7)]

    found = Findings(Path("data"), tuple(places))
    lines = str(found).splitlines()
    assert lines[0] == f"{rule.id} {rule.severity}: {rule.title}"
    assert "  ... and 2 more; --json lists them all" in lines
    assert lines[-1] == "data: 7 errors, no warnings."
    assert found.to_pandas()["where"].tolist() == [place.where for place in places]
    assert (found[0], found[5:]) == (places[0], tuple(places[5:]))


def test_a_model_is_checked_as_a_hub_does(sound_model: Callable[..., Path], tmp_path: Path) -> None:
    folder = sound_model("gbt")

    found = check(folder)
    assert (len(found), str(found)) == (0, f"{folder}: a sound gbt model for amd-epyc-zen5-2c.")
    (folder / "model.ubj").write_bytes(b"no trees")
    with pytest.raises(ModelError):
        check(folder)


def test_what_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CosthubError, match="nope"):
        check(tmp_path / "nope")
