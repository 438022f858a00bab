"""The attacks as a whole: kinds are distinct, the quick form is a sample, and a wrong outcome fails the command."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scripts.bench.security import attacks
from scripts.bench.security.attempt import Attempt
from scripts.bench.security.families import FAMILIES, all_attempts
from scripts.bench.security.place import Place
from scripts.bench.security.scenarios.__main__ import MODULES


def test_kinds_are_distinct_and_every_family_has_some() -> None:
    kinds = Counter(attempt.kind for attempt in all_attempts())

    assert max(kinds.values()) == 1
    assert len(kinds) > 300
    assert {attempt.family for attempt in all_attempts()} == set(FAMILIES)


def test_the_quick_form_is_a_sample_of_every_family() -> None:
    quick = attacks.chosen((), (), quick=True)

    assert 15 <= len(quick) <= 40
    assert {attempt.family for attempt in quick} == set(FAMILIES)


def test_families_and_kinds_can_be_chosen() -> None:
    assert {a.family for a in attacks.chosen(("trees",), (), quick=False)} == {"trees"}
    assert [a.kind for a in attacks.chosen((), ("17a",), quick=False)] == ["17a"]


def test_every_scenario_of_the_list_exists() -> None:
    from importlib import import_module

    for name, module in MODULES.items():
        assert callable(getattr(import_module(f"scripts.bench.security.scenarios.{module}"), name))


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two attempts in the place of all: one is refused, one is not."""
    made: list[str] = []

    def attempt(kind: str, code: str) -> Attempt:
        def make(place: Place) -> Any:
            made.append(kind)
            return place.python(code, shown="code")

        return Attempt(kind, "models", f"attempt {kind}", make)

    both = [attempt("1", "import sys; sys.exit('costhub: no.')"), attempt("2", "print('welcome')")]
    monkeypatch.setattr(attacks, "all_attempts", lambda: both)
    return made


def test_an_attempt_that_gets_through_fails_the_command(two: list[str], tmp_path: Path) -> None:
    words = ["--json", str(tmp_path / "a.json"), "--rows", str(tmp_path / "rows.jsonl")]

    done = CliRunner().invoke(attacks.main, words)

    assert done.exit_code == 1
    assert "1 of 2 attempts did not end as they must: 2" in done.output
    result = json.loads((tmp_path / "a.json").read_text())
    assert [row["outcome"] for row in result["rows"]] == ["refused", "accepted wrongly"]
    assert result["outcomes"] == {"refused": 1, "accepted wrongly": 1}
    assert {"machine", "device", "versions", "command"} <= set(result)
    assert two == ["1", "2"]


def test_rows_that_are_there_are_not_tried_again(two: list[str], tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    CliRunner().invoke(attacks.main, ["--kind", "1", "--rows", str(rows)])

    done = CliRunner().invoke(attacks.main, ["--kind", "1", "--rows", str(rows)])

    assert done.exit_code == 0, done.output
    assert two == ["1"]


def test_rows_of_another_costhub_are_not_taken_for_this_ones(two: list[str], tmp_path: Path) -> None:
    rows, other = tmp_path / "rows.jsonl", tmp_path / "other"
    other.mkdir()
    words = ["--kind", "1", "--rows", str(rows), "--json", str(tmp_path / "a.json")]

    CliRunner().invoke(attacks.main, [*words, "--source", str(other)])
    CliRunner().invoke(attacks.main, words)

    assert two == ["1", "1"]
    (row,) = json.loads((tmp_path / "a.json").read_text())["rows"]
    assert "of_code" not in row
    assert row["code"] == 1  # its exit status


def test_outcomes_of_an_earlier_costhub_stand_beside(two: list[str], tmp_path: Path) -> None:
    earlier = tmp_path / "earlier.json"
    earlier.write_text(json.dumps({"rows": [{"kind": "1", "outcome": "hang"}]}))

    CliRunner().invoke(attacks.main, ["--beside", str(earlier), "--json", str(tmp_path / "a.json")])

    rows = json.loads((tmp_path / "a.json").read_text())["rows"]
    assert [row["before"] for row in rows] == ["hang", None]


def test_a_busy_machine_gets_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Attempt("1", "models", "a slow one", lambda place: place.python("import time; time.sleep(2)", shown="code"),
                   expected="accepted", limit_s=0.1)  # fmt: skip
    monkeypatch.setattr(attacks, "all_attempts", lambda: [slow])

    outcomes = [CliRunner().invoke(attacks.main, ["--patience", factor]).output for factor in ("1", "600")]

    assert ["1 hang" in text for text in outcomes] == [True, False]
    assert "1 accepted" in outcomes[1]


def test_an_answer_names_no_folder_of_the_run_and_no_control_character() -> None:
    text = attacks.readable("costhub: /tmp/costhub-attack-x/m/model.ubj is \x1b[2J no model")

    assert text == "costhub: model.ubj is ?[2J no model"
