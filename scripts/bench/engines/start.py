"""Provides warm_up and probed_peaks: what the benchmark of engines measures once, before its networks."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from typing import Any

from costhub.collector.device.cpu_state import tvm_threads
from costhub.collector.device.identity import identify
from costhub.collector.device.local import local_target
from costhub.collector.probe.steps import ProbeAnswer, ProbeSetting, ProbeStep, prepare_probe, take_step
from costhub.collector.workloads.network_source import FLOAT32
from costhub.errors import MeasureError, NetworkError
from costhub.hub.catalogue.devices import Device, find_device
from costhub.isolation.child import Child
from scripts.bench.engines.forms import ENGINES
from scripts.bench.engines.profiles import in_child

BFLOAT16 = "bfloat16"
_PROBE_S, _PROBE_TIMEOUT_S = 3.0, 60.0
_EMPTY_ROUNDS = 5


def warm_up(engines: Iterable[str], threads: int) -> float:
    """Has the packages of engines read from disk, so that the first network does not wait for it.

    Args:
        engines: Of `ENGINES`.
        threads: As for `in_child`.

    Returns:
        The seconds that a process takes which loads no engine: they are in all figures of processes.
    """
    for package in (*dict.fromkeys(ENGINES[name].package for name in engines), "tvm"):
        in_child_text(partial(import_package, package), threads)
    spent = []
    for _ in range(_EMPTY_ROUNDS):
        start = time.perf_counter()
        in_child_text(partial(import_package, "numpy"), threads)  # as all inputs are NumPy arrays
        spent.append(time.perf_counter() - start)
    return statistics.median(spent)


def import_package(name: str) -> str:
    """Imports a package in this process; returns its name."""
    return str(import_module(name).__name__)


def in_child_text(function: Callable[[], Any], threads: int) -> str:
    """A text that a function returns in a process of its own; ``unknown`` where it fails.

    Args:
        function: As for `in_child`.
        threads: As for `in_child`.
    """
    try:
        return str(in_child(function, threads))
    except (NetworkError, MeasureError):
        return "unknown"


def probed_peaks(threads: int) -> dict[str, float | None]:
    """Precision -> 10^9 operations per second of this CPU, as `costhub probe` measures them; None where it has none.

    Args:
        threads: Of the programs.
    """
    setting = ProbeSetting(json.dumps(local_target(threads=threads)), "cpu", threads, 0)
    known = find_device(str(identify(threads=threads)["device_id"]))
    with Child(prepare=partial(prepare_probe, setting), environment=tvm_threads(threads), is_shared=False) as child:
        peaks = {}
        for dtype in (FLOAT32, BFLOAT16):
            step = ProbeStep("peak", dtype)
            answer = child.call(take_step, setting, step, _PROBE_S, timeout_s=_PROBE_TIMEOUT_S)
            peaks[dtype] = higher_peak(dtype, answer, known)
        return peaks


def higher_peak(dtype: str, answer: ProbeAnswer, known: Device | None) -> float | None:
    """The peak that a probe found, or a higher one that the index has for the same instruction.

    A busy machine makes a probe too low. The index may also know a better instruction, such as those of matrix units,
    from a machine whose hypervisor does not hide them.

    Args:
        dtype: The precision.
        answer: Of the probe.
        known: The device in the index.
    """
    indexed = known and {FLOAT32: known.peak_gflops, BFLOAT16: known.peak_gflops_bfloat16}[dtype]
    if answer.value is None or known is None or not indexed:
        return answer.value
    return max(answer.value, indexed) if f"{dtype}: {answer.how}." in (known.probe_method or "") else answer.value
