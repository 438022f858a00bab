from __future__ import annotations

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from costhub.models.networks.forest import Forest

numbers = st.integers(-2, 12).map(float) | st.sampled_from([math.nan, math.inf, -math.inf, 1e30, 0.5])
forests = st.lists(st.lists(numbers, max_size=12), max_size=6)


def parent_of(program: list[float], row: int) -> int | None:
    return int(program[row]) if 0 <= program[row] < row else None


def ancestors(program: list[float], row: int) -> list[int]:
    parent = parent_of(program, row)
    return [] if parent is None else [parent, *ancestors(program, parent)]


@given(forests)
def test_every_node_is_on_its_level_after_its_parent_and_beside_its_equals(trees: list[list[float]]) -> None:
    counts = torch.tensor([len(tree) for tree in trees], dtype=torch.int64)
    forest = Forest.of(torch.tensor([number for tree in trees for number in tree]), counts)
    nodes = [(program, row) for program, tree in enumerate(trees) for row in range(len(tree))]
    order = [nodes[i] for i in forest.order.tolist()]

    assert sorted(order) == nodes
    assert forest.program.tolist() == [program for program, _ in order]
    assert [0, *(level.last for level in forest.levels)] == [
        *(level.first for level in forest.levels),
        len(nodes),
    ]
    for depth, level in enumerate(forest.levels):
        own = order[level.first : level.last]
        assert all(len(ancestors(trees[program], row)) == depth for program, row in own)
        below = order[level.last :]
        children: dict[tuple[int, int], list[tuple[int, int]]] = {node: [] for node in own}
        for siblings in level.children:
            pairs = zip(siblings.parents.tolist(), below[siblings.first : siblings.last], strict=True)
            for parent, child in pairs:
                children[own[parent]].append(child)
        for (program, row), found in children.items():
            own_children = [i for i in range(len(trees[program])) if parent_of(trees[program], i) == row]
            assert found == [(program, i) for i in own_children]


@given(forests)
def test_the_order_within_a_program_does_not_depend_on_the_others(trees: list[list[float]]) -> None:
    counts = torch.tensor([len(tree) for tree in trees], dtype=torch.int64)
    forest = Forest.of(torch.tensor([number for tree in trees for number in tree]), counts)

    start = 0
    for program, tree in enumerate(trees):
        alone = Forest.of(torch.tensor(tree), torch.tensor([len(tree)]))
        assert (forest.order[forest.program == program] - start).tolist() == alone.order.tolist()
        start += len(tree)


def test_a_long_chain_has_a_level_per_node() -> None:
    forest = Forest.of(torch.arange(1000.0) - 1, torch.tensor([1000]))

    assert forest.order.tolist() == list(range(1000))
    assert len(forest.levels) == 1000
