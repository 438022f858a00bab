"""What is measured before the networks: peaks of the right instruction, and processes that load what they need only."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial

import pytest

from costhub.collector.probe.steps import ProbeAnswer
from costhub.hub.catalogue.devices import Device, find_device
from costhub.isolation.child import Child
from costhub.search.whole_network.network_forms import hold_form
from scripts.bench.common.fresh import checkout_path
from scripts.bench.engines.profiles import profile_tuned
from scripts.bench.engines.start import higher_peak, import_package, in_child_text, probed_peaks, warm_up

AMX, VECTORS = "tdpbf16ps", "vdpbf16ps zmm"


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children import the scripts of this checkout."""
    monkeypatch.setenv("PYTHONPATH", checkout_path()["PYTHONPATH"])


@pytest.fixture
def emerald_rapids() -> Device:
    found = find_device("intel-xeon-emeraldrapids-2c")
    assert found is not None
    return replace(found, peak_gflops_bfloat16=5000.0, probe_method=f"float32: vfmadd231ps zmm. bfloat16: {AMX}.")


@pytest.mark.parametrize(
    ("answer", "peak"),
    [
        (ProbeAnswer(3000.0, AMX), 5000.0),
        (ProbeAnswer(6000.0, AMX), 6000.0),
        (ProbeAnswer(600.0, VECTORS), 600.0),
        (ProbeAnswer(None, "the target has no bfloat16 instructions"), None),
    ],
    ids=["disturbed", "undisturbed", "hidden", "none"],
)
def test_the_index_has_a_say_where_the_instruction_is_the_same(
    answer: ProbeAnswer, peak: float | None, emerald_rapids: Device
) -> None:
    assert higher_peak("bfloat16", answer, emerald_rapids) == peak


def test_a_device_that_is_not_in_the_index_has_the_peak_of_its_probe() -> None:
    assert higher_peak("float32", ProbeAnswer(200.0, "vfmadd231ps ymm"), None) == 200.0


@pytest.mark.slow
def test_a_machine_has_a_peak() -> None:
    assert (probed_peaks(1)["float32"] or 0.0) > 1.0


@pytest.mark.slow
def test_packages_are_read_and_a_process_takes_time() -> None:
    assert warm_up((), 1) > 0.0


@pytest.mark.slow
def test_what_a_process_cannot_tell_is_unknown() -> None:
    assert in_child_text(partial(import_package, "json"), 1) == "json"
    assert in_child_text(partial(profile_tuned, "missing.so", (), 1, (), {}), 1) == "unknown"


@pytest.mark.parametrize("module", ["scripts.bench.engines.forms", hold_form.__module__])
def test_a_process_of_an_engine_does_not_wait_for_torch_or_tvm(module: str) -> None:
    with Child(is_shared=False) as child:
        child.call(import_package, module, timeout_s=60.0)

        assert {"torch", "tvm"} & set(child.call(loaded, timeout_s=60.0)) == set()


def loaded() -> list[str]:
    return list(sys.modules)
