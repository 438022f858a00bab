"""A folder says from which design space a workload's programs are, and no search goes on in another one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.collector.measurer import Measurer
from costhub.collector.workloads.suites import SuiteWorkload, find_workload
from costhub.dataset.workload import parse_target
from costhub.errors import DataError, WorkloadError
from costhub.search.database import measured_programs
from costhub.search.options import Search
from costhub.search.result import TuneResult
from costhub.search.space_notes import NOTES, SpaceNotes
from costhub.search.strategies.strategy import Random
from costhub.search.tune import tune

MATMUL = "matmul.128x128x128"


def product(*sizes: int) -> Any:
    return SuiteWorkload("made", "matmul", sizes or (16, 16, 16)).module()


def test_what_was_noted_is_known_to_the_next_search_of_that_workload_and_target(tmp_path: Path, target: str) -> None:
    here = parse_target(target)
    elsewhere = parse_target(json.dumps({**json.loads(target), "num-cores": 99}))
    notes = SpaceNotes(tmp_path)
    for mod, space in ((product(), "mine:rules"), (product(8, 8, 8), "llvm")):
        notes.note(mod, here, space)
    assert SpaceNotes(tmp_path).before(product(), here) is None, "nothing is kept yet"
    notes.write()

    again = SpaceNotes(tmp_path)

    assert [again.before(mod, here) for mod in (product(), product(8, 8, 8))] == ["mine:rules", "llvm"]
    assert again.before(product(), elsewhere) is None
    assert again.before(product(4, 4, 4), here) is None


def test_the_file_is_written_where_it_says_anything_new(tmp_path: Path, target: str) -> None:
    here = parse_target(target)
    SpaceNotes(tmp_path).write()
    assert list(tmp_path.iterdir()) == []

    notes = SpaceNotes(tmp_path)
    notes.note(product(), here, "llvm")
    notes.write()
    first = (tmp_path / NOTES).stat().st_ino
    notes.note(product(), here, "llvm")
    notes.write()
    assert (tmp_path / NOTES).stat().st_ino == first

    notes.note(product(), here, "default")
    notes.write()
    assert SpaceNotes(tmp_path).before(product(), here) == "default"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[" * 100_000,
        "[]",
        '{"costhub": "tuning report", "spaces": []}',
        '{"costhub": "design spaces", "version": 1}',
        '{"costhub": "design spaces", "version": 1, "spaces": 7}',
        '{"costhub": "design spaces", "version": 1, "spaces": [{"workload": "1", "target": "t"}]}',
        '{"costhub": "design spaces", "version": 1, "spaces": [{"workload": "1", "target": "t", "space": 3}]}',
    ],
)
def test_a_file_that_does_not_say_it_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / NOTES).write_text(content)

    with pytest.raises(DataError, match=rf"^{re.escape(str(tmp_path / NOTES))} should say .* Move it away if you know"):
        SpaceNotes(tmp_path)


def test_a_link_and_the_file_of_a_newer_costhub_are_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text('{"costhub": "design spaces", "version": 99, "spaces": []}')
    (tmp_path / NOTES).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="is a symbolic link"):
        SpaceNotes(tmp_path)

    (tmp_path / NOTES).unlink()
    (tmp_path / "elsewhere").rename(tmp_path / NOTES)
    with pytest.raises(DataError, match="has version 99, this costhub reads up to 1"):
        SpaceNotes(tmp_path)


def test_a_strangers_name_of_a_space_is_shown_without_what_a_terminal_would_interpret(tmp_path: Path) -> None:
    said = str(SpaceNotes(tmp_path).other("m", "\x1b[31m:x", "llvm"))

    assert "\x1b" not in said
    assert "--space ?[31m:x (" in said


def search(
    out: Path, measurer: Measurer, linear: Any, trials: int, *, space: str | None, name: str = MATMUL, **more: Any
) -> TuneResult:
    how = Search(linear(np.full(172, -0.01)), strategy=Random(), space=space, trials_per_round=4)
    return tune(find_workload(name).module(), name, how, measurer, out=out, trials=trials, **more)


def test_a_search_goes_on_in_its_own_space_only(
    tmp_path: Path, measurer: Measurer, linear: Any, marked_space: str, is_marked: Any
) -> None:
    def stop(done: int, _: float | None) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(tmp_path, measurer, linear, 5, space=marked_space, on_trial=stop)
    for asked, other in ((None, "default"), ("llvm", "llvm")):
        with pytest.raises(DataError) as refused:
            search(tmp_path, measurer, linear, 5, space=asked)
        assert str(refused.value) == (
            f"The programs of {MATMUL} in {tmp_path} were drawn from the design space {marked_space}, and this search "
            f"would draw from {other}. It can go on with --space {marked_space} (space={marked_space!r} in Python) "
            "only; for another space, choose another folder."
        )
    assert measured_programs(tmp_path) == 3

    result = search(tmp_path, measurer, linear, 5, space=marked_space)

    assert (result.trials, result.space) == (5, marked_space)
    assert is_marked(tmp_path) == [True] * 5


def test_what_costhub_chose_is_what_one_may_ask_for_next(tmp_path: Path, measurer: Measurer, linear: Any) -> None:
    assert search(tmp_path, measurer, linear, 1, space=None).space == "default"
    assert search(tmp_path, measurer, linear, 2, space="default").trials == 2
    assert search(tmp_path, measurer, linear, 1, space="llvm", name="softmax.64x1000").space == "llvm"

    with pytest.raises(DataError, match="drawn from the design space default, and this search would draw from blocked"):
        search(tmp_path, measurer, linear, 3, space="blocked")


def test_a_folder_that_does_not_say_goes_on_in_any_space(tmp_path: Path, measurer: Measurer, linear: Any) -> None:
    search(tmp_path, measurer, linear, 1, space="llvm")
    (tmp_path / NOTES).unlink()

    assert search(tmp_path, measurer, linear, 2, space="default").trials == 2


def test_a_search_that_does_not_begin_notes_nothing(
    tmp_path: Path, measurer: Measurer, linear: Any, marked_space: str
) -> None:
    for space in ("tensor-core", marked_space.replace(":space", ":broken")):
        with pytest.raises(WorkloadError, match=f"The design space '{space}'"):
            search(tmp_path, measurer, linear, 2, space=space)

    assert not (tmp_path / NOTES).exists()
