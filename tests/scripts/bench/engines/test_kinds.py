"""Kinds of kernels by the names that each engine gives them, and sums that leave nothing out."""

from __future__ import annotations

import pytest

from scripts.bench.engines.kinds import KINDS, OVERHEAD, KernelCall, Shapes, kind_of, summarise
from scripts.tables.networks import ENGINE_KINDS

IMAGE = (1, 64, 56, 56)


@pytest.mark.parametrize(
    ("name", "shapes", "kind"),
    [
        ("aten::mkldnn_convolution", (IMAGE, (64, 64, 3, 3)), "conv 3x3"),
        ("Conv", (IMAGE, (128, 64, 1, 1), (128,)), "conv 1x1"),
        ("fused_conv2d_add_clip", (IMAGE, (64, 1, 3, 3), (1, 64, 1, 1), IMAGE), "depthwise conv"),
        ("GroupConvolution", (IMAGE, (64, 1, 1, 3, 3)), "depthwise conv"),
        ("GroupConvolution", (IMAGE, (32, 2, 2, 3, 3)), "conv 3x3"),
        ("Convolution", ((1, 3, 224, 224), (64, 3, 7, 7)), "other conv"),
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
        ("fused_reshape1_add_add1", (), "norm, softmax, elementwise"),
        ("fused_reshape1_reshape3_transpose_broadcast_to_reshape4", (), "layout, copy"),
        ("take", ((30522, 128), (128,)), "layout, copy"),
        ("ReorderOutput", (), "layout, copy"),
        ("aten::copy_", (), "layout, copy"),
        ("aten::conv2d", (IMAGE, (64, 64, 3, 3)), "runtime overhead"),
        ("aten::view", (IMAGE,), "runtime overhead"),
        ("vm.builtin.reshape", (IMAGE,), "runtime overhead"),
    ],
)
def test_kernels_of_every_engine_have_a_kind(name: str, shapes: Shapes, kind: str) -> None:
    assert kind_of(name, shapes) == kind


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
