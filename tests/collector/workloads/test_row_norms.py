"""Layer normalisation and softmax whose sums run in vectors: what they compute, also of rows with a large mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import tvm
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from costhub.collector.workloads.row_norms import row_norm, row_softmax

TARGET = tvm.target.Target({"kind": "llvm", "num-cores": 1})


def computed(data: np.ndarray, gamma: np.ndarray, beta: np.ndarray, lanes: int) -> np.ndarray:
    kernel = row_norm(*data.shape, lanes, 1e-5).with_attr("global_symbol", "main")
    tensors: list[Any] = [tvm.runtime.tensor(value) for value in (data, gamma, beta, np.zeros_like(data))]
    tvm.compile(tvm.IRModule({"main": kernel}), target=TARGET)(*tensors)
    return tensors[-1].numpy()


@pytest.mark.slow
@given(
    rows=st.integers(1, 6),
    chunks=st.integers(1, 5),
    lanes=st.sampled_from([4, 8, 16]),
    mean=st.sampled_from([0.0, 1000.0]),
    seed=st.integers(0, 9),
)
def test_it_normalises_as_torch_does(rows: int, chunks: int, lanes: int, mean: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    data = (draw.standard_normal((rows, chunks * lanes)) + mean).astype("float32")
    gamma, beta = (draw.standard_normal(chunks * lanes).astype("float32") for _ in range(2))

    found = computed(data, gamma, beta, lanes)

    exact = functional.layer_norm(*(torch.tensor(v, dtype=torch.float64) for v in (data,)), (chunks * lanes,))
    expected = exact.numpy() * gamma + beta
    np.testing.assert_allclose(found, expected, atol=5e-3 if mean else 1e-4)


@pytest.mark.slow
@given(
    outer=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    columns=st.integers(1, 40),
    lanes=st.sampled_from([4, 8, 16]),
    fast=st.booleans(),
    scale=st.sampled_from([1.0, 100.0]),
)
def test_softmax_is_that_of_torch(outer: list[int], columns: int, lanes: int, fast: bool, scale: float) -> None:
    data = (np.random.default_rng(columns).standard_normal((*outer, columns)) * scale).astype("float32")
    kernel = row_softmax(data.shape, lanes, fast=fast).with_attr("global_symbol", "main")
    tensors: list[Any] = [tvm.runtime.tensor(value) for value in (data, np.zeros_like(data))]

    tvm.compile(tvm.IRModule({"main": kernel}), target=TARGET)(*tensors)

    expected = functional.softmax(torch.tensor(data, dtype=torch.float64), -1).numpy()
    np.testing.assert_allclose(tensors[-1].numpy(), expected, atol=1e-6)


def test_what_is_masked_with_the_smallest_number_has_no_share() -> None:
    data = np.array([[0.0, 1.0, np.finfo("float32").min, 2.0, -np.inf]], "float32")
    kernel = row_softmax(data.shape, 4, fast=True).with_attr("global_symbol", "main")
    tensors: list[Any] = [tvm.runtime.tensor(value) for value in (data, np.zeros_like(data))]

    tvm.compile(tvm.IRModule({"main": kernel}), target=TARGET)(*tensors)

    np.testing.assert_allclose(tensors[-1].numpy(), functional.softmax(torch.tensor(data), -1).numpy(), atol=1e-6)


@pytest.mark.parametrize("fast", [True, False])
def test_a_row_of_nothing_but_the_smallest_number_is_shared_evenly(fast: bool) -> None:
    data = np.full((2, 5), np.finfo("float32").min, "float32")
    kernel = row_softmax(data.shape, 4, fast=fast).with_attr("global_symbol", "main")
    tensors: list[Any] = [tvm.runtime.tensor(value) for value in (data, np.zeros_like(data))]

    tvm.compile(tvm.IRModule({"main": kernel}), target=TARGET)(*tensors)

    np.testing.assert_allclose(tensors[-1].numpy(), np.full((2, 5), 0.2), atol=1e-6)
