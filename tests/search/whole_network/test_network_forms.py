"""The children that time forms of a network, here and on a board."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from costhub.collector.boards import session
from costhub.errors import NetworkError
from costhub.search.whole_network.network_forms import (
    MAX_CALLS,
    BoardLost,
    flatten_outputs,
    load_library,
    load_on_board,
    load_torch,
    time_calls,
    time_calls_on_board,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec:FutureWarning")


def test_torch_is_loaded_called_and_timed(files: tuple[Path, Path]) -> None:
    value = np.ones((1, 3, 32, 32), np.float32)
    (first,), (second,) = (load_torch(str(path), (value,), 1, False) for path in files)

    assert first.shape == (1, 10)
    assert not np.allclose(first, second)
    taken = time_calls(0.0)
    assert len(taken) == 1
    assert taken[0] > 0


def test_what_is_no_library_is_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "not.so"
    path.write_text("not")

    # No CPUs: the process of the tests is to keep its own.
    with pytest.raises(NetworkError, match=": "):
        load_library(str(path), (), ())


def test_outputs_with_names_are_flattened_as_tuples_are() -> None:
    import torch

    best = torch.topk(torch.tensor([1.0, 3.0, 2.0]), 2)  # has `values`, which is a tensor

    values, places = flatten_outputs(best)
    assert (values.tolist(), places.tolist()) == ([3.0, 2.0], [1, 2])
    assert [each.tolist() for each in flatten_outputs({"a": torch.ones(1), "b": (None, torch.zeros(1))})] == [
        [1.0],
        [0.0],
    ]


class Steady:
    """A form that takes the same time at each call."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def take(self, repeat: int) -> list[float]:
        return [self.seconds] * repeat


@pytest.mark.parametrize(
    ("seconds", "turn", "calls"), [(0.3, 1.0, 2), (0.3, 0.0, 1), (2.0, 1.0, 1), (1e-6, 1.0, MAX_CALLS)]
)
def test_a_turn_has_one_call_at_least_and_not_too_many(
    seconds: float, turn: float, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_connection", session._Connection(object(), {"steady": Steady(seconds)}))

    assert time_calls_on_board("steady", turn) == [seconds] * calls


def test_without_a_session_everything_is_lost() -> None:
    with pytest.raises(BoardLost, match=r"The session with the board has ended\."):
        time_calls_on_board("first", 1.0)
    with pytest.raises(BoardLost):
        load_on_board("first", "first.so", ())


def test_forms_end_with_their_session(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = session._Connection(object(), {"steady": Steady(1.0)})
    monkeypatch.setattr(session, "_connection", connection)

    session.hang_up()

    assert connection.held == {}
