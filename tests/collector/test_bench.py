"""Both benches, of this machine and of boards, can take each other's place."""

from __future__ import annotations

import inspect

import pytest

from costhub.collector.bench import Bench
from costhub.collector.boards.board_rig import BoardBench
from costhub.collector.local_bench import LocalBench


@pytest.mark.parametrize("bench", [LocalBench, BoardBench])
def test_it_has_the_methods_of_a_bench_with_their_arguments(bench: type) -> None:
    for name in ("launch", "measure"):
        asked = inspect.signature(getattr(Bench, name)).parameters
        assert list(inspect.signature(getattr(bench, name)).parameters) == list(asked)
