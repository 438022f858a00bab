from __future__ import annotations

import numpy as np
import pytest
import torch

from costhub.dataset.ansor.named_workloads import parse_key
from costhub.errors import WorkloadError


@pytest.mark.parametrize(
    ("key", "shapes"),
    [
        ('["conv2d_layer", 2, 3, 8, 7, 4, 3, 3, 1, "SAME"]', [(2, 3, 8, 7), (4, 3, 3, 3)]),
        ('["conv2d_layer", 1, 2, 9, 9, 3, 3, 3, 2, "VALID"]', [(1, 2, 9, 9), (3, 2, 3, 3)]),
        ('["conv2d_layer", 1, 2, 8, 8, 3, 5, 5, 2, 2]', [(1, 2, 8, 8), (3, 2, 5, 5)]),
        ('["depthwise_conv2d_layer", 2, 3, 8, 7, 3, 3, 1, "SAME"]', [(2, 3, 8, 7), (3, 1, 3, 3)]),
        ('["matmul_layer", 5, 6, 7]', [(5, 6), (6, 7)]),
        ('["batch_matmul_layer", 2, 3, 4, 5, 6]', [(6, 4, 5), (6, 5, 6)]),
        ('["matmul", 5, 7, 6, "float32"]', [(5, 6), (6, 7)]),
        ('["matmul", 5, 7, 6, "float16"]', [(5, 6), (6, 7)]),
    ],
)
def test_a_rebuilt_workload_computes_what_torch_computes(key: str, shapes: list[tuple[int, ...]]) -> None:
    import tvm

    parsed = parse_key(key)
    random = np.random.default_rng(0)
    dtype = "float16" if "float16" in parsed.arguments else "float32"
    inputs = [random.standard_normal(shape).astype(dtype) for shape in shapes]
    data, weight = (torch.from_numpy(each) for each in inputs)
    function, (*_, stride, padding) = parsed.function, parsed.arguments
    tolerance = 1e-2 if dtype == "float16" else 1e-4
    if "conv2d" in function:
        groups = data.shape[1] if function.startswith("depthwise") else 1
        pads = {"SAME": weight.shape[-1] // 2, "VALID": 0}.get(padding, padding)
        expected = torch.nn.functional.conv2d(data, weight, stride=stride, padding=pads, groups=groups)
    else:
        expected = data @ weight
    result = tvm.runtime.tensor(np.zeros(expected.shape, dtype))

    tvm.compile(parsed.module(), target="llvm")["main"](*map(tvm.runtime.tensor, inputs), result)

    np.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=tolerance, atol=tolerance)


def test_a_sum_of_float16_is_accumulated_in_float16() -> None:
    """As mmperf defines it; there 2048 + 1 is 2048, so a sum in float32, such as that of libraries, is another."""
    import tvm

    ones = [np.ones(shape, "float16") for shape in ((1, 3000), (3000, 1))]
    result = tvm.runtime.tensor(np.zeros((1, 1), "float16"))

    module = parse_key('["matmul", 1, 1, 3000, "float16"]').module()
    tvm.compile(module, target="llvm")["main"](*map(tvm.runtime.tensor, ones), result)

    assert result.numpy().item() == 2048


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ('["matmul", 5, 7, 6, "float32"]', "matmul_5x6_6x7"),
        ('["matmul", 5, 7, 6, "float16"]', "matmul_5x6_6x7_float16"),
    ],
)
def test_a_name_says_the_order_of_the_extents_and_another_type(key: str, name: str) -> None:
    assert parse_key(key).name == name


def test_one_product_under_two_names_is_one_workload() -> None:
    """The function of microsoft/nnfusion gives the inner extent second, that of mmperf third."""
    from costhub.dataset.workload import workload_id

    nnfusion, mmperf = '["matmul_layer", 5, 6, 7]', '["matmul", 5, 7, 6, "float32"]'
    assert workload_id(parse_key(nnfusion).module()) == workload_id(parse_key(mmperf).module())


def test_equal_padding_gives_equal_workloads() -> None:
    from costhub.dataset.workload import workload_id

    same, numbers = (parse_key(f'["conv2d_layer", 8, 4, 14, 14, 4, 3, 3, 1, {p}]') for p in ('"SAME"', "1"))
    assert workload_id(same.module()) == workload_id(numbers.module())


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ('["d7b65649a4dd54becea0a52aabbc5af5", 1, 2]', "a hash"),
        ('["attention_layer", 1]', "'attention_layer'; the known ones are conv2d_layer"),
        ('["matmul_layer", 1, 2]', "2 arguments"),
        ('["matmul_layer", 1, 2, 0]', "columns in its workload key is 0"),
        ('["matmul_layer", 1, 2, 1e9]', "columns"),
        ('["matmul_layer", 1, true, 2]', "inner extent"),
        ('["conv2d_layer", 1, 2, 8, 8, 3, 5, 5, 2, "FULL"]', "padding"),
        ('["matmul", 1, 2, 3]', "3 arguments, not rows, columns, inner extent, dtype"),
        ('["matmul", 1, 2, 3, "int8"]', "dtype in its workload key is 'int8'; the known ones are float32, float16"),
        ('["matmul", 1, 2, 3, ["float32"]]', "dtype"),
        ('["matmul", 1, 2, 3, 1]', "dtype"),
        ('["matmul", 1, 2, "SAME", "float32"]', "inner extent"),
        ("matmul", "not a JSON list"),
        ("[1]", "does not begin with a name"),
        ("[]", "not a JSON list"),
        ("[" * 100_000, "not a JSON list"),
    ],
)
def test_other_keys_are_refused(key: str, why: str) -> None:
    with pytest.raises(WorkloadError, match=why):
        parse_key(key)
