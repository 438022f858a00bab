"""The sizes of convolutions and products, as the kernels of each layout have them."""

from __future__ import annotations

import json

import pytest

from costhub.collector.workloads.bfloat16_images import LineShape
from costhub.collector.workloads.network_source import BF16, BLOCKED, Lowering, read_network
from costhub.dataset.workload import argument_shapes
from scripts.bench.engines.kinds import KernelCall, flop_of, kind_of, title_of
from scripts.bench.engines.shapes import Shapes, read_attention, read_convolution, read_product

TARGET = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "sapphirerapids", "num-cores": 1}


@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("size", [2, 3, 4, 5, 7, 11, 16])
def test_the_window_of_an_image_in_a_row_is_found(size: int, channels: int) -> None:
    shape = LineShape((1, 1, 64, 64, channels), (4, 1, size, size, channels, 16), (2, 2), (1, 1, 1, 1))

    found = read_convolution("conv2d_NCHWc_pairs", (shape.pairs, shape.filters))

    assert found is not None
    assert (found.outputs, found.is_depthwise) == (64, False)
    assert found.terms == found.inputs * found.window[0] ** 2
    # Zeros at the end of a row may hide how many channels there are, and an even window how many rows.
    again = LineShape(
        (1, 1, 64, 64, found.inputs), (4, 1, *found.window, found.inputs, 16), shape.strides, shape.padding
    )
    assert again.filters == shape.filters


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("Conv", ()),
        ("Conv", ((1, 64, 56, 56),)),
        ("Conv", ((1, 64, 56), (64, 64, 3))),
        ("conv2d_NCHWc", ((1, 4, 56, 56, 16), (4, 4, 3, 3))),
        ("conv2d_NCHWc_pairs", ((1, 113, 678), (2, 2, 1000, 16))),
        ("Conv", ((1, 64, 8, 28, 28), (64, 64, 3, 3))),
        ("Conv", ((1, 64, 28, 28), (4, 16, 64, 3, 3, 3))),
    ],
)
def test_shapes_that_do_not_tell_are_no_convolution(name: str, shapes: Shapes) -> None:
    assert read_convolution(name, shapes) is None


def test_shapes_that_do_not_tell_are_no_product() -> None:
    assert read_product("Gemm", ((128, 768),), None) is None
    assert read_product("Gemm", ((128, 768),), (64, 768)) is None
    assert read_product("Gemm", ((128, 768), (5, 7)), None) is None
    assert read_attention(((128, 768), (768, 768)), None) is None
    assert read_attention(((12, 128, 64),), None) is None


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", BF16])
def test_titles_and_operations_are_the_same_in_every_precision(precision: str) -> None:
    def convolutions(lowering: Lowering) -> set[tuple[str, int | None]]:
        import tvm
        from tvm import relax

        from costhub.collector.workloads.relax_import import fuse

        text = json.dumps(TARGET)
        unit = lowering.bf16_unit(text)
        source = read_network("mobilenet_v2", device="meta", lanes=lowering.lanes(text), bf16_unit=unit)
        found = set()
        for name, function in fuse(source.mod, tvm.target.Target(TARGET)).functions.items():
            if not isinstance(function, relax.Function):
                shapes = tuple(shape for _, shape in argument_shapes(tvm.IRModule({"main": function})))
                if "conv" in kind_of(name.name_hint, shapes):
                    call = KernelCall(name.name_hint, shapes, 1.0, shapes[-1])
                    found.add((title_of(call), flop_of(call)))
        return found

    plain = convolutions(Lowering())
    # Channels are filled up to whole blocks of 16 in the other layouts.
    assert ("conv 3x3, 3 to 32 channels, 112 x 112", 2 * 32 * 112 * 112 * 3 * 9) in plain
    assert convolutions(Lowering(layout=BLOCKED, precision=precision)) == plain
