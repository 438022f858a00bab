"""The benchmark of kills notices what it is to notice: orphans, other results, tracebacks and files left behind."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scripts.bench.collecting import kills
from scripts.bench.collecting.kills import KilledVerb, Killer, is_bad, killed

COUNTING = """
import subprocess, sys, time
from pathlib import Path
out = Path(sys.argv[1])
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep({sleep})"])
lines = out.read_text().count("x") if out.exists() else 0
for _ in range(lines, 8):
    with out.open("a") as file:
        file.write("x")
    time.sleep(0.05)
{last}
child.kill()
"""

FINE: dict[str, Any] = dict.fromkeys(("orphans", "tracebacks", "different", "left"), ())
"""Of a row in which nothing is wrong."""


class ParentAtLast(random.Random):
    """Always the first victim, the parent, at the last moment."""

    def choice(self, seq: Any) -> Any:
        return seq[0]

    def uniform(self, a: float, b: float) -> float:
        return max(a, b)


@pytest.fixture
def killer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Killer]:
    """A command that writes eight letters, and goes on where it was killed; its child ends by itself or not."""

    def made(sleep: float = 0.0, last: str = "", state: Callable[[Path], Any] = lambda out: out.read_text()) -> Killer:
        monkeypatch.setattr(kills, "CODE", COUNTING.format(sleep=sleep, last=last))
        monkeypatch.setattr(kills, "GONE_S", 0.5)
        verb = KilledVerb(("OUT",), lambda out: {"text": state(out)})
        return Killer(verb, {}, tmp_path / "place", random.Random(0))

    return made


def test_a_command_that_goes_on_comes_to_the_same_end(killer: Callable[..., Killer]) -> None:
    one = killer()
    whole, seconds = one.whole()
    one.out.unlink()

    for _ in range(6):
        one.kill_once(whole, seconds)

    assert one.tally.killed.total() + one.tally.ended_before == 6
    assert one.tally.killed.total() > 0
    assert (one.tally.orphans, one.tally.tracebacks, one.tally.different, one.left_over()) == ([], [], [], [])


@pytest.mark.slow
def test_a_child_that_outlives_its_parent_is_an_orphan_and_is_ended(killer: Callable[..., Killer]) -> None:
    one = killer(sleep=60.0, last="time.sleep(60)")
    one.rng = ParentAtLast()

    one.kill_once({"text": "x" * 8}, 6.0)

    assert len(one.tally.orphans) == 1
    assert one._processes() == []


def test_another_result_a_traceback_and_a_file_are_noticed(killer: Callable[..., Killer]) -> None:
    one = killer(last="(out.parent / '.half').write_text('')\nraise KeyError(1)")
    (one.temporary / "left.txt").write_text("")

    one.kill_once({"text": "x" * 8}, 0.0)
    one.out.write_text("x" * 8)
    while not one.tally.ended_before:
        one.kill_once({"text": "x" * 8}, 1.0)

    assert any("KeyError" in text for text in one.tally.tracebacks)
    assert sorted(one.left_over()) == [".half", "left.txt"]


def test_a_run_that_ends_with_another_result_is_noticed(killer: Callable[..., Killer]) -> None:
    one = killer()
    one.out.write_text("x" * 7 + "y")

    while not one.tally.ended_before:
        one.kill_once({"text": "x" * 8}, 2.0)

    assert one.tally.different == ['{"text": "xxxxxxxyx"}']
    assert not one.out.exists()


def test_a_row_says_what_was_found(killer: Callable[..., Killer], tmp_path: Path, monkeypatch: Any) -> None:
    killer()
    verb = KilledVerb(("OUT",), lambda out: {"text": out.read_text(), "doubled": 0})
    monkeypatch.setitem(kills.VERBS, "counting", verb)

    row = killed("counting", {}, tmp_path / "other", 2, random.Random(1))

    assert sum(row["killed"].values()) == 2
    assert not is_bad(row)
    for name in ("orphans", "tracebacks", "different", "left"):
        assert is_bad({**row, name: ["x"]})
    assert is_bad({**row, "doubled": 1})


def test_a_verb_that_has_its_row_is_not_killed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def one(name: str, *_: Any) -> dict[str, Any]:
        asked.append(name)
        return {"verb": name, "doubled": 0, **FINE}

    monkeypatch.setattr(kills, "killed", one)
    monkeypatch.setattr(kills, "made_inputs", lambda *_: {})
    words = ["--rows", str(tmp_path / "rows.jsonl"), "--json", str(tmp_path / "kills.json")]

    for verbs in (("import",), ("import", "doctor")):
        done = CliRunner().invoke(kills.main, [*words, *(word for verb in verbs for word in ("--verb", verb))])
        assert done.exit_code == 0, done.output

    assert asked == ["import", "doctor"]
    assert [row["verb"] for row in json.loads((tmp_path / "kills.json").read_text())["rows"]] == ["import", "doctor"]


def test_a_row_counts_only_for_what_it_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def one(name: str, _: Any, place: Path, times: int, *__: Any) -> dict[str, Any]:
        asked.append(times)
        return {"verb": name, "doubled": 0, **FINE}

    monkeypatch.setattr(kills, "killed", one)
    monkeypatch.setattr(kills, "made_inputs", lambda *_: {})
    (tmp_path / "rows.jsonl").write_text(json.dumps({"verb": "import", "doubled": 9, **FINE}) + "\n")  # of any kills
    words = ["--rows", str(tmp_path / "rows.jsonl"), "--json", str(tmp_path / "kills.json")]

    for more in (["--quick"], ["--times", "3"], ["--best", "7"], ["--seed", "1"], ["--seed", "1"]):
        done = CliRunner().invoke(kills.main, [*words, "--verb", "import", *more])
        assert done.exit_code == 0, done.output

    assert asked == [1, 1, 3, 50, 50]  # the quick form has two verbs
    found = json.loads((tmp_path / "kills.json").read_text())
    assert (found["times"], found["best"], found["seed"]) == (50, 100, 1)
    assert [(row["times"], row["best"], row["seed"]) for row in found["rows"]] == [(50, 100, 1)]
    assert "place" not in found["rows"][0]


def test_a_bad_row_names_the_place_of_its_own_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def one(name: str, _: Any, place: Path, *__: Any) -> dict[str, Any]:
        return {"verb": name, "doubled": int(name == "import"), **FINE}

    monkeypatch.setattr(kills, "killed", one)
    monkeypatch.setattr(kills, "made_inputs", lambda *_: {})
    monkeypatch.setattr(kills.tempfile, "mkdtemp", lambda **_: str(made.pop()))
    made = [tmp_path / "second", tmp_path / "first"]
    for place in made:
        place.mkdir()

    for verbs in (["--verb", "import"], ["--verb", "import", "--verb", "doctor"]):
        done = CliRunner().invoke(kills.main, ["--rows", str(tmp_path / "rows.jsonl"), *verbs])
        assert done.exit_code == 1
        assert f"everything is kept: import in {tmp_path / 'first'}.\n" in done.output

    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["first"]
