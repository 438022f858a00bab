"""Provides probe: measures the limits of a device, as the probed columns of the devices table."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from costhub.collector.device.cpu_state import PINNED, governor, tvm_threads
from costhub.collector.device.identity import identify
from costhub.collector.probe.bandwidth import LEVELS, ladder_sizes, level_gbs
from costhub.collector.probe.steps import ProbeAnswer, ProbeSetting, ProbeStep, prepare_probe, take_step
from costhub.errors import MeasureError
from costhub.isolation.child import Child, ChildDied, ChildTimeout

# On top of its share of the budget, a step compiles, allocates and finishes its last call.
STEP_TIMEOUT_S = 60.0

# Other programs disturb a machine for a second or so: a disturbance in one pass will not hit the other.
PASSES = 2
PEAK_COLUMNS = {
    "float32": "peak_gflops",
    "float64": "peak_gflops_float64",
    "float16": "peak_gflops_float16",
    "bfloat16": "peak_gflops_bfloat16",
    "int8": "peak_gops_int8",
}

KERNELS = (
    "Kernels compiled by TVM for the device's target, each the best of calls of 5 ms until 30 in a row bring "
    "nothing, in two passes. Peaks: independent chains of multiply-add in registers, an operation being one "
    "multiplication or addition; of matrix units, only AMX in bfloat16. *_gbs: bytes read by a sum over an array, all "
    "cores together, the best array of at most 3/4 of a level and more than twice the level before; memory: "
    "more than four times the last cache. launch_overhead_us: median of an empty program in TVM's time "
    "evaluator."
)

OnStep = Callable[[str, int, int], None]
"""Called with (name of the measurement, steps done, steps in total)."""


def probe(
    target: str | dict[str, Any],
    *,
    device: Mapping[str, Any] | None = None,
    device_kind: str = "cpu",
    threads: int | None = None,
    budget_s: float = 25.0,
    on_step: OnStep | None = None,
) -> dict[str, Any]:
    """Measures a device in a separate process; nothing else should be running meanwhile.

    Args:
        target: The TVM target, as JSON or a dictionary; instructions that it does not allow are not used.
        device: The device's row so far, for the sizes of its caches; this machine's by default.
        device_kind: TVM's name for the device.
        threads: Threads of a CPU that programs may use; the target's cores by default.
        budget_s: Approximate duration, including TVM's start; every figure is measured at least three times.
        on_step: Called after each measurement.

    Returns:
        Columns of the devices table: the peaks, the bandwidths, launch_overhead_us, bandwidth_ladder,
        thread_scaling, governor, probe_method and probed_at. Figures that the device does not support are None, and
        probe_method says why.

    Raises:
        MeasureError: The device cannot run the float32 kernel, or the process does not start.
    """
    end = time.monotonic() + budget_s
    target = target if isinstance(target, str) else json.dumps(target)
    row = {"kind": device_kind, **(identify(device_kind) if device is None else device)}
    threads = threads or json.loads(target).get("num-cores") or row.get("cores") or 1
    sizes = ladder_sizes(row, threads)
    setting = ProbeSetting(target, device_kind, threads, sizes[-1])
    answers = _take_all(setting, _steps(setting, sizes), end, on_step)
    return _row(setting, row, answers)


def _steps(setting: ProbeSetting, sizes: list[int]) -> list[ProbeStep]:
    is_cpu = setting.device_kind == "cpu"
    # The steps whose failure ends the probe come first.
    peaks = [ProbeStep("peak", dtype=dtype) for dtype in PEAK_COLUMNS]
    scaling = [ProbeStep("peak", dtype="float32", workers=n) for n in range(1, setting.threads + 1) if is_cpu]
    ladder = [ProbeStep("bandwidth", bytes=size) for size in sizes]
    return [*peaks, *([ProbeStep("clock")] if is_cpu else []), ProbeStep("overhead"), *scaling, *ladder]


def _take_all(
    setting: ProbeSetting, steps: list[ProbeStep], end: float, on_step: OnStep | None
) -> dict[ProbeStep, ProbeAnswer]:
    answers: dict[ProbeStep, ProbeAnswer] = {}
    queue = steps * PASSES
    environment = {**tvm_threads(setting.threads), **PINNED} if setting.device_kind == "cpu" else None
    # Not shared: TVM binds the threads of a process to cores when they first compute.
    with Child(prepare=partial(prepare_probe, setting), environment=environment, is_shared=False) as child:
        for done, step in enumerate(queue):
            if step not in answers or (answers[step].value is not None and time.monotonic() < end):
                # Time that a step does not use goes to the others.
                share_s = max(0.0, end - time.monotonic()) / (len(queue) - done)
                answers[step] = better(answers.get(step), _take(child, setting, step, share_s), step)
            if answers[steps[0]].value is None:
                raise MeasureError(
                    f"The probe's {steps[0].label} does not run on this {setting.device_kind}: "
                    f"{answers[steps[0]].how.rstrip('.')}. Check that it can do what the target names: {setting.target}"
                )
            if on_step:
                on_step(step.label, done + 1, len(queue))
    return answers


def better(before: ProbeAnswer | None, now: ProbeAnswer, step: ProbeStep) -> ProbeAnswer:
    """Returns the less disturbed of two answers to a step: the higher rate, the lower overhead."""
    if before is None or before.value is None or now.value is None:
        return now if before is None or before.value is None else before
    pick = min if step.what == "overhead" else max
    return pick(before, now, key=lambda answer: answer.value or 0.0)


def _take(child: Child, setting: ProbeSetting, step: ProbeStep, share_s: float) -> ProbeAnswer:
    try:
        return child.call(take_step, setting, step, share_s, timeout_s=STEP_TIMEOUT_S + share_s)
    except (ChildDied, ChildTimeout) as error:
        return ProbeAnswer(None, str(error))


def _row(setting: ProbeSetting, device: Mapping[str, Any], answers: Mapping[ProbeStep, ProbeAnswer]) -> dict[str, Any]:
    rungs = [a for step, a in answers.items() if step.what == "bandwidth"]
    ladder = [{"bytes": a.bytes, "gbs": a.value} for a in rungs if a.value is not None]
    scaling = [answers.get(ProbeStep("peak", "float32", n + 1)) for n in range(setting.threads)]
    speeds = [a.value for a in scaling if a is not None and a.value is not None]
    levels = level_gbs(ladder, device, setting.threads)
    return {
        **{column: answers[ProbeStep("peak", dtype)].value for dtype, column in PEAK_COLUMNS.items()},
        **levels,
        "bandwidth_ladder": ladder,
        "launch_overhead_us": answers[ProbeStep("overhead")].value,
        # It ends below the number of threads if cores share a clock limit, an FPU or a hypervisor's quota.
        "thread_scaling": [speed / speeds[0] for speed in speeds] if len(speeds) == setting.threads else None,
        "governor": governor() if setting.device_kind == "cpu" else None,
        "probe_method": describe_method(
            setting, answers, {name: levels[name] for name, size in LEVELS.items() if device.get(size)}
        ),
        "probed_at": datetime.datetime.now(datetime.timezone.utc),
    }


def describe_method(
    setting: ProbeSetting,
    answers: Mapping[ProbeStep, ProbeAnswer],
    levels: Mapping[str, float | None] | None = None,
) -> str:
    """Describes how the figures were measured, with the instructions that LLVM chose and the measured clock.

    Args:
        setting: What was probed.
        answers: The answer to each step.
        levels: What `level_gbs` returned, for the levels that the device has.
    """
    workers = "Threads" if setting.device_kind == "cpu" else "Multiprocessors"
    parts = [KERNELS, f"{workers}: {setting.threads}."]
    clock = answers.get(ProbeStep("clock"))
    if clock and clock.value:
        parts.append(f"Clock of one core, by a chain of dependent operations: {clock.value:.2f} GHz.")
    for step, answer in answers.items():
        if step.what == "peak" and not step.workers:
            parts.append(f"{step.dtype}: {answer.how.rstrip('.')}.")
        elif answer.value is None:
            parts.append(f"Not measured: {step.label} ({answer.how.rstrip('.')}).")
    for column, rate in (levels or {}).items():
        if rate is None:
            level = column.removesuffix("_gbs").upper()
            parts.append(f"Not measured: reading {level} (no array fits it but not the caches before it).")
    return " ".join(parts)
