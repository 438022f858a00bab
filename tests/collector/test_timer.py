"""What times programs here and what times them elsewhere take the same questions."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from costhub.collector.boards.boards import Boards
from costhub.collector.runner import Runner
from costhub.collector.timer import Timer


@pytest.mark.parametrize("kind", [Runner, Boards])
@pytest.mark.parametrize("name", ["launch", "run", "run_each"])
def test_a_runner_and_boards_are_timers(kind: Any, name: str) -> None:
    asked, taken = (inspect.signature(getattr(each, name)).parameters for each in (Timer, kind))

    assert list(taken)[: len(asked)] == list(asked)
    assert all(taken[each].default is not inspect.Parameter.empty for each in list(taken)[len(asked) :])
