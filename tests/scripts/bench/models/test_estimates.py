"""The benchmark of estimates: baselines, figures, coverage, and the tables that are made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.models.latency.pools import Pool
from costhub.models.latency.predictor import LatencyPredictor, LatencyTable
from costhub.models.latency.residuals import KNOWN
from scripts.bench.models.estimates import (
    Workloads,
    compared,
    coverage,
    figures,
    nearest,
    of_networks,
    roofline,
    short_searches,
    summary_of_networks,
    two_searches,
    two_sums,
    without_devices,
)
from scripts.tables.benchmark import (
    devices_table,
    each_network_table,
    kernels_table,
    networks_table,
    short_searches_table,
)
from tests.models.latency.made_layouts import CALLS, NETWORK, kernels, made_layouts
from tests.models.latency.made_table import DEVICES, made_table

TRAIN, TEST = made_table(), made_table(workloads=10, seed=1)


@pytest.fixture(scope="module")
def fitted() -> LatencyPredictor:
    return LatencyPredictor.fit(TRAIN, cases=(KNOWN,))


def test_half_as_much_again_is_as_far_off_as_two_thirds() -> None:
    found = figures(np.log([1.5, 1 / 1.5, 1.0]), np.zeros(3))

    assert found["median"] == pytest.approx(0.5)
    assert found["near"] == pytest.approx(1 / 3)
    assert found["bias"] == pytest.approx(0.0)


def test_intervals_of_short_searches_are_wider_and_hold_more() -> None:
    rows = list(short_searches(TRAIN, TEST, 0))

    assert {(row["family"], row["trials"]) for row in rows} == {(f, n) for f in ("cpu", "gpu") for n in (1, 4, 16)}
    assert all(row["cover_90"] > row["cover_90_of_64"] for row in rows if row["trials"] == 1)
    assert "| - |" not in short_searches_table({"short_searches": rows})


def test_the_trees_beat_the_roofline_where_operators_differ(fitted: LatencyPredictor) -> None:
    outcome = TEST.outcomes(fitted.curve, seed=0)

    trees, line = (figures(found, outcome)["median"] for found in (fitted.log_us(TEST), roofline(TRAIN, TEST, fitted)))
    assert trees < 0.5 * line


def test_the_nearest_workload_is_scaled_by_the_arithmetic(fitted: LatencyPredictor) -> None:
    # In the made law, latency is proportional to the arithmetic, so only the noise of searches is left.
    outcome = TEST.outcomes(fitted.curve, seed=0)

    assert figures(nearest(TRAIN, TEST, fitted), outcome)["median"] < 0.2
    elsewhere = TEST.select([pool.device_id == "cpu-8" for pool in TEST.pools])
    others = TRAIN.select([pool.device_id != "cpu-8" for pool in TRAIN.pools])
    assert figures(nearest(others, elsewhere, fitted), elsewhere.outcomes(fitted.curve, seed=0))["median"] < 0.2


def test_without_device_columns_only_these_are_unknown() -> None:
    bare = without_devices(TRAIN)

    assert 0 < np.isnan(bare.inputs).sum() - np.isnan(TRAIN.inputs).sum() <= 12 * len(TRAIN)
    assert (bare.roofline_us == TRAIN.roofline_us).all()


def test_coverage_rises_with_the_share(fitted: LatencyPredictor) -> None:
    outcome = TEST.outcomes(fitted.curve, seed=0)
    found = coverage(fitted.residuals, KNOWN, fitted.log_us(TEST), TEST, outcome)

    assert found["cover_50"] <= found["cover_80"] <= found["cover_90"]
    assert 1 < found["width_50"] < found["width_90"]


def test_tables_show_every_family() -> None:
    rows = [{"test": "workloads", **row} for row in compared(TRAIN, TEST, KNOWN, 0)]
    shown = kernels_table({"rows": rows, "two_searches": two_searches(TEST, 0)})

    assert shown.count("predictor") == shown.count("another search") == 2
    assert "GPUs, 30 kernels" in shown
    lines = devices_table({"rows": rows}).splitlines()[2:]
    assert [line.split("|")[1].strip(" `") for line in lines] == sorted({pool.device_id for pool in TEST.pools})
    assert all(line.split("|")[3].strip() == "-" for line in lines)  # no device was left out


def sum_of(network: str, device: str, predicted: float) -> dict[str, Any]:
    held = {f"holds_{share}": share > 60 for share in (50, 80, 90)}
    family = "gpu" if device.startswith("nvidia") else "cpu"
    names = {"network": network, "device": device, "family": family}
    return {**names, "kernels": 7, "measured_us": 100.0, "predicted_us": predicted, **held}


def test_sums_of_networks_are_counted_by_family() -> None:
    rows = [sum_of("a", "cpu-2c", 110.0), sum_of("b", "cpu-2c", 130.0), sum_of("a", "nvidia-x", 100.0)]
    result = {"networks": rows, "network_summary": summary_of_networks(rows)}

    cpu, gpu = result["network_summary"]
    assert (cpu["n"], cpu["networks"], cpu["near"], cpu["cover_50"], cpu["cover_90"]) == (2, 2, 0.5, 0.0, 1.0)
    assert gpu["family"] == "gpu"
    assert "CPUs, 2 networks, 2 sums" in networks_table(result)
    assert "| a | 7 | +10% | +0% |" in each_network_table(result)


def test_a_networks_kernels_are_those_in_torchs_layouts(tmp_path: Path) -> None:
    found = Workloads.read(sorted(made_layouts(tmp_path).iterdir()))

    # The dataset with blocked programs names a second kernel of the network, and other calls of the first.
    assert found.networks == {NETWORK: {kernels()[0]: CALLS}}
    assert found.alike.keys() == set(kernels())
    assert found.tests == {kernels()[1]}


def test_a_network_is_the_sum_over_its_calls_of_the_best_programs() -> None:
    calls = {f"w{n}": 1.0 + n for n in range(5)}
    # One with four measured kernels is not summed.
    networks = {"net0": calls, "small": {f"w{n}": 1.0 for n in range(5, 9)} | {"unmeasured": 1.0}}
    known = Workloads(networks, {name: frozenset({name}) for name in calls}, frozenset())

    rows = list(of_networks(TRAIN, known, 0))

    found = [(row["network"], row["device"], row["kernels"]) for row in rows]
    assert found == [("net0", device, 5) for device in sorted(DEVICES)]
    for row in rows:
        best = {pool.workload_id: pool.best_s for pool in TRAIN.pools if pool.device_id == row["device"]}
        assert row["measured_us"] == pytest.approx(1e6 * sum(calls[name] * best[name] for name in calls))


def table_of(*pools: Pool) -> LatencyTable:
    """A table that nothing is learned from."""
    names = tuple(pool.workload_id for pool in pools)
    return LatencyTable(pools, np.zeros((len(pools), 1)), np.ones(len(pools)), names, names, names)


def test_a_second_search_of_a_network_is_as_far_off_as_the_sums_of_its_kernels() -> None:
    # Searches differ in one kernel, which is called twice and takes 1 in one of them, 1.5 in the other: the sums are
    # 4 x 2 + 2 x 1 and 4 x 2 + 2 x 1.5.
    steady = [Pool(f"k{n}", "cpu-2c", "cpu", np.array([2.0, 2.0])) for n in range(4)]
    table = table_of(*steady, Pool("k4", "cpu-2c", "cpu", np.array([1.0, 1.5])), Pool("k4", "few", "cpu", np.ones(9)))
    known = Workloads({"a": {**{f"k{n}": 1.0 for n in range(4)}, "k4": 2.0}}, {}, frozenset())

    (found,) = two_sums(table, known, 0)

    assert (found["family"], found["networks"], found["n"], found["near"]) == ("cpu", 1, 1, 1.0)
    assert found["median"] == pytest.approx(11 / 10 - 1)
    assert two_searches(table, 0)[0]["p90"] == pytest.approx(0.25)  # of six kernels, with one off by a half


def test_the_table_of_sums_shows_another_search_where_the_results_have_it() -> None:
    rows = [sum_of("a", "cpu-2c", 110.0), sum_of("a", "nvidia-x", 100.0)]
    result = {"network_summary": summary_of_networks(rows)}
    again = {"family": "cpu", "networks": 1, **figures(np.log([1.3]), np.zeros(1))}

    old, new = networks_table(result).splitlines(), networks_table({**result, "two_sums": [again]}).splitlines()

    (line,) = set(new) - set(old)
    assert [cell.strip() for cell in line.split("|")[1:5]] == [
        "CPUs, 1 networks, 1 sums: another search",
        "30%",
        "30%",
        "0%",
    ]
    assert new.index(line) == 3  # below that of the predictor on CPUs
