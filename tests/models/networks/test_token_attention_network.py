from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from costhub.models.networks.token_attention_network import AttentionLayer, TokenAttentionNetwork, blocks_of

COLUMNS, CATEGORIES, HIDDEN, HEADS = 3, ((0, 4), (-2, 2)), 8, 2


def network(seed: int = 0, layers: int = 2) -> TokenAttentionNetwork:
    generator = torch.Generator().manual_seed(seed)
    return TokenAttentionNetwork(
        COLUMNS, CATEGORIES, HIDDEN, heads=HEADS, layers=layers, generator=generator
    ).double()


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
        found = layer(x, blocks_of(torch.tensor([n])))

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
    blocks = blocks_of(torch.tensor(lengths, dtype=torch.int64))

    programs = [
        rows[kept].tolist() for block in blocks for rows, kept in zip(block.rows, block.is_token, strict=True)
    ]
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
