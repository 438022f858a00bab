"""Which measured workloads are searched, and what a strategy sees of them."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from costhub.dataset.load import load_programs
from costhub.errors import DataError
from costhub.search.replay.workloads import load_replay

build_data = runpy.run_path(str(Path(__file__).parents[2] / "cli/measured_folder.py"))["build_data"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = build_data(tmp_path_factory.mktemp("workloads") / "data")
    return folder


def test_programs_knobs_and_latencies_belong_together(data: Path) -> None:
    for each in load_replay(data, "acme-one", count=2, progress=False):
        own = load_programs(data, device="acme-one", workloads={each.task.workload_id})

        assert np.array_equal(each.latency_s, own.latency_s)
        assert np.array_equal(each.task.programs.rows, own.rows)
        assert len(each.task.knobs) == own.n == len(each.task.features)
        assert set(each.task.programs.latency_s.tolist()) == {1.0}


def test_without_a_spec_there_are_knobs_and_latencies_only(data: Path) -> None:
    full, bare = (load_replay(data, "acme-one", spec=spec, count=1, progress=False) for spec in ("tiles@1", None))

    assert np.array_equal(full[0].latency_s, bare[0].latency_s)
    assert full[0].task.knobs == bare[0].task.knobs
    assert bare[0].task.programs.rows.size == 0


def test_the_densest_workloads_come_first_and_others_can_be_left_out(data: Path) -> None:
    assert len(load_replay(data, "acme-one", count=4, progress=False)) == 4
    only = load_replay(data, "acme-one", workloads={"id-conv2d1"}, progress=False)
    assert [each.task.name for each in only] == ["conv2d1"]
    with pytest.raises(DataError, match="nothing to search"):
        load_replay(data, "acme-one", workloads=set(), progress=False)
