from __future__ import annotations

from pathlib import Path

import click
import pytest

from costhub.cli.measuring import check_board, folder_of, named_workloads, opened_rig
from costhub.collector.suite import find_suites


def test_half_of_the_name_of_a_board_is_refused() -> None:
    check_board(None, None)
    check_board("127.0.0.1:9190", "pi4")
    for tracker, key in (("127.0.0.1:9190", None), (None, "pi4")):
        with pytest.raises(click.UsageError, match="belong together"):
            check_board(tracker, key)


def test_this_machine_is_a_rig_whose_folder_knows_it(tmp_path: Path) -> None:
    with opened_rig(["auto"], None, None, contributor="me", licence="CC0-1.0", flush_caches=True) as rig:
        folder = folder_of(tmp_path / "data", rig)
        folder_of(tmp_path / "data", rig)

        assert folder.devices()["device_id"].to_pylist() == [rig.sessions[0].device_id]
        assert (rig.sessions[0].contributor, rig.sessions[0].licence) == ("me", "CC0-1.0")
        assert rig.sessions[0].evaluator.cache_flush
        found = named_workloads(["resnet18"], [], rig)
        assert [each.name for each in found] == [each.name for each in find_suites(["resnet18"])]
