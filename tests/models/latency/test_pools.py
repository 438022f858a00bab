"""Pools of measured programs, and how the best of them falls with the trials."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

from costhub.dataset.folder import DataFolder
from costhub.errors import DataError
from costhub.models.latency.pools import TRIALS, Pool, TrialCurve, family, read_pools
from scripts.bench.common.data import DEVICE, small_folder


def pool(*us: float, kind: str = "cpu") -> Pool:
    return Pool("w", "board", kind, np.sort(np.array(us)) * 1e-6)


def test_the_expected_best_is_the_mean_over_all_draws() -> None:
    own = pool(1.0, 2.0, 5.0, 9.0, 20.0)
    for trials in range(1, 6):
        draws = [math.log(min(drawn)) for drawn in itertools.combinations(own.latency_s.tolist(), trials)]

        assert own.expected_log_best(trials) == pytest.approx(np.mean(draws))


def test_luck_is_the_variance_over_all_draws() -> None:
    pool = Pool("w", "d", "cpu", np.array([1.0, 2.0, 8.0]))
    draws = np.log([min(pair) for pair in itertools.product(pool.latency_s, repeat=2)])

    assert pool.log_best_variance(2) == pytest.approx(np.var(draws))
    assert pool.log_best_variance(1) > pool.log_best_variance(2) > pool.log_best_variance(1000)


def test_short_searches_are_more_a_matter_of_luck() -> None:
    rng = np.random.default_rng(0)
    pools = [Pool(f"w{n}", "d", "cpu", np.sort(np.exp(rng.normal(0, 1, 200)))) for n in range(20)]
    curve = TrialCurve.fit(pools)

    assert curve.extra_variance("cpu", 1) == pytest.approx(1.0, abs=0.25)
    assert curve.extra_variance("cpu", 1) > curve.extra_variance("cpu", 6) > curve.extra_variance("cpu", 64) == 0.0
    assert TrialCurve.fit(pools[:3]).extra_variance("cpu", 1) == 0.0  # too few to tell


def test_a_pool_has_no_more_than_its_programs() -> None:
    own = pool(1.0, 2.0)

    assert own.expected_log_best(1000) == own.drawn_log_best(1000, seed=3) == math.log(own.best_s)


def test_one_draw_depends_on_the_seed_alone() -> None:
    own = pool(*range(1, 200))
    drawn = [own.drawn_log_best(4, seed=seed) for seed in range(20)]

    assert drawn == [own.drawn_log_best(4, seed=seed) for seed in range(20)]
    assert len(set(drawn)) > 1


def test_pools_of_one_size_are_not_drawn_alike() -> None:
    # The best program of a sorted pool must not land in the same half of all pools.
    pairs = [Pool(f"w{n}", "board", "cpu", np.arange(1.0, 17.0)).two_log_bests(64, seed=0) for n in range(200)]
    first, second = np.array(pairs).T

    assert 0.35 < np.mean(first < second) < 0.65
    assert (np.minimum(first, second) == 0.0).all()
    assert pool(1.0).two_log_bests(64, seed=0) is None


def test_the_curve_falls_and_is_level_where_nothing_is_known() -> None:
    rng = np.random.default_rng(0)
    curve = TrialCurve.fit([pool(*np.exp(rng.normal(size=100))) for _ in range(10)])

    values = [curve("cpu", trials) for trials in (1, 2, 3, 16, 32, TRIALS, 10_000)]
    assert values == sorted(values, reverse=True)
    assert values[-2:] == [0.0, 0.0]  # a pool of 100 says nothing of 128
    assert curve("gpu", 1) == 0.0


def test_programs_that_failed_are_in_no_pool(tmp_path: Path) -> None:
    folder = DataFolder.open(small_folder(tmp_path / "data"))
    rows = folder.measurements(DEVICE).to_pylist()

    pools = read_pools(folder, DEVICE, "cpu")

    assert {each.workload_id for each in pools} == {row["workload_id"] for row in rows}
    assert sum(len(each.latency_s) for each in pools) == sum(row["status"] == "ok" for row in rows)
    assert all((np.diff(each.latency_s) >= 0).all() for each in pools)
    only = read_pools(folder, DEVICE, "cpu", workloads=[pools[0].workload_id])
    assert [each.workload_id for each in only] == [pools[0].workload_id]


def test_a_condition_leaves_programs_out_of_pools(tmp_path: Path) -> None:
    folder = DataFolder.open(small_folder(tmp_path / "data"))
    whole = read_pools(folder, DEVICE, "cpu")
    kept = folder.measurements(DEVICE, ["record_id"], "ok")["record_id"].to_pylist()[::2]

    part = read_pools(folder, DEVICE, "cpu", condition=pc.field("record_id").isin(kept))

    assert sum(len(each.latency_s) for each in part) == len(kept) < sum(len(each.latency_s) for each in whole)


def test_latencies_of_a_slow_session_are_brought_to_the_speed_of_the_fastest(tmp_path: Path) -> None:
    folder = DataFolder.open(small_folder(tmp_path / "data"))
    sessions = set(folder.measurements(DEVICE, ["session"])["session"].to_pylist())

    as_measured = read_pools(folder, DEVICE, "cpu")
    scaled = read_pools(folder, DEVICE, "cpu", slowness=dict.fromkeys(sessions, 2.0))

    for one, other in zip(as_measured, scaled, strict=True):
        np.testing.assert_allclose(other.latency_s, one.latency_s / 2)


def test_kinds_belong_to_two_families() -> None:
    assert [family(kind) for kind in ("cpu", "cuda", "rocm", "metal")] == ["cpu", "gpu", "gpu", "gpu"]


def test_a_writer_that_moves_shards_meanwhile_is_waited_for(measured: Any, tmp_path: Path, monkeypatch: Any) -> None:
    folder = DataFolder.open(measured(tmp_path / "data", 0, 20))
    (device_id,) = folder.device_ids()[:1]
    expected, iterate, calls = read_pools(folder, device_id, "cpu"), DataFolder.iter_measurements, []

    def moved_once(self: DataFolder, *arguments: Any, **options: Any) -> Any:
        calls.append(1)
        batches = iterate(self, *arguments, **options)
        if len(calls) == 1:
            yield next(batches)
            raise DataError("The shards changed while they were read; read them again.")
        yield from batches

    monkeypatch.setattr(DataFolder, "iter_measurements", moved_once)
    again = read_pools(folder, device_id, "cpu")

    assert len(calls) == 1  # then whole shards are read, for which it waits
    assert [(pool.workload_id, pool.latency_s.tolist()) for pool in again] == [
        (pool.workload_id, pool.latency_s.tolist()) for pool in expected
    ]
