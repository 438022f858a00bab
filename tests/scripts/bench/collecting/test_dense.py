"""Dense pools: the workloads are on the test side of their split, and keep what the dataset knows of them."""

from __future__ import annotations

import click
import numpy as np
import pytest

from costhub.dataset.folder import DataFolder
from costhub.dataset.programs import Programs
from costhub.dataset.splits.split import find_split
from costhub.dataset.workload import workload_row
from costhub.search.knobs import Knobs
from costhub.search.replay.workloads import ReplayWorkload
from scripts.bench.collecting.dense import DATASET, WORKLOADS, figures, stored_workloads
from scripts.bench.common.data import DATASETS

PLACE = DATASETS / DATASET


def test_no_model_learns_from_the_workloads() -> None:
    ids = dict(zip(*DataFolder.open(PLACE).workloads(["name", "workload_id"]).to_pydict().values(), strict=True))

    assert {ids[name] for name in WORKLOADS} <= set(find_split(str(PLACE), "workload-40-seed0").test)


def test_a_workload_is_collected_as_the_dataset_has_it() -> None:
    stored = {row["name"]: row for row in DataFolder.open(PLACE).workloads().to_pylist()}
    name = "matmul.12x197x197.12x197x64.c41dd0"
    (found,) = stored_workloads(PLACE, [name])

    row = workload_row(found.module(), name=found.name, operator=found.family, networks=found.networks)

    assert found.networks
    assert {key: row[key] for key in ("workload_id", "operator", "networks")} == {
        key: stored[name][key] for key in ("workload_id", "operator", "networks")
    }


def test_a_workload_that_is_not_there_is_refused() -> None:
    with pytest.raises(click.ClickException, match=r"no workload named nope\.$"):
        stored_workloads(PLACE, ["nope"])


def test_figures_count_the_programs_near_the_best() -> None:
    latency_s = np.array([1e-3, 1.04e-3, 1.06e-3, 2e-3, 3e-3])
    programs = Programs.from_list([np.ones((1, 2))] * 5, np.zeros(5, np.int64), ("w",), latency_s)
    pool = ReplayWorkload.of(programs, [Knobs("s", ((0, n),)) for n in range(5)], name="conv")

    found = figures(pool)

    assert (found["workload"], found["programs"], found["near"]) == ("conv", 5, 2)
    assert (found["best_us"], found["median_us"]) == pytest.approx((1000.0, 1060.0))
    assert found["random_trials"] == 5  # of four, the best is expected above the goal of 1.003 ms
