"""Which CPUs compute, and who sets their clock."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from costhub.collector.device.cpu_state import (
    core_count,
    cpu_list,
    cpu_quota,
    governor,
    physical_cpus,
    pick_cpus,
    tvm_threads,
)
from costhub.isolation.limits import usable_cpus


def siblings(root: Path, pairs: dict[int, str]) -> Path:
    for cpu, said in pairs.items():
        folder = root / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(said + "\n")
    return root


def test_cpus_are_listed_as_linux_lists_them() -> None:
    assert cpu_list([3, 1, 0, 2, 7]) == "0-3,7"
    assert cpu_list([5]) == "5"
    assert cpu_list([]) == ""


def test_cores_that_this_process_may_not_use_do_not_count() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert core_count() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert 1 <= core_count() <= len(before)


def test_one_cpu_of_each_core_counts(tmp_path: Path) -> None:
    cpus = usable_cpus()
    root = siblings(tmp_path, dict.fromkeys(cpus, "all of one core"))
    assert physical_cpus(root) == cpus[:1]
    assert physical_cpus(tmp_path / "nothing known") == cpus


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"cpu.max": "400000 100000\n"}, 4.0),
        ({"cpu.max": "50000 100000\n"}, 0.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "250000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2.5),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_the_time_that_a_container_may_use_limits_the_cores(
    files: dict[str, str], quota: float | None, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    assert cpu_quota(tmp_path) == quota
    assert core_count(tmp_path) == max(1, min(core_count(tmp_path / "no limit"), int(quota or 10**6)))


def test_threads_get_the_last_cores_first(tmp_path: Path) -> None:
    cpus = usable_cpus()
    assert pick_cpus(1, tmp_path) == (cpus[-1],)
    assert pick_cpus(len(cpus), tmp_path) == tuple(cpus)
    # The second hardware thread of a core is taken only when there is no core left.
    root = siblings(tmp_path, dict.fromkeys(cpus, "all of one core"))
    assert pick_cpus(1, root) == (cpus[0],)


def test_the_governor_is_read_where_there_is_one(tmp_path: Path) -> None:
    assert governor(tmp_path) is None
    for cpu, said in enumerate(("schedutil", "performance", "performance")):
        folder = tmp_path / f"cpu{cpu}" / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text(said + "\n")
    assert governor(tmp_path) == "performance+schedutil"


def test_tvm_is_told_its_threads_one_per_core_unless_said_otherwise() -> None:
    assert tvm_threads(3) == {"TVM_NUM_THREADS": "3"}
    assert tvm_threads() == {"TVM_NUM_THREADS": str(core_count())}
