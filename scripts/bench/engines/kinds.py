"""Provides kind_of, title_of and summarise: what the kernels of a profile do, and how long each takes."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from scripts.bench.engines.shapes import (
    PAIRS,
    Convolution,
    Shape,
    Shapes,
    read_attention,
    read_convolution,
    read_product,
)

CONV_3X3, CONV_1X1, CONV_OTHER, DEPTHWISE = "conv 3x3", "conv 1x1", "other conv", "depthwise conv"
MATMUL, ATTENTION = "matmul", "attention"
ELEMENTWISE = "norm, softmax, elementwise"
LAYOUT = "layout, copy"
OVERHEAD = "runtime overhead"
"""Also what the whole network takes beyond the sum of its kernels."""
KINDS = (CONV_3X3, CONV_1X1, CONV_OTHER, DEPTHWISE, MATMUL, ATTENTION, ELEMENTWISE, LAYOUT, OVERHEAD)
"""In the order of tables."""
LEAST_SHARE = 0.005
"""Kernels that take less of the whole are in the sums of their kinds only."""


@dataclass(frozen=True)
class KernelCall:
    """One call of a kernel, as an engine's profiler reports it."""

    name: str
    """The kernel, or the operator."""
    shapes: Shapes
    """Of its arguments, as far as they are known."""
    us: float
    out: Shape | None = None
    """Of its output; None where the profiler does not tell."""


_CALLER = re.compile(
    r"aten::(_?convolution|conv[123]d|linear|matmul|layer_norm|batch_norm|softmax|scaled_dot_product_attention|"
    r"_batch_norm_impl_index|t|transpose|permute|view|_unsafe_view|reshape|flatten|unflatten|squeeze|unsqueeze|expand|"
    r"as_strided|select|slice|narrow|split|chunk|empty|empty_like|empty_strided|resize_|contiguous|to|detach|"
    r"resolve_conj|resolve_neg|result_type)"
)
"""Operators of torch that call others or make views: their own time is torch's."""
_RUNTIME = re.compile(
    r"vm\.|torch-compiled|torchdynamo|aotdispatcher|## call|inductor|proftest|\[memory\]", re.IGNORECASE
)
_INDUCTOR = re.compile(r"(graph_\d+_)?cpp_fused_")
"""The loops that ``torch.compile`` writes itself: their names have all operators that they stem from, convolutions and
products among them, which it leaves to libraries."""
_LIBRARY = re.compile(r"_?(convolution|addmm|bmm|mm)(?=_|$)")
_CONVOLUTION = re.compile(r"conv(?!ert)", re.IGNORECASE)
_FUSED_ATTENTION = re.compile(r"attention|flash|mha\b|matmul_heads", re.IGNORECASE)
_MATMUL = re.compile(r"matmul|addmm|bmm|gemm|\bmm\b|dense|linear|fullyconnected|einsum", re.IGNORECASE)
_MOVES = re.compile(
    r"(aten|fused?|cpp|subgraph|node|to|input|output|reshape|transpose|permute|copy|clone|concat(enate)?|cat|stack|reorder|"
    r"strided|slice|split|chunk|gather|elements|take|embedding|index|select|convert|cast|contiguous|squeeze|unsqueeze|"
    r"expand|tile|broadcast|broadcast_to|pad|shape|identity|memcpy|layout|transform|view|unsafe|flatten|fill|full|"
    r"constant|nchwc?|te|heads|row|column|image|pairs|[\W_\d])+",
    re.IGNORECASE,
)


def kind_of(name: str, shapes: Shapes) -> str:
    """What a kernel does, from its name and the shapes of its arguments; one of `KINDS`.

    A fused kernel is of the kind of its heaviest part: a convolution with an activation is a convolution.

    Example:
        >>> kind_of("fused_conv2d_add_relu", ((1, 64, 56, 56), (64, 64, 3, 3), (1, 64, 1, 1)))
        'conv 3x3'
        >>> kind_of("conv2d_NCHWc", ((1, 4, 56, 56, 16), (4, 4, 1, 1, 16, 16)))
        'conv 1x1'
        >>> kind_of("aten::bmm", ((12, 128, 64), (12, 64, 128))), kind_of("Gemm", ((128, 768), (768, 3072)))
        ('attention', 'matmul')
        >>> kind_of("fused_matmul_heads_divide", ((128, 12, 64), (12, 64, 128))), kind_of("transpose_heads", ())
        ('attention', 'layout, copy')
        >>> kind_of("matmul_pairs_add", ((128, 384), (48, 384, 16))), kind_of("row_pairs", ((128, 768),))
        ('matmul', 'layout, copy')
        >>> kind_of("fused_reshape_transpose", ()), kind_of("fused_add_layer_norm", ())
        ('layout, copy', 'norm, softmax, elementwise')
    """
    if _RUNTIME.match(name) or _CALLER.fullmatch(name):
        return OVERHEAD
    if written := _INDUCTOR.match(name):
        rest = _LIBRARY.sub("", name[written.end() :])
        return LAYOUT if _MOVES.fullmatch(rest) else ELEMENTWISE
    if _CONVOLUTION.search(name):
        return _kind_of_convolution(name, shapes)
    if _FUSED_ATTENTION.search(name):
        return ATTENTION
    if _MATMUL.search(name):
        return _kind_of_matmul(name, shapes)
    return LAYOUT if _MOVES.fullmatch(name) else ELEMENTWISE


