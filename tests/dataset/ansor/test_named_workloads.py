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
    ],
)
def test_a_rebuilt_workload_computes_what_torch_computes(key: str, shapes: list[tuple[int, ...]]) -> None:
    import tvm

    parsed = parse_key(key)
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(shape).astype("float32") for shape in shapes]
    data, weight = (torch.from_numpy(each) for each in inputs)
    function, (*_, stride, padding) = parsed.function, parsed.arguments
    if "conv2d" in function:
        groups = data.shape[1] if function.startswith("depthwise") else 1
        pads = {"SAME": weight.shape[-1] // 2, "VALID": 0}.get(padding, padding)
        expected = torch.nn.functional.conv2d(data, weight, stride=stride, padding=pads, groups=groups)
    else:
        expected = data @ weight
    result = tvm.runtime.tensor(np.zeros(expected.shape, "float32"))

    tvm.compile(parsed.module(), target="llvm")["main"](*map(tvm.runtime.tensor, inputs), result)

    np.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)


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
        ("matmul", "not a JSON list"),
        ("[1]", "does not begin with a name"),
        ("[]", "not a JSON list"),
        ("[" * 100_000, "not a JSON list"),
    ],
)
def test_other_keys_are_refused(key: str, why: str) -> None:
    with pytest.raises(WorkloadError, match=why):
        parse_key(key)
