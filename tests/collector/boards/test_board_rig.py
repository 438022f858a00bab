"""A collection on boards: they share the programs, and every program has one row that names its board."""

from __future__ import annotations

from pathlib import Path

import pytest

from costhub.collector.boards.board_rig import board_rig
from costhub.collector.boards.server import Running
from costhub.collector.boards.tracker import Tracker
from costhub.collector.collect import Proposals, collect
from costhub.collector.device import identify
from costhub.collector.evaluator import Evaluator
from costhub.collector.rig import Rights
from costhub.collector.suite import find_suites
from costhub.dataset.folder import DataFolder
from costhub.errors import MeasureError

QUICK = Evaluator(repeat=2, min_repeat_ms=1)


def test_boards_fill_a_folder_as_this_machine_would(
    tmp_path: Path, tracker: Tracker, boards_of_key: list[Running]
) -> None:
    folder = DataFolder.create(tmp_path / "data")
    address = f"{tracker.host}:{tracker.port}"
    with board_rig(address, "test", evaluator=QUICK, rights=Rights()) as rig:
        for row in rig.rows:
            folder.put_device(row)
        done = collect(
            find_suites(["matmul.128x128x128"]),
            folder,
            rig=rig,
            proposals=Proposals(12, seed=1),
            budget_s=300,
            on_outcome=lambda *_: None,
        )

    rows = folder.measurements().to_pylist()
    assert (done.good, done.failed) == (12, 0)
    assert len({row["program_id"] for row in rows}) == len(rows) == 12
    assert {row["board"] for row in rows} == {"1", "2"}  # no address
    assert {row["device_id"] for row in rows} == {identify()["device_id"]}


@pytest.mark.parametrize("address", ["here", "127.0.0.1:", ":9190", "a:b", "a:²", "a:0", "a:65536"])
def test_what_is_no_address_is_a_sentence(address: str) -> None:
    with (
        pytest.raises(MeasureError, match="HOST:PORT"),
        board_rig(address, "test", evaluator=QUICK, rights=Rights()),
    ):
        pass
