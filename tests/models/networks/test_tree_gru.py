from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from costhub.dataset.features.loop_context import COLUMN_NAMES, LOOP_CONTEXT, PARENT
from costhub.dataset.programs import Programs
from costhub.models.evaluate import evaluate
from costhub.models.networks.mlp import Mlp
from costhub.models.networks.network_options import MlpOptions, TreeGruOptions
from costhub.models.networks.tree_gru import Forest, TreeGru, TreeGruNetwork
from costhub.testing import check_cost_model

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


SMALL = TreeGruOptions(hidden=16, slots=2, bins=0, epochs=30, batch=32, chunk=16, learning_rate=5e-3)
EXTENT, REDUCTION = COLUMN_NAMES.index("extent"), COLUMN_NAMES.index("is_reduction")


def nested(workloads: int, each: int, *, seed: int) -> Programs:
    """Programs of a root, a short loop, a long loop, and a reduction in one of the two; the long one is slow.

    The short and the long loop come in either order, so that the rows of a program without the tree are those
    of any other.
    """
    rng = np.random.default_rng(seed)
    n = workloads * each
    rows = np.zeros((n, 4, len(COLUMN_NAMES)), np.float32)
    rows[:, :, PARENT] = -1.0, 0.0, 0.0, 0.0
    rows[:, 3, PARENT] = rng.integers(1, 3, n)
    long_first = rng.integers(0, 2, n)
    rows[:, 1, EXTENT], rows[:, 2, EXTENT] = 2.0 + 6.0 * long_first, 8.0 - 6.0 * long_first
    rows[:, 3, REDUCTION] = 1.0
    in_long = (rows[:, 3, PARENT] == 1.0) == (long_first == 1)
    latency_s = 1e-3 * np.exp(1.0 * in_long + 0.01 * rng.normal(size=n))
    workload = np.repeat(np.arange(workloads), each)
    ids = tuple(f"{seed}-{i}" for i in range(workloads))
    return Programs(rows.reshape(4 * n, -1), np.full(n, 4), workload, ids, latency_s)


@pytest.fixture(scope="module")
def model() -> TreeGru:
    model = TreeGru(feature_spec=LOOP_CONTEXT, options=SMALL)
    model.fit(nested(6, 40, seed=0), None, seed=0, progress=False)
    return model


def test_what_only_the_tree_shows_is_learned(model: TreeGru) -> None:
    rows_only = Mlp(
        feature_spec=LOOP_CONTEXT,
        options=MlpOptions(hidden=16, epochs=30, batch=32, chunk=16, learning_rate=5e-3),
    )
    rows_only.fit(nested(6, 40, seed=0), None, seed=0, progress=False)
    unseen = nested(3, 40, seed=1)

    # Programs of one kind differ by 1 % at random, and count as equal.
    assert evaluate(model, unseen, noise_floor=0.2).pairwise > 0.99
    assert evaluate(rows_only, unseen, noise_floor=0.2).pairwise < 0.6


def test_scores_do_not_depend_on_the_order_of_the_programs_or_their_number(model: TreeGru) -> None:
    programs = nested(1, 30, seed=2)
    order = np.random.default_rng(0).permutation(programs.n)
    found = model.predict(programs.rows, programs.counts)

    shuffled, first = programs.select(order), programs.select(np.arange(7))

    np.testing.assert_allclose(model.predict(shuffled.rows, shuffled.counts), found[order], rtol=1e-11)
    np.testing.assert_allclose(model.predict(first.rows, first.counts), found[:7], rtol=1e-11)


def test_weights_come_back_as_they_were(model: TreeGru, tmp_path: Path) -> None:
    programs, loaded = nested(1, 30, seed=2), TreeGru(feature_spec=LOOP_CONTEXT)
    model.save_weights(tmp_path)

    loaded.load_weights(tmp_path, model.config())

    found = loaded.predict(programs.rows, programs.counts)
    np.testing.assert_array_equal(found, model.predict(programs.rows, programs.counts))


def test_equal_seeds_give_equal_models() -> None:
    options = TreeGruOptions(hidden=8, slots=2, bins=0, epochs=2)
    programs = nested(2, 20, seed=0)
    found = []
    for seed in (0, 0, 1):
        model = TreeGru(feature_spec=LOOP_CONTEXT, options=options)
        model.fit(programs, None, seed=seed, progress=False)
        found.append(model.predict(programs.rows, programs.counts))

    np.testing.assert_array_equal(found[0], found[1])
    assert not np.allclose(found[0], found[2])


def test_rows_of_other_specs_are_nodes_without_a_tree(train: Programs, unseen: Programs) -> None:
    model = TreeGru(feature_spec="demo@1", options=SMALL)
    model.fit(train, None, seed=0, progress=False)

    assert model.raw == ()
    assert evaluate(model, unseen).pairwise > 0.8


@pytest.mark.parametrize("option", ["hidden", "slots"])
def test_options_out_of_range_are_refused(option: str) -> None:
    with pytest.raises(ValueError, match=f"{option} must be between 1 and"):
        TreeGruOptions(**{option: 0})


@pytest.mark.slow
def test_it_is_a_good_cost_model_of_the_rows_it_is_made_for() -> None:
    check_cost_model(lambda: TreeGru(feature_spec=LOOP_CONTEXT, options=SMALL))
