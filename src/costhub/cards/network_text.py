"""Provides headline, usage and latency_rows: what reports say of a whole network after its search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costhub.cards.tables import Column, number

LATENCIES = (
    Column("form", "form"),
    number("median_us", "latency (µs)", ",.1f"),
    number("low_us", "a quarter below", ",.1f"),
    number("high_us", "a quarter above", ",.1f"),
    number("calls", "calls", "d"),
    number("ratio", "tuned is faster by", ".2f"),
)
UNTUNED_NOTE = (
    "Untuned is what TVM's default pipeline for CPUs makes of the same network: its operators are fused, its "
    "loops are not scheduled and run on one thread."
)
_FORMS = {
    "untuned": "TVM, untuned",
    "tuned": "TVM, tuned",
    "torch": "torch, eager",
    "torch.compile": "torch.compile",
}


def headline(network: Mapping[str, Any]) -> str:
    """One or two sentences: before, after, torch, and whether the outputs are right.

    Args:
        network: `FinishedNetwork.to_json`.

    Example:
        >>> times = {"untuned": {"median_us": 9000.0}, "tuned": {"median_us": 3000.0}}
        >>> headline({"network": "net", "error": None, "latencies": times, "reference": "untuned",
        ...           "tolerance": 2e-4})
        "net: 9.00 ms before, 3.00 ms after, 3.0 times as fast. Its outputs equal the untuned network's ..."
    """
    if network["error"]:
        return str(network["error"])
    us = {form: latency["median_us"] for form, latency in network["latencies"].items()}
    if "tuned" not in us:
        return f"{network['network']}: compiled and checked, but it could not be timed."
    text = f"{network['network']}: {duration(us['tuned'])} after"
    if "untuned" in us:
        gain = f"{us['untuned'] / us['tuned']:.1f} times as fast"
        text = (
            f"{network['network']}: {duration(us['untuned'])} before, {duration(us['tuned'])} after, {gain}"
        )
    for form in ("torch", "torch.compile"):
        if form in us:
            text += f"; {form} takes {duration(us[form])}"
    whose = "torch's" if network["reference"] == "torch" else "the untuned network's"
    return f"{text}. Its outputs equal {whose} (tolerance {network['tolerance']:g} of their size)."


def duration(us: float) -> str:
    """A time with three digits, in a unit that suits it.

    Example:
        >>> duration(12.34), duration(12340.0), duration(1.5e6)
        ('12.3 µs', '12.3 ms', '1.50 s')
    """
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if us >= size:
            return f"{_three(us / size)} {unit}"
    return f"{_three(us)} µs"


def _three(value: float) -> str:
    return f"{value:.{max(0, 2 - (value >= 10) - (value >= 100))}f}"


def latency_rows(network: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for `LATENCIES` of each form that was timed."""
    found = network["latencies"]
    tuned = found["tuned"]["median_us"] if "tuned" in found else None
    return [
        {**latency, "form": _FORMS.get(form, form), "ratio": latency["median_us"] / tuned if tuned else None}
        for form, latency in found.items()
    ]


def usage(network: Mapping[str, Any]) -> str:
    """Python that loads the library and calls it; empty where there is none."""
    if not network["library"]:
        return ""
    inputs = ", ".join(
        f"tvm.runtime.tensor(np.zeros({tuple(shape)!r}, {dtype!r}))" for dtype, shape in network["inputs"]
    )
    return (
        "import numpy as np, tvm\nfrom tvm import relax\n\n"
        f"library = tvm.runtime.load_module({network['library']!r})\n"
        'network = relax.VirtualMachine(library, tvm.cpu())["main"]\n'
        f"outputs = network({inputs})"
    )


def coverage(network: Mapping[str, Any]) -> str:
    """Which of its kernels have a schedule of the search, and on how many threads all were timed."""
    return (
        f"{network['kernels_tuned']} of its {network['kernels']} distinct kernels have a schedule from the "
        "search; the others are the plain loops that TVM generates, and large ones run in parallel. All "
        f"forms had {network['threads']} threads (set TVM_NUM_THREADS={network['threads']}; without it, TVM "
        "uses half of the CPUs)."
    )