def _kind_of_convolution(name: str, shapes: Shapes) -> str:
    found = read_convolution(name, shapes)
    if found is None:
        return CONV_OTHER
    if found.is_depthwise:
        return DEPTHWISE
    return CONV_3X3 if found.window == (3, 3) else CONV_1X1 if found.window == (1, 1) else CONV_OTHER


def _kind_of_matmul(name: str, shapes: Shapes) -> str:
    """Many products side by side, none of them with a matrix of weights, are attention's."""
    batched = [shape for shape in shapes if len(shape) > 2 and prod(shape[:-2]) > 1]
    has_weights = any(len(shape) == 2 for shape in shapes) or "fullyconnected" in name.lower()
    return ATTENTION if len(batched) > 1 and not has_weights else MATMUL


_NUMBER = re.compile(r"(?<=[a-zA-Z_])\d+(?=_|$)")
_CONVOLUTIONS = (CONV_3X3, CONV_1X1, CONV_OTHER, DEPTHWISE)


def title_of(call: KernelCall) -> str:
    """A kernel by its operator and sizes, the same in all engines and layouts as far as they can be told.

    What is fused with a convolution or a product is left out, so that all kernels with the same product share a title.

    Example:
        >>> blocked = (1, 4, 56, 56, 16), (8, 4, 3, 3, 16, 16), (1, 8, 1, 1, 16), (1, 8, 28, 28, 16)
        >>> title_of(KernelCall("fused_conv2d_NCHWc3_add_relu1", blocked, 1.0, out=blocked[-1]))
        'conv 3x3, 64 to 128 channels, 28 x 28'
        >>> title_of(KernelCall("fused_matmul_packed1_add", ((128, 768), (192, 768, 16)), 1.0, out=(128, 3072)))
        'matmul, 128 x 768 x 3072'
        >>> title_of(KernelCall("fused_matmul_heads_divide", ((128, 768), (12, 64, 128)), 1.0, out=(12, 128, 128)))
        'attention, 12 x 128 x 64 x 128'
        >>> title_of(KernelCall("fused_add1_layer_norm2", ((128, 768),), 1.0, out=(128, 768)))
        'add_layer_norm, 128 x 768'
    """
    kind = kind_of(call.name, call.shapes)
    if kind in _CONVOLUTIONS and (found := read_convolution(call.name, call.shapes)):
        title = f"{'depthwise ' if found.is_depthwise else ''}conv {'x'.join(map(str, found.window))}"
        channels = f"{found.outputs}" if found.is_depthwise else f"{found.inputs} to {found.outputs}"
        return f"{title}, {channels} channels{_by(_places(call, found))}"
    sizes: Shape | None = None
    if kind == MATMUL:
        sizes = read_product(call.name, call.shapes, call.out)
    if kind == ATTENTION:
        sizes = read_attention(call.shapes, call.out)
    if sizes:
        return f"{kind}{_by(sizes)}"
    return f"{_NUMBER.sub('', call.name.removeprefix('fused_')).replace('tir_', '')}{_by(call.out)}"


def _places(call: KernelCall, found: Convolution) -> Shape | None:
    """Extents of what a convolution computes, such as height and width; a gate fused with it repeats a single place."""
    data, out, end = call.shapes[0], call.out, 2 + len(found.window)
    if not out or len(out) < end:
        return None
    if len(data) == len(out):
        return data[2:end] if data[2] < out[2] else out[2:end]
    # On matrix units, all places of an image may be one axis.
    return (1, 1) if data[2] == 1 else out[2:end]


def _by(sizes: Shape | None) -> str:
    return f", {' x '.join(map(str, sizes))}" if sizes else ""


