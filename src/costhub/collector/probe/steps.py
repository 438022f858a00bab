"""Provides ProbeStep and take_step: one measurement of the device for the probe, taken in a child process."""

from __future__ import annotations

from dataclasses import dataclass

from costhub.collector.device.cpu_state import pick_cpus
from costhub.collector.probe.kernels import CUDA_BLOCKS_PER_CORE, ProbeDevice
from costhub.collector.run.runner import wake
from costhub.terminal_text import counted


@dataclass(frozen=True)
class ProbeSetting:
    """The child's settings, the same for all its steps."""

    target: str
    """The TVM target, as JSON."""
    device_kind: str
    """TVM's name for the device."""
    threads: int
    """Threads of the CPU that programs may use."""
    largest: int
    """Bytes of the largest array of the ladder."""


@dataclass(frozen=True)
class ProbeStep:
    """One measurement."""

    what: str
    """``clock``, ``peak``, ``overhead`` or ``bandwidth``."""
    dtype: str = ""
    """The dtype of a peak."""
    workers: int = 0
    """The number of workers of a peak; 0 for all."""
    bytes: int = 0
    """The array size of a bandwidth."""

    @property
    def label(self) -> str:
        """The label shown to people while it runs."""
        if self.what == "bandwidth":
            return f"reading {self.bytes >> 10} KiB"
        threads = f", {counted(self.workers, 'thread')}" if self.workers else ""
        return f"{self.what} {self.dtype}".strip() + threads


@dataclass(frozen=True)
class ProbeAnswer:
    """The result of a step."""

    value: float | None
    how: str = ""
    """The instruction that did the work, or why there is no value."""
    bytes: int = 0
    """The actual array size of a bandwidth."""


def prepare_probe(setting: ProbeSetting) -> None:
    """Loads TVM with as many threads as the setting allows."""
    if setting.device_kind == "cpu":
        wake("cpu", pick_cpus(setting.threads))  # on the CPUs on which programs are timed
    _probe_device(setting)


def take_step(setting: ProbeSetting, step: ProbeStep, budget_s: float) -> ProbeAnswer:
    """Takes a step within `budget_s` seconds."""
    try:
        return _take(setting, step, budget_s)
    except Exception as error:
        return ProbeAnswer(None, str(error).strip()[-300:] or type(error).__name__)


def _probe_device(setting: ProbeSetting) -> ProbeDevice:
    workers = setting.threads
    if setting.device_kind != "cpu":
        import tvm

        workers = tvm.device(setting.device_kind, 0).multi_processor_count * CUDA_BLOCKS_PER_CORE
    return ProbeDevice(setting.target, setting.device_kind, workers)


def _take(setting: ProbeSetting, step: ProbeStep, budget_s: float) -> ProbeAnswer:
    from costhub.collector.probe.bandwidth import read_gbs
    from costhub.collector.probe.kernels import clock_ghz, launch_overhead_us
    from costhub.collector.probe.peak import peak_gops

    device = _probe_device(setting)
    if step.what == "clock":
        return ProbeAnswer(clock_ghz(device, budget_s=budget_s))
    if step.what == "overhead":
        return ProbeAnswer(launch_overhead_us(device, budget_s=budget_s))
    if step.what == "peak":
        workers = step.workers or device.workers
        return ProbeAnswer(*peak_gops(device, step.dtype, workers=workers, budget_s=budget_s))
    size, gbs = read_gbs(device, step.bytes, largest=setting.largest, budget_s=budget_s)
    return ProbeAnswer(gbs, bytes=size)
