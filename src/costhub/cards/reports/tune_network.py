"""Renders the result of a whole network compared with PyTorch and others, and how to use its library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from costhub.cards.reports.blocks import Bar, Bars, Block, Code, Details, Heading, Paragraph
from costhub.cards.reports.tune_facts import (
    TUNED,
    UNTUNED,
    duration_text,
    forms,
    headline,
    on_gpu,
    outputs_text,
    ratio_text,
    span_text,
    where_text,
)

_TORCH_TYPES = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")


def network_blocks(network: Mapping[str, Any], summary: Mapping[str, Any], *, effort: str) -> Iterator[Block]:
    """The result of a network: a sentence, bars of its forms, and notes on them.

    Args:
        network: `FinishedNetwork.to_json`.
        summary: The report.
        effort: The effort of the search, in a sentence; empty if stated elsewhere.
    """
    yield Paragraph(headline(network, summary), is_strong=True)
    said = effort if network["error"] else f"{outputs_text(network)} {effort}".rstrip()
    if said:
        yield Paragraph(said)
    bars = _bars(network)
    if bars:
        caption = f"Median time from call to output {where_text(network)}"
        titles = ("form", "latency", "middle half of the calls", "beside costhub")
        yield Bars(bars, titles, caption, "the line spans the middle half of the calls")
    untuned = network["latencies"].get(UNTUNED)
    if untuned:
        yield Paragraph(_untuned_text(untuned["median_us"], network), is_note=True)
    for note in network["notes"]:
        yield Paragraph(note, is_note=True)


def _bars(network: Mapping[str, Any]) -> list[Bar]:
    """A bar for each form, except the untuned one: next to it, all others would be too short to compare."""
    tuned = network["latencies"].get(TUNED)
    tuned_us = tuned["median_us"] if tuned else None
    bars = []
    for form, name, latency in forms(network):
        if form == UNTUNED and len(network["latencies"]) > 2:
            continue
        us = latency["median_us"]
        bars.append(
            Bar(
                name,
                us,
                duration_text(us),
                "" if form == TUNED else ratio_text(us, tuned_us),
                latency.get("low_us"),
                latency.get("high_us"),
                span_text(latency),
                is_ours=form == TUNED,
            )
        )
    return bars


def _untuned_text(us: float, network: Mapping[str, Any]) -> str:
    tuned = network["latencies"].get(TUNED)
    ratio = f", {ratio_text(us, tuned['median_us'])}" if tuned else ""
    if on_gpu(network):
        return f"TVM without tuning takes {duration_text(us)}{ratio}, with its default schedules for GPUs (dlight)."
    return (
        f"TVM without tuning takes {duration_text(us)}{ratio}: its default pipeline for CPUs fuses operators, but "
        "leaves their loops unscheduled, on one thread."
    )


def usage_blocks(network: Mapping[str, Any]) -> Iterator[Block]:
    """How to call the library of a network."""
    if not network["library"]:
        return
    yield Heading(f"Use {network['network']}")
    alone = Code(tvm_usage(network))
    if _takes_torch(network):
        yield Paragraph("From Python, with tensors of torch in and out, without copies:")
        yield Code(network_usage(network))
        yield Details("With TVM alone, without costhub", [alone])
    else:
        yield alone
    if network["kernels"]:
        others = "are the loops that TVM generates, and large ones run in parallel"
        if on_gpu(network):
            others = "have TVM's default schedules for GPUs (dlight)"
        yield Paragraph(
            f"{network['kernels_tuned']} of its {network['kernels']} distinct kernels have a schedule from the search; "
            f"the others {others}.",
            is_note=True,
        )


def _takes_torch(network: Mapping[str, Any]) -> bool:
    return all(dtype in _TORCH_TYPES for dtype, _ in network["inputs"])


def network_usage(network: Mapping[str, Any]) -> str:
    """Python code that loads the library of a network with costhub and calls it."""
    inputs = ", ".join(f"torch.zeros({tuple(shape)!r}, dtype=torch.{dtype})" for dtype, shape in network["inputs"])
    threads = "" if on_gpu(network) else f", threads={network['threads']}"
    return (
        "import costhub, torch\n\n"
        f"network = costhub.load_network({network['library']!r}{threads})\n"
        f"outputs = network({inputs})"
    )


def tvm_usage(network: Mapping[str, Any]) -> str:
    """Python code that loads the library of a network with only TVM and calls it."""
    before, device, place = "", "tvm.cuda()", ", tvm.cuda()"
    if not on_gpu(network):
        device, place = "tvm.cpu()", ""
        before = (
            "import os\n\n"
            f'os.environ["TVM_NUM_THREADS"] = "{network["threads"]}"  # by default, TVM uses half of the CPUs\n'
            'os.environ["TVM_BIND_THREADS"] = "0"  # by default, TVM takes the CPUs from 0 up, in every process\n'
        )
    inputs = ", ".join(
        f"tvm.runtime.tensor(np.zeros({tuple(shape)!r}, {dtype!r}){place})" for dtype, shape in network["inputs"]
    )
    return (
        f"{before}import numpy as np, tvm\nfrom tvm import relax\n\n"
        f"library = tvm.runtime.load_module({network['library']!r})\n"
        f'network = relax.VirtualMachine(library, {device})["main"]\n'
        f"outputs = network({inputs})  # a sequence, even of one output"
    )
