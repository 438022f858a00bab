"""Provides method: the sentences that say how probed numbers were taken, and what was left out."""

from __future__ import annotations

from collections.abc import Mapping

from costhub.collector.probe.service import Answer, Setting, Step

KERNELS = (
    "Kernels compiled by TVM for the device's target, each the best of calls of 5 ms until 30 in a row bring "
    "nothing, in two passes. Peaks: independent chains of multiply-add in registers, an operation being one "
    "multiplication or addition; matrix units are left out. *_gbs: bytes read by a sum over an array, all "
    "cores together, the best array of at most 3/4 of a level and more than twice the level before; memory: "
    "more than four times the last cache. launch_overhead_us: median of an empty program in TVM's time "
    "evaluator."
)


def method(setting: Setting, answers: Mapping[Step, Answer]) -> str:
    """How the numbers were taken, with the instructions that LLVM chose and the measured clock."""
    workers = "Threads" if setting.device_kind == "cpu" else "Multiprocessors"
    parts = [KERNELS, f"{workers}: {setting.threads}."]
    clock = answers.get(Step("clock"))
    if clock and clock.value:
        parts.append(f"Clock of one core, by a chain of dependent operations: {clock.value:.2f} GHz.")
    for step, answer in answers.items():
        if step.what == "peak" and not step.workers:
            parts.append(f"{step.dtype}: {answer.how}.")
        elif answer.value is None:
            parts.append(f"Not measured: {step.label} ({answer.how}).")
    return " ".join(parts)
