"""A collection on a real Dask cluster: all rows in one folder, whatever dies meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster, Worker

from costhub.api.cluster import collect as cluster
from costhub.api.cluster.collect import MEASURER, collect_on_cluster
from costhub.api.cluster.part import WorkerFacts, measuring_versions
from costhub.api.collect import CollectOptions
from costhub.collector.device.identity import identify
from costhub.dataset.folder import DataFolder
from costhub.errors import ArgumentError, DataError, DeviceError, MeasureError

WORKLOADS = ["matmul.128x128x128", "softmax.512x512", "resnet18.c12"]


LOCAL: dict[str, Any] = {"processes": False, "protocol": "tcp", "dashboard_address": ":0", "silence_logs": 50}


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """A cluster in this process, with one worker that measures."""
    with LocalCluster(n_workers=0, **LOCAL) as local:
        worker = local.sync(_started, local.scheduler_address)
        yield local.scheduler_address
        local.sync(worker.close)


async def _started(address: str) -> Worker:
    return await Worker(address, nthreads=1, resources={MEASURER: 1}, dashboard=False)


def test_a_second_call_measures_what_is_missing(scheduler: str, tmp_path: Path) -> None:
    options = CollectOptions(contributor="Ada")
    first = collect_on_cluster(WORKLOADS, tmp_path, scheduler, trials=2, options=options, progress=False)
    again = collect_on_cluster(WORKLOADS, tmp_path, scheduler, trials=2, progress=False)
    more = collect_on_cluster(WORKLOADS, tmp_path, scheduler, trials=3, progress=False)

    assert (first.progress.done, again.progress.done, more.progress.done) == (6, 0, 3)
    assert first.device_ids == (identify()["device_id"],)
    assert "6 good measurements" in str(first)
    assert first.progress.profile.as_dict()["floor_s"] == 0.0
    assert "Nothing was left to measure" in str(again)
    rows = DataFolder.open(tmp_path).measurements(columns=["workload_id", "program_id", "contributor"])
    assert set(Counter(rows["workload_id"].to_pylist()).values()) == {3}
    assert len(set(rows["program_id"].to_pylist())) == 9
    assert Counter(rows["contributor"].to_pylist()) == {"Ada": 6, "anonymous": 3}
    names = DataFolder.open(tmp_path).workloads(["name"])["name"].to_pylist()
    assert sorted(names) == sorted(WORKLOADS)


def test_a_folder_that_somebody_writes_is_refused_before_anything_is_measured(scheduler: str, tmp_path: Path) -> None:
    folder = DataFolder.create(tmp_path)
    with (
        folder.writer(str(identify()["device_id"])),
        pytest.raises(DataError, match="is being written"),
    ):
        collect_on_cluster(WORKLOADS, tmp_path, scheduler, trials=2, progress=False)


def test_a_part_that_is_lost_is_a_problem_of_its_workloads(
    scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "measure_part", lambda part: 1 / 0)

    with pytest.raises(MeasureError, match=r"Nothing could be measured\. Given up: .*: ZeroDivisionError"):
        collect_on_cluster(WORKLOADS, tmp_path, scheduler, trials=2, progress=False)


def test_a_scheduler_that_is_lost_is_an_error() -> None:
    future: Future = Future()
    future.cancel()

    with pytest.raises(MeasureError, match="The connection to the Dask scheduler was lost"):
        cluster._result(future, ["matmul"])  # type: ignore[arg-type]


def test_without_a_worker_that_measures_the_message_says_how_to_start_one(tmp_path: Path) -> None:
    with (
        LocalCluster(n_workers=1, **LOCAL) as local,
        pytest.raises(MeasureError, match=r"None of the 1 workers of the cluster measures.*--resources measurer=1"),
    ):
        collect_on_cluster(WORKLOADS, tmp_path, local.scheduler_address, progress=False)


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (("a", measuring_versions(), "b", measuring_versions()), "machines of one kind; these are 1 of a and 1 of b"),
        (("a", {"costhub": "0.0", "tvm": "0"}, "a", measuring_versions()), "A worker has costhub 0.0 and tvm 0, and"),
    ],
)
def test_workers_of_two_kinds_are_refused(facts: tuple[Any, ...], told: str) -> None:
    class TwoWorkers:
        def scheduler_info(self, n_workers: int) -> dict[str, Any]:
            return {"workers": {name: {"resources": {MEASURER: 1}} for name in ("x", "y")}}

        def submit(self, *_: Any, **__: Any) -> None: ...

        def gather(self, _: Any) -> list[WorkerFacts]:
            return [WorkerFacts(facts[0], {}, facts[1]), WorkerFacts(facts[2], {}, facts[3])]

    with pytest.raises(DeviceError, match=told):
        cluster._agreed(TwoWorkers(), "auto")  # type: ignore[arg-type]


def test_workers_with_two_targets_are_refused() -> None:
    class TwoWorkers:
        def __init__(self, *targets: dict[str, Any]) -> None:
            self.targets = targets

        def scheduler_info(self, n_workers: int) -> dict[str, Any]:
            return {"workers": {name: {"resources": {MEASURER: 1}} for name in ("x", "y")}}

        def submit(self, *_: Any, **__: Any) -> None: ...

        def gather(self, _: Any) -> list[WorkerFacts]:
            return [WorkerFacts("a", target, measuring_versions()) for target in self.targets]

    one, other = {"kind": "llvm", "mattr": ["+avx2"]}, {"kind": "llvm", "mattr": ["+avx512f"]}

    with pytest.raises(DeviceError, match="The workers, all a, have different TVM targets"):
        cluster._agreed(TwoWorkers(one, other), "auto")  # type: ignore[arg-type]
    same = dict(reversed(one.items()))
    assert cluster._agreed(TwoWorkers(one, same), "auto").target == one  # type: ignore[arg-type]


def test_the_caches_of_a_gpu_are_not_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = WorkerFacts("nvidia-x", {"kind": "cuda"}, measuring_versions())
    monkeypatch.setattr(cluster, "_connected", lambda _: nullcontext())
    monkeypatch.setattr(cluster, "_agreed", lambda *_: facts)

    with pytest.raises(ArgumentError, match="not a GPU's: leave --flush-caches out"):
        collect_on_cluster(WORKLOADS, tmp_path / "d", "tcp://a:1", options=CollectOptions(flush_caches=True))
    assert not (tmp_path / "d").exists()


def test_what_cannot_be_done_is_refused_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_S", 0.2)
    with pytest.raises(ArgumentError, match="no rule to stop"):
        collect_on_cluster(WORKLOADS, tmp_path, "tcp://127.0.0.1:1", options=CollectOptions(stop="gain"))
    in_bfloat16 = CollectOptions(precision="bf16", space="blocked")
    with pytest.raises(ArgumentError, match="no network is named"):
        collect_on_cluster(WORKLOADS, tmp_path, "tcp://127.0.0.1:1", options=in_bfloat16)
    with pytest.raises(ArgumentError, match="give --space blocked"):
        collect_on_cluster("lstm", tmp_path, "tcp://127.0.0.1:1", options=CollectOptions(precision="bf16"))
    for address in ("here", "tcp://here", "tls://here:x", ""):
        with pytest.raises(ArgumentError, match=f"'{address}' is not the address of a Dask scheduler; write HOST:PORT"):
            collect_on_cluster(WORKLOADS, tmp_path, address)
    with pytest.raises(MeasureError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:1"):
        collect_on_cluster(WORKLOADS, tmp_path, "tcp://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ArgumentError, match=r"pip install 'costhub\[dask\]'"):
        collect_on_cluster(WORKLOADS, tmp_path, "tcp://127.0.0.1:1")


@pytest.mark.slow
def test_a_worker_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    """Two worker processes; one is killed while it measures, and its part goes to the other one."""
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    file = tmp_path / "scheduler.json"
    started = [subprocess.Popen([*dask, "--no-dashboard", "--scheduler-file", str(file)])]
    try:
        while not file.exists():
            time.sleep(0.1)
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(file), "--nworkers", "1"]
        worker += ["--nthreads", "1", "--resources", f"{MEASURER}=1", "--no-nanny", "--no-dashboard"]
        started += [subprocess.Popen(worker, start_new_session=True) for _ in range(2)]
        with Client(scheduler_file=str(file), set_as_default=False) as client:
            client.wait_for_workers(2)
            address = client.scheduler.address
        collecting = subprocess.Popen(
            [sys.executable, "-c", "from costhub.cli.main import main; main()", "collect", "--dask", address,
             "--suite", "resnet18", "--trials-per-workload", "8", "--out", str(tmp_path / "rows")]
        )  # fmt: skip
        time.sleep(25)
        os.killpg(started[2].pid, signal.SIGKILL)
        assert collecting.wait(timeout=600) == 0
    finally:
        for process in started:
            process.kill()
            process.wait()

    rows = DataFolder.open(tmp_path / "rows").measurements(columns=["workload_id", "program_id"])
    assert set(Counter(rows["workload_id"].to_pylist()).values()) == {8}
    assert len(set(rows["program_id"].to_pylist())) == 12 * 8
