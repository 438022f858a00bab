"""Kinds of kernels by the names that each engine gives them, and sums that leave nothing out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tvm

from costhub.collector.workloads.bfloat16_images import FlatShape, LineShape, flat_convolution, line_convolution
from costhub.dataset.intrinsics import PAIR_CONVOLUTION
from costhub.dataset.workload import argument_shapes, count_flop
from scripts.bench.engines.kinds import KINDS, OVERHEAD, KernelCall, flop_of, kind_of, summarise, title_of
from scripts.bench.engines.shapes import Shape, Shapes
from scripts.tables.networks import ENGINE_KINDS

IMAGE, VOLUME = (1, 64, 56, 56), (1, 64, 8, 28, 28)


@pytest.mark.parametrize(
    ("name", "shapes", "kind"),
    [
        ("aten::mkldnn_convolution", (IMAGE, (64, 64, 3, 3)), "conv 3x3"),
        ("Conv", (IMAGE, (128, 64, 1, 1), (128,)), "conv 1x1"),
        ("fused_conv2d_add_clip", (IMAGE, (64, 1, 3, 3), (1, 64, 1, 1), IMAGE), "depthwise conv"),
        ("GroupConvolution", (IMAGE, (64, 1, 1, 3, 3)), "depthwise conv"),
        ("GroupConvolution", (IMAGE, (32, 2, 2, 3, 3)), "conv 3x3"),
        ("Convolution", ((1, 3, 224, 224), (64, 3, 7, 7)), "other conv"),
        ("Convolution", (VOLUME, (64, 64, 3, 3, 3)), "other conv"),
        ("GroupConvolution", (VOLUME, (64, 1, 1, 3, 3, 3)), "depthwise conv"),
        ("mkldnn::_convolution_pointwise", (), "other conv"),
        ("Convert", ((1, 128),), "layout, copy"),
        ("aten::addmm", ((768,), (128, 768), (768, 768)), "matmul"),
        ("FullyConnected", ((1, 128, 768), (768, 768)), "matmul"),
        ("FusedMatMul", ((1, 12, 128, 64), (1, 12, 64, 128)), "attention"),
        ("fused_matmul_divide", ((12, 128, 64), (12, 64, 128), (12, 128, 128)), "attention"),
        ("fused_matmul_add_gelu", ((1, 128, 768), (768, 3072), (3072,)), "matmul"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", (), "attention"),
        ("Subgraph node_softmax,node_matmul", ((1, 128, 12, 64),) * 3, "attention"),
        ("Subgraph node_add_2", ((1, 128, 768),) * 2, "norm, softmax, elementwise"),
        ("SkipLayerNormalization", (), "norm, softmax, elementwise"),
        ("graph_0_cpp_fused_gelu_view_2", (), "norm, softmax, elementwise"),
        ("graph_0_cpp_fused__native_batch_norm_convolution_relu_13", (), "norm, softmax, elementwise"),
        ("cpp_fused_addmm_gelu_4", (), "norm, softmax, elementwise"),
        ("graph_0_cpp_fused_convolution_12", (), "layout, copy"),
        ("graph_0_cpp_fused_clone_view_3", (), "layout, copy"),
        ("fused_reshape1_add_add1", (), "norm, softmax, elementwise"),
        ("fused_reshape1_reshape3_transpose_broadcast_to_reshape4", (), "layout, copy"),
        ("take", ((30522, 128), (128,)), "layout, copy"),
        ("ReorderOutput", (), "layout, copy"),
        ("te_layout_transform2", ((1, 96, 56, 56), (1, 6, 56, 56, 16)), "layout, copy"),
        ("fused_te_layout_transform1_transpose_reshape", (), "layout, copy"),
        ("fused_te_layout_transform_add", (), "norm, softmax, elementwise"),
        ("fused_conv2d_NCHWc1_add_relu", ((1, 4, 56, 56, 16), (4, 4, 3, 3, 16, 16)), "conv 3x3"),
        ("fused_conv2d_NCHWc_add", ((1, 1, 224, 224, 3), (4, 1, 7, 7, 3, 16)), "other conv"),
        ("fused_depthwise_conv2d_NCHWc", ((1, 2, 56, 56, 16), (2, 1, 3, 3, 1, 16)), "depthwise conv"),
        ("fused_conv2d_NCHWc_pairs1_add", ((1, 2, 58, 58, 16), (4, 2, 3, 3, 16, 16)), "conv 3x3"),
        ("fused_conv2d_NCHWc_pairs9_add", ((1, 10, 84, 16), (32, 10, 1, 1, 16, 16)), "conv 1x1"),
        ("fused_conv2d_NCHWc_pairs_add", ((1, 113, 678), (2, 2, 9, 16)), "conv 3x3"),
        ("fused_conv2d_NCHWc_pairs_add", ((1, 115, 691), (4, 4, 22, 16)), "other conv"),
        ("aten::copy_", (), "layout, copy"),
        ("aten::conv2d", (IMAGE, (64, 64, 3, 3)), "runtime overhead"),
        ("aten::view", (IMAGE,), "runtime overhead"),
        ("vm.builtin.reshape", (IMAGE,), "runtime overhead"),
    ],
)
def test_kernels_of_every_engine_have_a_kind(name: str, shapes: Shapes, kind: str) -> None:
    assert kind_of(name, shapes) == kind


@pytest.mark.parametrize(
    ("name", "shapes", "out", "title"),
    [
        ("fused_conv2d_add_relu3", (IMAGE, (128, 64, 3, 3)), (1, 128, 28, 28), "conv 3x3, 64 to 128 channels, 28 x 28"),
        (
            "fused_conv2d_NCHWc_pairs8_add_relu",
            ((1, 2, 57, 57, 16), (8, 2, 3, 3, 16, 16)),
            (1, 8, 28, 28, 16),
            "conv 3x3, 64 to 128 channels, 28 x 28",
        ),
        ("Conv", (IMAGE, (128, 64, 3, 3), (128,)), (1, 128, 28, 28), "conv 3x3, 64 to 128 channels, 28 x 28"),
        ("aten::mkldnn_convolution", (IMAGE, (128, 64, 3, 3)), None, "conv 3x3, 64 to 128 channels"),
        ("GroupConvolution", (IMAGE, (64, 1, 1, 3, 3)), IMAGE, "depthwise conv 3x3, 64 channels, 56 x 56"),
        (
            "fused_depthwise_conv2d_NCHWc1_add",
            ((1, 4, 56, 56, 16), (4, 1, 3, 3, 1, 16)),
            (1, 4, 56, 56, 16),
            "depthwise conv 3x3, 64 channels, 56 x 56",
        ),
        ("fused_matmul_pairs1_add", ((128, 384), (192, 384, 16)), (128, 3072), "matmul, 128 x 768 x 3072"),
        ("matmul_pairs2", ((6, 208, 112), (6, 4, 112, 16)), (6, 197, 64), "attention, 6 x 197 x 224 x 64"),
        ("fused_matmul_heads_divide", ((128, 768), (12, 64, 128)), (12, 128, 128), "attention, 12 x 128 x 64 x 128"),
        ("column_pairs1", ((6, 197, 64), (6, 4, 112, 16)), (6, 4, 112, 16), "column_pairs, 6 x 4 x 112 x 16"),
        ("FullyConnected", ((1, 128, 768), (3072, 768)), (1, 128, 3072), "matmul, 128 x 768 x 3072"),
        ("Gemm", ((128, 768), (3072,)), (128, 3072), "matmul, 128 x 768 x 3072"),
        ("fused_matmul_packed4_strided_slice", ((1, 768), (63, 768, 16)), (1, 1000), "matmul, 1 x 768 x 1000"),
        ("matmul_heads2", ((12, 128, 128), (128, 2304)), (128, 12, 64), "attention, 12 x 128 x 128 x 64"),
        ("fused_matmul_divide", ((12, 128, 64), (12, 64, 128)), (12, 128, 128), "attention, 12 x 128 x 64 x 128"),
        (
            "fused_conv2d_NCHWc32_add_sigmoid_multiply",
            ((1, 3, 1, 1, 16), (72, 3, 1, 1, 16, 16), (1, 72, 7, 7, 16)),
            (1, 72, 7, 7, 16),
            "conv 1x1, 48 to 1152 channels, 1 x 1",
        ),
        (
            "fused_conv2d_NCHWc_pairs16_add_sigmoid_multiply",
            ((1, 5, 1, 2), (30, 5, 1, 1, 2, 16)),
            (1, 30, 14, 14, 16),
            "conv 1x1, 20 to 480 channels, 1 x 1",
        ),
        (
            "fused_conv2d_NCHWc_pairs21_add",
            ((1, 16, 84, 16), (32, 16, 3, 3, 16, 16)),
            (1, 32, 7, 7, 16),
            "conv 3x3, 512 to 512 channels, 7 x 7",
        ),
        (
            "Convolution",
            (VOLUME, (128, 64, 3, 3, 3)),
            (1, 128, 8, 28, 28),
            "conv 3x3x3, 64 to 128 channels, 8 x 28 x 28",
        ),
        (
            "fused_conv2d_NCHWc_pairs_add",
            ((1, 115, 691), (4, 4, 22, 16)),
            (1, 4, 112, 112, 16),
            "conv 7x7, 3 to 64 channels, 112 x 112",
        ),
        ("mkldnn::_convolution_pointwise", (), None, "mkldnn::_convolution_pointwise"),
        ("fused_add1_tir_clip12", ((1, 96),), (1, 96), "add_clip, 1 x 96"),
    ],
)
def test_the_same_product_has_the_same_title_in_every_layout(
    name: str, shapes: Shapes, out: Shape | None, title: str
) -> None:
    assert title_of(KernelCall(name, shapes, 1.0, out)) == title


@pytest.mark.parametrize(
    ("name", "shapes", "out", "flop"),
    [
        ("Conv", (IMAGE, (128, 64, 3, 3)), (1, 128, 28, 28), 2 * 128 * 28 * 28 * 64 * 9),
        ("GroupConvolution", (IMAGE, (64, 1, 1, 3, 3)), IMAGE, 2 * 64 * 56 * 56 * 9),
        ("GroupConvolution", (IMAGE, (32, 2, 2, 3, 3)), IMAGE, 2 * 64 * 56 * 56 * 2 * 9),
        ("Conv", ((5, 64, 56, 56), (128, 64, 3, 3)), (5, 128, 28, 28), 5 * 2 * 128 * 28 * 28 * 64 * 9),
        ("Convolution", (VOLUME, (128, 64, 3, 3, 3)), (1, 128, 8, 28, 28), 2 * 128 * 8 * 28 * 28 * 64 * 27),
        ("Convolution", (VOLUME, (64, 1, 3, 3, 3)), VOLUME, 2 * 64 * 8 * 28 * 28 * 27),
        ("GroupConvolution", (VOLUME, (32, 2, 2, 3, 3, 3)), VOLUME, 2 * 64 * 8 * 28 * 28 * 2 * 27),
        (
            "fused_conv2d_NCHWc1_add",
            ((1, 4, 56, 56, 16), (8, 4, 3, 3, 16, 16), (1, 8, 1, 1, 16), (1, 8, 28, 28, 16)),
            (1, 8, 28, 28, 16),
            2 * 128 * 28 * 28 * 64 * 9,
        ),
        (
            "fused_depthwise_conv2d_NCHWc1_add",
            ((1, 4, 56, 56, 16), (4, 1, 3, 3, 1, 16)),
            (1, 4, 56, 56, 16),
            2 * 64 * 56 * 56 * 9,
        ),
        (
            "fused_conv2d_NCHWc_pairs8_add_relu",
            ((1, 2, 57, 57, 16), (8, 2, 3, 3, 16, 16)),
            (1, 8, 28, 28, 16),
            2 * 128 * 28 * 28 * 64 * 9,
        ),
        (
            "fused_conv2d_NCHWc32_add_sigmoid_multiply",
            ((1, 3, 1, 1, 16), (72, 3, 1, 1, 16, 16), (1, 72, 7, 7, 16)),
            (1, 72, 7, 7, 16),
            2 * 1152 * 48,
        ),
        (
            "fused_conv2d_NCHWc_pairs16_add_sigmoid_multiply",
            ((1, 5, 1, 2), (30, 5, 1, 1, 2, 16)),
            (1, 30, 14, 14, 16),
            2 * 480 * 20,
        ),
        ("Gemm", ((1, 768), (1000, 768), (1000,)), (1, 1000), 2 * 768 * 1000),
        ("aten::addmm", ((3072,), (128, 768), (768, 3072)), None, 2 * 128 * 768 * 3072),
        ("fused_matmul_pairs1_add", ((198, 192), (96, 192, 16)), (197, 1536), 2 * 197 * 384 * 1536),
        ("fused_matmul_pairs3_divide", ((6, 208, 32), (6, 13, 32, 16)), (6, 197, 197), 2 * 6 * 197 * 64 * 197),
        ("aten::mkldnn_convolution", (IMAGE, (128, 64, 3, 3)), None, None),
        ("Softmax", ((12, 128, 128),), (12, 128, 128), None),
    ],
)
def test_products_and_convolutions_are_counted(name: str, shapes: Shapes, out: Shape | None, flop: int | None) -> None:
    assert flop_of(KernelCall(name, shapes, 1.0, out)) == flop


FLAT_7 = FlatShape((1, 32, 7, 7, 16), (32, 16, 3, 3, 16, 16), (1, 1, 1, 1), (1, 1))
FLAT_14 = FlatShape((1, 16, 14, 14, 16), (16, 8, 3, 3, 16, 16), (1, 1, 1, 1), (1, 1))
LINE = LineShape((1, 1, 224, 224, 3), (4, 1, 7, 7, 3, 16), (2, 2), (3, 3, 3, 3))


@pytest.mark.parametrize(
    ("make", "shape", "needed", "computed"),
    [
        # Sums at the zeros between rows of places, and a few more that fill up a tile.
        (flat_convolution, FLAT_7, 2 * 512 * 7 * 7 * 512 * 9, 2 * 512 * 64 * 512 * 9),
        (flat_convolution, FLAT_14, 2 * 256 * 14 * 14 * 256 * 9, 2 * 256 * 224 * 256 * 9),
        # An eighth row of the filter, and a number at the end of each row.
        (line_convolution, LINE, 2 * 64 * 112 * 112 * 3 * 7 * 7, 2 * 64 * 112 * 112 * 8 * 22),
    ],
    ids=["7 x 7", "14 x 14", "line"],
)
def test_only_what_a_convolution_needs_is_counted(
    make: Callable[[Any], Any], shape: FlatShape | LineShape, needed: int, computed: int
) -> None:
    mod = tvm.IRModule({"main": make(shape)})
    shapes = tuple(extents for _, extents in argument_shapes(mod))
    call = KernelCall(f"fused_{PAIR_CONVOLUTION}_add", shapes, 1.0, shapes[-1])

    (summarised,) = summarise([[call]], 1.0, flop={call.name: count_flop(mod)})["kernels"]

    assert shapes[-1] == shape.out
    assert count_flop(mod) == computed
    assert summarised["flop"] == flop_of(call) == needed


def test_operations_that_are_given_are_those_of_other_kernels_and_each_size_has_its_own_line() -> None:
    small, large = ((1, 8), (8, 8)), ((1, 64), (64, 64))
    calls = [KernelCall("matmul", small, 2.0), KernelCall("matmul", large, 6.0), KernelCall("relu", (), 1.0)]

    own = summarise([calls], 10.0)["kernels"]
    given = summarise([calls], 10.0, flop={"matmul": 7.0, "relu": 3.0})["kernels"]

    assert [(each["title"], each["flop"]) for each in own] == [
        ("matmul, 1 x 64 x 64", 2 * 64 * 64),
        ("matmul, 1 x 8 x 8", 2 * 8 * 8),
        ("relu", None),
    ]
    assert [each["flop"] for each in given] == [2 * 64 * 64, 2 * 8 * 8, 3.0]


def test_a_convolution_of_unknown_size_has_the_operations_that_are_given() -> None:
    (found,) = summarise([[KernelCall("fused_conv2d_add", (), 1.0)]], 1.0, flop={"fused_conv2d_add": 7.0})["kernels"]

    assert found["flop"] == 7.0


def test_the_kinds_of_a_profile_add_up_to_the_whole() -> None:
    calls = [KernelCall("Gemm", (), 5.0), KernelCall("vm.builtin.alloc_tensor", (), 1.0), KernelCall("Relu", (), 2.0)]

    found = summarise([calls], 10.0)

    assert found["kinds"] == {"matmul": 5.0, "norm, softmax, elementwise": 2.0, OVERHEAD: 3.0}


def test_kernels_count_with_their_median_over_the_runs() -> None:
    runs = [[KernelCall("Gemm", (), us), KernelCall("Gemm", (), 1.0)] for us in (4.0, 5.0, 90.0)]

    (kernel,) = summarise(runs, 10.0)["kernels"]

    assert (kernel["calls"], kernel["us"]) == (2, 6.0)


def test_kernels_with_a_schedule_are_told_from_the_others() -> None:
    calls = [KernelCall("fused_matmul", (), 5.0), KernelCall("layer_norm", (), 4.0)]

    calls.append(KernelCall("vm.builtin.alloc_tensor", (), 1.0))
    found = summarise([calls], 10.0, ["fused_matmul"])
    told = {kernel["name"]: kernel["tuned"] for kernel in found["kernels"] if kernel["kind"] != OVERHEAD}

    assert told == {"fused_matmul": True, "layer_norm": False}
    assert found["unscheduled_us"] == 4.0
    assert summarise([calls], 10.0)["unscheduled_us"] is None
    assert {kernel["tuned"] for kernel in summarise([calls], 10.0)["kernels"]} == {None}


def test_small_kernels_are_in_the_sums_only() -> None:
    found = summarise([[KernelCall("Gemm", (), 900.0), KernelCall("Relu", (), 1.0)]], 1000.0)

    assert [kernel["name"] for kernel in found["kernels"]] == ["Gemm"]
    assert found["kinds"]["norm, softmax, elementwise"] == 1.0


def test_tables_have_a_column_for_every_kind() -> None:
    assert ENGINE_KINDS == KINDS
