from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from costhub.dataset.features.trace_tokens import COLUMN_NAMES, TRACE_TOKENS
from costhub.dataset.programs import Programs
from costhub.errors import ModelError
from costhub.models.evaluate import evaluate
from costhub.models.networks.mlp import Mlp
from costhub.models.networks.network_options import MlpOptions
from costhub.papers.tlp import (
    AttentionLayer,
    TokenAttention,
    TokenAttentionNetwork,
    TokenAttentionOptions,
    padded_blocks,
)
from costhub.testing import check_cost_model

COLUMNS, CATEGORIES, HIDDEN, HEADS = 3, ((0, 4), (-2, 2)), 8, 2


def network(seed: int = 0, layers: int = 2) -> TokenAttentionNetwork:
    generator = torch.Generator().manual_seed(seed)
    return TokenAttentionNetwork(COLUMNS, CATEGORIES, HIDDEN, heads=HEADS, layers=layers, generator=generator).double()


def tokens(n: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randn(n, COLUMNS, generator=generator, dtype=torch.float64)
    categories = torch.randint(-3, 6, (n, len(CATEGORIES)), generator=generator)
    return torch.cat([numbers, categories.double()], dim=1)


def plain_layer(layer: AttentionLayer, x: Tensor) -> Tensor:
    """The same layer for the tokens of one program, head by head, as the papers have it."""
    query, key, value = layer.project(layer.norm_1(x)).chunk(3, dim=1)
    width = HIDDEN // HEADS
    heads = []
    for i in range(HEADS):
        q, k, v = (part[:, i * width : (i + 1) * width] for part in (query, key, value))
        heads.append(torch.softmax(q @ k.T / math.sqrt(width), dim=1) @ v)
    x = x + layer.joined(torch.cat(heads, dim=1))
    return x + layer.narrow(torch.relu(layer.widen(layer.norm_2(x))))


@given(st.integers(1, 40), st.integers(0, 99))
def test_a_layer_is_that_of_the_papers(n: int, seed: int) -> None:
    layer = network(seed).layers[0]
    x = torch.randn(n, HIDDEN, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    assert isinstance(layer, AttentionLayer)

    with torch.inference_mode():
        found = layer(x, padded_blocks(torch.tensor([n])))

        torch.testing.assert_close(found, plain_layer(layer, x), rtol=1e-9, atol=1e-9)


@given(st.lists(st.integers(0, 40), max_size=8))
def test_neither_padding_nor_the_other_programs_change_a_score(lengths: list[int]) -> None:
    net, counts = network(), torch.tensor(lengths, dtype=torch.int64)
    rows = tokens(sum(lengths))

    with torch.inference_mode():
        together = net(rows, counts)
        alone = [net(part, torch.tensor([len(part)])) for part in (rows.split(lengths) if lengths else [])]

    torch.testing.assert_close(together, torch.cat([rows[:0, 0], *alone]), rtol=1e-11, atol=1e-11)


@given(st.lists(st.integers(0, 40), max_size=8))
def test_each_token_is_in_one_rectangle_at_its_place(lengths: list[int]) -> None:
    blocks = padded_blocks(torch.tensor(lengths, dtype=torch.int64))

    programs = [rows[kept].tolist() for block in blocks for rows, kept in zip(block.rows, block.is_token, strict=True)]
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    wanted = [list(range(s, s + n)) for s, n in zip(starts, lengths, strict=True) if n]
    assert sorted(programs) == wanted


def test_the_order_of_tokens_counts_and_that_of_programs_does_not() -> None:
    net, rows = network(), tokens(5)
    counts = torch.tensor([3, 2])

    found = net(rows, counts)

    torch.testing.assert_close(net(rows[[3, 4, 0, 1, 2]], counts.flip(0)), found.flip(0))
    assert not torch.isclose(net(rows[[1, 0, 2, 3, 4]], counts)[0], found[0])


@pytest.mark.parametrize(("number", "same_as"), [(5.0, 4.0), (1e30, 4.0), (-1.0, 0.0), (2.5, 2.0)])
def test_a_category_beyond_those_known_is_the_nearest(number: float, same_as: float) -> None:
    net, rows = network(), tokens(3)
    one, other = rows.clone(), rows.clone()
    one[1, COLUMNS], other[1, COLUMNS] = number, same_as

    assert net(one, torch.tensor([3])) == net(other, torch.tensor([3]))
    other[1, COLUMNS] = 1.0
    assert net(one, torch.tensor([3])) != net(other, torch.tensor([3]))


def test_every_layer_gets_a_gradient() -> None:
    net = network()

    net(tokens(30), torch.tensor([18, 0, 12])).sum().backward()

    assert all(weight.grad is not None and bool(weight.grad.any()) for weight in net.parameters())


def test_programs_without_rows_have_one_score() -> None:
    net, rows = network(), tokens(2)

    found = net(rows, torch.tensor([0, 2, 0]))

    assert found[0] == found[2] != found[1]
    assert net(rows[:0], torch.tensor([0])).tolist() == [found[0].item()]
    assert net(rows[:0], torch.zeros(0, dtype=torch.int64)).shape == (0,)


SMALL = TokenAttentionOptions(hidden=16, heads=2, bins=0, epochs=30, batch=32, chunk=16, learning_rate=5e-3)
KIND, FACTOR = COLUMN_NAMES.index("kind"), COLUMN_NAMES.index("factor0")
LENGTH = 5


def sequences(workloads: int, each: int, *, seed: int) -> Programs:
    """Programs of the instructions 1, 2, 3, 3, 3 in any order; those with 1 before 2 are slow."""
    rng = np.random.default_rng(seed)
    n = workloads * each
    kinds = rng.permuted(np.tile([1.0, 2.0, 3.0, 3.0, 3.0], (n, 1)), axis=1)
    rows = np.zeros((n, LENGTH, len(COLUMN_NAMES)), np.float32)
    rows[:, :, KIND] = kinds
    slow = np.argmax(kinds == 1.0, axis=1) < np.argmax(kinds == 2.0, axis=1)
    latency_s = 1e-3 * np.exp(1.0 * slow + 0.01 * rng.normal(size=n))
    workload = np.repeat(np.arange(workloads), each)
    ids = tuple(f"{seed}-{i}" for i in range(workloads))
    return Programs(rows.reshape(LENGTH * n, -1), np.full(n, LENGTH), workload, ids, latency_s)


@pytest.fixture(scope="module")
def model() -> TokenAttention:
    model = TokenAttention(feature_spec=TRACE_TOKENS, options=SMALL)
    model.fit(sequences(6, 40, seed=0), None, seed=0, progress=False)
    return model


def test_what_only_the_order_of_tokens_shows_is_learned(model: TokenAttention) -> None:
    rows_only = Mlp(
        feature_spec=TRACE_TOKENS,
        options=MlpOptions(hidden=16, epochs=30, batch=32, chunk=16, learning_rate=5e-3),
    )
    rows_only.fit(sequences(6, 40, seed=0), None, seed=0, progress=False)
    unseen = sequences(3, 40, seed=1)

    # Programs of one kind differ by 1 % at random, and count as equal.
    assert evaluate(model, unseen, noise_floor=0.2).pairwise > 0.95
    assert evaluate(rows_only, unseen, noise_floor=0.2).pairwise < 0.6


def test_neither_other_programs_nor_their_lengths_change_a_score(model: TokenAttention) -> None:
    programs = sequences(1, 30, seed=2)
    found = model.predict(programs.rows, programs.counts)
    lengths = np.array([1, 40, 0, 9, 100])
    rows = programs.rows[: lengths.sum()]

    together = model.predict(np.concatenate([rows, programs.rows]), np.concatenate([lengths, programs.counts]))

    np.testing.assert_allclose(together[len(lengths) :], found, rtol=1e-11)


def test_weights_come_back_as_they_were(model: TokenAttention, tmp_path: Path) -> None:
    programs, loaded = sequences(1, 30, seed=2), TokenAttention(feature_spec=TRACE_TOKENS)
    model.save_weights(tmp_path)

    loaded.load_weights(tmp_path, model.config())

    found = loaded.predict(programs.rows, programs.counts)
    np.testing.assert_array_equal(found, model.predict(programs.rows, programs.counts))


def test_equal_seeds_give_equal_models() -> None:
    options = TokenAttentionOptions(hidden=8, heads=2, layers=2, bins=0, epochs=2)
    programs = sequences(2, 20, seed=0)
    found = []
    for seed in (0, 0, 1):
        model = TokenAttention(feature_spec=TRACE_TOKENS, options=options)
        model.fit(programs, None, seed=seed, progress=False)
        found.append(model.predict(programs.rows, programs.counts))

    np.testing.assert_array_equal(found[0], found[1])
    assert not np.allclose(found[0], found[2])


def test_the_factors_of_a_tile_count(model: TokenAttention) -> None:
    programs = sequences(4, 40, seed=4)
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 8, programs.n)
    programs.rows[2::LENGTH, FACTOR] = factors
    by_factor = Programs(programs.rows, programs.counts, programs.workload, programs.workload_ids, 1e-3 * 2.0**factors)
    learned = TokenAttention(feature_spec=TRACE_TOKENS, options=SMALL)

    learned.fit(by_factor, None, seed=0, progress=False)

    assert evaluate(learned, by_factor).pairwise > 0.95


def test_rows_of_other_specs_are_tokens_of_quantities(train: Programs, unseen: Programs) -> None:
    model = TokenAttention(feature_spec="demo@1", options=SMALL)
    model.fit(train, None, seed=0, progress=False)

    assert model.raw == ()
    assert evaluate(model, unseen).pairwise > 0.8


def test_options_that_make_no_network_are_refused() -> None:
    with pytest.raises(ValueError, match="heads must be between 1 and 64"):
        TokenAttentionOptions(heads=0)
    with pytest.raises(ValueError, match=r"multiple of 2 \* heads = 8, got 20"):
        TokenAttentionOptions(hidden=20)


@pytest.mark.slow
def test_it_is_a_good_cost_model_of_the_rows_it_is_made_for() -> None:
    check_cost_model(lambda: TokenAttention(feature_spec=TRACE_TOKENS, options=SMALL))


def test_rows_that_lack_columns_of_the_spec_are_refused() -> None:
    whole = sequences(2, 8, seed=0)
    narrow = replace(whole, rows=whole.rows[:, : COLUMN_NAMES.index("choice")])
    with pytest.raises(ModelError, match="needs all columns of trace_tokens@1"):
        TokenAttention(feature_spec=TRACE_TOKENS, options=SMALL).fit(narrow, None, seed=0, progress=False)
