from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from costhub.models.networks.tree_gru_network import TreeGruNetwork

COLUMNS = 3

trees = st.lists(
    st.lists(st.integers(-1, 8), max_size=9).map(lambda p: [min(v, i - 1) for i, v in enumerate(p)]),
    max_size=5,
)
"""The parents of the rows of some programs; what is -1 is a root."""


def network(seed: int = 0) -> TreeGruNetwork:
    return TreeGruNetwork(COLUMNS, 8, slots=3, generator=torch.Generator().manual_seed(seed)).double()


def programs(parents: list[list[int]], seed: int = 0) -> tuple[Tensor, Tensor]:
    """Rows of programs with these trees, and the counts."""
    counts = torch.tensor([len(p) for p in parents], dtype=torch.int64)
    numbers = torch.randn(
        int(counts.sum()), COLUMNS, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    parent = torch.tensor([v for p in parents for v in p], dtype=torch.float64)
    return torch.cat([numbers, parent[:, None]], dim=1), counts


def plain_score(net: TreeGruNetwork, rows: Tensor) -> Tensor:
    """The same network for one program, node by node, as the docstring has it."""
    parent = rows[:, -1].long().tolist()

    def state(node: int) -> Tensor:
        children = [state(child) for child in range(len(rows)) if parent[child] == node]
        joined = children[0] if children else torch.zeros(1, 8, dtype=torch.float64)
        for child in children[1:]:
            joined = net.sibling(child, joined)
        return net.node(torch.relu(net.embed(rows[node : node + 1, :-1])), joined)

    slots = torch.zeros(3, 8, dtype=torch.float64)
    for node in range(len(rows)):
        h = state(node)[0]
        slots = slots + torch.softmax(net.slot.weight @ h, dim=0)[:, None] * h
    return net.score(slots.flatten())[0]


@given(trees)
def test_all_programs_at_once_score_as_each_does_node_by_node(parents: list[list[int]]) -> None:
    net = network()
    rows, counts = programs(parents)

    with torch.inference_mode():
        expected = [plain_score(net, part) for part in rows.split(counts.tolist())] if len(parents) else []
        found = net(rows, counts)

    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-10)


def test_the_tree_alone_changes_the_score() -> None:
    net = network()
    rows, counts = programs([[-1, 0, 1, 2]])
    scores = set()
    for parents in ([-1, 0, 1, 2], [-1, 0, 0, 0], [-1, 0, 1, 1], [-1, 0, 0, 1]):
        rows[:, -1] = torch.tensor(parents)
        scores.add(round(net(rows, counts).item(), 9))

    assert len(scores) == 4


def test_the_order_of_siblings_counts_and_that_of_programs_does_not() -> None:
    net = network()
    rows, counts = programs([[-1, 0, 0], [-1, 0]])

    found = net(rows, counts)

    torch.testing.assert_close(net(rows[[3, 4, 0, 1, 2]], counts.flip(0)), found.flip(0))
    assert not torch.isclose(net(rows[[0, 2, 1, 3, 4]], counts)[0], found[0])


def test_every_weight_gets_a_gradient() -> None:
    net = network()
    rows, counts = programs([[-1, 0, 0, 1]])

    net(rows, counts).sum().backward()

    assert all(weight.grad is not None and bool(weight.grad.any()) for weight in net.parameters())


def test_programs_without_rows_have_one_score() -> None:
    net = network()
    rows, _ = programs([[-1, 0]])

    found = net(rows, torch.tensor([0, 2, 0]))

    assert found[0] == found[2] != found[1]
    assert net(rows[:0], torch.zeros(0, dtype=torch.int64)).shape == (0,)


def test_without_the_column_of_parents_every_row_is_a_root() -> None:
    net = network()
    rows, counts = programs([[-1, 0], [-1]])
    roots = rows.clone()
    roots[:, -1] = -1.0

    assert torch.equal(net(rows[:, :-1], counts), net(roots, counts))
    assert not torch.equal(net(rows, counts), net(roots, counts))
