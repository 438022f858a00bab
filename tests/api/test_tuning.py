"""What a search found, as numbers and as text."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import pytest

from costhub.api.tuning import Tuning
from costhub.errors import NetworkError
from costhub.search.result import TuneResult
from costhub.search.whole_network.finish import FinishedNetwork
from costhub.search.whole_network.network_timer import Latency

_MADE = runpy.run_path(str(Path(__file__).with_name("made_results.py")))
RESULTS: list[TuneResult] = _MADE["RESULTS"]
NETWORK: FinishedNetwork = _MADE["NETWORK"]
ORIGIN = {"device": "acme", "model": "m", "method": "how", "database": "out"}


def tuning(*networks: FinishedNetwork) -> Tuning:
    rows = [{**result.to_json(), "weight": weight} for result, weight in zip(RESULTS, (3.0, 1.0), strict=True)]
    earlier = [{**rows[0], "workload": "of an earlier search", "best_us": 99.0}]
    return Tuning(
        Path("out"),
        tuple(RESULTS),
        networks,
        {**ORIGIN, "networks": [n.to_json() for n in networks], "workloads": [*rows, *earlier]},
    )


def test_latencies_are_those_of_the_network_or_of_its_kernels() -> None:
    timed = replace(NETWORK, latencies={**NETWORK.latencies, "torch": Latency(60.0, 59.0, 61.0, 9)})
    whole, kernels = tuning(timed), tuning()

    assert (whole.before_us, whole.latency_us, whole.speedup) == (60.0, 30.0, 2.0)
    assert (kernels.before_us, kernels.latency_us, kernels.speedup) == (None, 17.0, None)
    assert (tuning(NETWORK).before_us, tuning(NETWORK).latency_us) == (None, 30.0)
    both = tuning(timed, replace(timed, network="second"))
    assert (both.before_us, both.latency_us, both.library) == (120.0, 60.0, None)
    failed = Tuning(Path("out"), (RESULTS[0],), (), {"workloads": [{"weight": 1.0, "best_us": None}]})
    assert failed.latency_us is None


def test_what_was_found_is_a_table_of_pandas_and_a_text() -> None:
    frame = tuning(NETWORK).to_pandas()

    assert frame["workload"].tolist() == [result.workload for result in RESULTS]
    assert frame["best_us"].tolist() == [5.0, 2.0]
    assert str(tuning(NETWORK)) == repr(tuning(NETWORK))
    assert str(tuning(NETWORK)).startswith("net, 2 threads. 30.0 µs per call.\n")


def test_only_a_compiled_network_can_be_loaded() -> None:
    assert tuning(NETWORK).library == Path("out/net.so")
    assert tuning(replace(NETWORK, library=None, error="Wrong.")).library is None
    with pytest.raises(NetworkError, match=r"no network was compiled.*out/report.md shows how"):
        tuning().load()
    with pytest.raises(NetworkError, match="other: the compiled networks are net"):
        tuning(NETWORK).load("other")
    both = tuning(NETWORK, replace(NETWORK, network="second"))
    with pytest.raises(NetworkError, match="Which network: the compiled networks are net, second"):
        both.load()