def flop_of(call: KernelCall) -> int | None:
    """The multiplications and additions of a convolution, or of a product with weights or in matrix units, if known.

    What is fused with it is not counted, nor are sums that the kernel computes and leaves out.

    Example:
        >>> flop_of(KernelCall("Conv", ((1, 64, 56, 56), (128, 64, 3, 3)), 1.0, out=(1, 128, 28, 28)))
        115605504
        >>> flop_of(KernelCall("aten::addmm", ((768,), (128, 768), (768, 768)), 1.0))
        150994944
    """
    kind = kind_of(call.name, call.shapes)
    if kind in _CONVOLUTIONS and (found := read_convolution(call.name, call.shapes)):
        images, places = call.shapes[0][0], _places(call, found)
        return 2 * images * found.outputs * prod(places) * found.terms if places else None
    if kind == MATMUL and (sizes := read_product(call.name, call.shapes, call.out)):
        return 2 * prod(sizes)
    if kind == ATTENTION and PAIRS in call.name and (heads := read_attention(call.shapes, call.out)):
        return 2 * prod(heads)
    return None


@dataclass(frozen=True)
class KernelTime:
    """A kernel in the profile of a network."""

    name: str
    kind: str
    calls: int
    """In one run of the network."""
    us: float
    """Of all its calls in one run."""
    tuned: bool | None = None
    """Whether it has a schedule of the database; None for engines without one."""
    title: str = ""
    """See `title_of`."""
    flop: float | None = None
    """Floating-point operations of one call; None where they are unknown."""


def summarise(
    runs: Sequence[Iterable[KernelCall]],
    whole_us: float,
    tuned: Iterable[str] | None = None,
    flop: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """A profile as a row of results.

    Args:
        runs: The kernel calls of several runs of the network; a kernel counts with its median over the runs.
        whole_us: What the network takes without a profiler, in us.
        tuned: Names of the kernels that have a schedule.
        flop: Name of a kernel -> the operations of one call. They are taken only where `flop_of` knows none, since a
            kernel may compute more than it has to.

    Returns:
        `whole_us`, `kinds` (kind -> us; they add up to `whole_us`, so `OVERHEAD` is below zero where the profiler costs
        more than the runtime), `unscheduled_us` (of kernels without a schedule), and `kernels`, the slowest first.

    Example:
        >>> run = [KernelCall("Gemm", (), 6.0), KernelCall("Gemm", (), 2.0), KernelCall("Relu", (), 1.0)]
        >>> found = summarise([run, run], 10.0)
        >>> found["kinds"]
        {'matmul': 8.0, 'norm, softmax, elementwise': 1.0, 'runtime overhead': 1.0}
        >>> [(kernel["name"], kernel["calls"], kernel["us"]) for kernel in found["kernels"]]
        [('Gemm', 2, 8.0), ('Relu', 1, 1.0)]
    """
    known = None if tuned is None else set(tuned)
    per_run = [_by_kernel(run) for run in runs]
    kernels = []
    for about in dict.fromkeys(key for run in per_run for key in run):
        times = [run.get(about, []) for run in per_run]
        calls, us = round(statistics.median(map(len, times))), statistics.median(map(sum, times))
        name, shapes, out = about
        call = KernelCall(name, shapes, us, out)
        own, given = flop_of(call), (flop or {}).get(name)
        is_tuned = None if known is None else name in known
        kernels.append(KernelTime(name, kind_of(name, shapes), calls, us, is_tuned, title_of(call), own or given))
    kernels.sort(key=lambda kernel: -kernel.us)
    sums = {kind: sum(kernel.us for kernel in kernels if kernel.kind == kind) for kind in KINDS}
    sums[OVERHEAD] += whole_us - sum(sums.values())
    unscheduled = [kernel for kernel in kernels if kernel.tuned is False and kernel.kind != OVERHEAD]
    return {
        "whole_us": whole_us,
        "kinds": {kind: us for kind, us in sums.items() if us},
        "unscheduled_us": None if known is None else sum(kernel.us for kernel in unscheduled),
        "kernels": [asdict(kernel) for kernel in kernels if kernel.us >= LEAST_SHARE * whole_us],
    }


def _by_kernel(run: Iterable[KernelCall]) -> Mapping[tuple[str, Shapes, Shape | None], list[float]]:
    """Name, shapes and output of a kernel -> the times of its calls; what the runtime does needs no shapes."""
    found: dict[tuple[str, Shapes, Shape | None], list[float]] = {}
    for call in run:
        is_kernel = kind_of(call.name, call.shapes) != OVERHEAD
        about = (call.name, call.shapes, call.out) if is_kernel else (call.name, (), None)
        found.setdefault(about, []).append(call.us)
    return found
