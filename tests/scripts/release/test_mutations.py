"""Wrong implementations: each still finds its place, and what the tests of a package say about one is told right."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from scripts.bench.common import machine
from scripts.release import mutations
from scripts.release.__main__ import commands
from scripts.release.mutations import MUTATIONS, SOURCES, Mutation, MutationError, Subject, check_unchanged, tried

ROOT = Path(__file__).parents[3]
SUM = Subject("sum", "tiny/sums.py")
HARMLESS = Mutation(SUM, "adds the other way round", "a + b", "b + a")
WRONG = Mutation(SUM, "subtracts", "a + b", "a - b")


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A checkout of a package with one function and one test."""
    for path, text in {
        "src/tiny/__init__.py": "",
        "src/tiny/sums.py": "def total(a, b):\n    return a + b\n",
        "tests/test_sums.py": "from tiny.sums import total\n\n\ndef test_total():\n    assert total(1, 2) == 3\n",
        "pyproject.toml": "[tool.pytest.ini_options]\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_every_mutation_changes_one_place_of_its_file_and_its_file_has_tests(mutation: Mutation) -> None:
    text = (ROOT / SOURCES / mutation.subject.file).read_text(encoding="utf-8")

    changed = mutation.applied_to(text)

    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))
    assert (ROOT / mutation.subject.tests).is_file()


def test_every_mutation_has_a_name_of_its_own() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)


@pytest.mark.parametrize(("text", "times"), [("a - b", "0 times"), ("a + b; a + b", "2 times")])
def test_a_text_that_is_not_there_once_is_refused(text: str, times: str) -> None:
    with pytest.raises(MutationError, match=f"sum: subtracts: the old text must occur once .* but occurs {times}"):
        WRONG.applied_to(text)


def test_the_tests_of_a_file_are_those_of_its_name() -> None:
    assert SUM.tests == "tests/test_sums.py"
    assert Subject("", "costhub/papers/moses.py").tests == "tests/papers/test_moses.py"


def test_a_harmless_change_goes_unnoticed(tiny: Path) -> None:
    verdict = tried(HARMLESS, tiny, timeout_s=60.0)

    assert (verdict.outcome, verdict.test) == ("unnoticed", None)


def test_a_wrong_one_is_noticed_by_a_test_that_is_named_and_the_checkout_stays(tiny: Path) -> None:
    before = (tiny / "src/tiny/sums.py").read_text()

    verdict = tried(WRONG, tiny, timeout_s=60.0)

    assert (verdict.outcome, verdict.test) == ("noticed", "test_sums.py::test_total")
    assert verdict.why.startswith("assert")
    assert (tiny / "src/tiny/sums.py").read_text() == before


@pytest.mark.parametrize(
    ("new", "test", "why"),
    [("a +", None, "SyntaxError"), ("a + c", "test_sums.py::test_total", "NameError: name 'c' is not defined")],
)
def test_code_that_breaks_is_no_wrong_implementation(tiny: Path, new: str, test: str | None, why: str) -> None:
    verdict = tried(Mutation(SUM, "is no code", "a + b", new), tiny, timeout_s=60.0)

    assert (verdict.outcome, verdict.test) == ("broken", test)
    assert why in verdict.why


def test_tests_that_take_too_long_have_noticed_nothing(tiny: Path) -> None:
    assert tried(WRONG, tiny, timeout_s=0.01).outcome == "too slow"


@pytest.mark.slow
def test_tests_that_fail_anyway_cannot_notice_anything(tiny: Path) -> None:
    assert check_unchanged([WRONG], tiny, timeout_s=60.0) > 0.0

    (tiny / "tests/test_sums.py").write_text("def test_total():\n    assert False\n")

    with pytest.raises(MutationError, match=r"must pass without a mutation, but do not: test_sums\.py::test_total"):
        check_unchanged([WRONG], tiny, timeout_s=60.0)


@pytest.mark.slow
@pytest.mark.parametrize(("only", "code", "outcomes"), [("", 1, ["noticed", "unnoticed"]), ("subtr", 0, ["noticed"])])
def test_the_command_tries_them_and_fails_where_one_is_not_noticed(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, only: str, code: int, outcomes: list[str]
) -> None:
    monkeypatch.setattr(machine, "ROOT", tiny)
    monkeypatch.setattr(mutations, "MUTATIONS", (WRONG, HARMLESS))

    done = CliRunner().invoke(commands, ["mutations", "--only", only, "--json", str(tiny / "found.json")])

    found = json.loads((tiny / "found.json").read_text())
    assert done.exit_code == code
    assert [row["outcome"] for row in found["rows"]] == outcomes
    assert found["rows"][0]["file"] == "src/tiny/sums.py"
    assert {"machine", "versions", "unchanged_s"} <= set(found)


def test_no_mutation_of_that_name_is_a_sentence() -> None:
    done = CliRunner().invoke(commands, ["mutations", "--only", "nonsense"])

    assert done.exit_code == 1
    assert "No mutation has 'nonsense' in its name." in done.output
