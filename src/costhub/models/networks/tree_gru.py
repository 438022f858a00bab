"""Provides TreeGru: the context-encoded TreeGRU, which reads the tree of a program leaves first, as a cost model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from costhub.dataset.features.loop_context import LOOP_CONTEXT, PARENT
from costhub.models.networks.network_options import TreeGruOptions
from costhub.models.networks.neural import NeuralModel
from costhub.models.networks.weights import draw_weights


@dataclass(frozen=True)
class Siblings:
    """The children in one place (first, second, ...) below the parents of one level."""

    first: int
    last: int
    """Their rows are [first, last) of the level below."""
    parents: Tensor
    """(last - first,) row of each child's parent within the parent's level."""


@dataclass(frozen=True)
class Level:
    """All nodes of one depth, of all programs."""

    first: int
    last: int
    """Their rows are [first, last) in the order of `Forest.order`."""
    children: tuple[Siblings, ...]
    """First children, second children, ..., as long as a parent has any."""


@dataclass(frozen=True)
class Forest:
    """The trees of all programs, level by level.

    Nodes are ordered by depth, then by their place among their siblings, then by row; those of one depth and
    place are adjacent, so a network takes all of them in one step.

    Example:
        >>> forest = Forest.of(torch.tensor([-1.0, 0.0, 0.0, 1.0, -1.0]), torch.tensor([4, 1]))
        >>> forest.order.tolist(), [(level.first, level.last) for level in forest.levels]
        ([0, 4, 1, 2, 3], [(0, 2), (2, 4), (4, 5)])
        >>> [siblings.parents.tolist() for siblings in forest.levels[0].children]
        [[0], [0]]
    """

    order: Tensor
    """(r,) row of each node."""
    program: Tensor
    """(r,) program of each node, in the same order."""
    levels: tuple[Level, ...]
    """The roots first."""

    @classmethod
    def of(cls, parent: Tensor, counts: Tensor) -> Forest:
        """Finds the levels, without a loop over programs or nodes.

        Args:
            parent: (r,) row number of each row's parent within its program. A row whose parent is not an
                earlier row is a root, so any numbers make a forest.
            counts: (n,) rows of each program.
        """
        program, above = _rows_above(parent, counts)
        rows = len(above)
        depth, place = _depths(above), _places(above)
        width = int(place.max()) + 1 if rows else 1
        order = torch.argsort(depth * width + place, stable=True)
        runs, sizes = torch.unique_consecutive((depth * width + place)[order], return_counts=True)
        at = torch.empty_like(order)
        at[order] = torch.arange(rows, device=order.device)
        parents = torch.cat([at, at.new_zeros(1)])[above][order]
        return cls(order, program[order], _levels(runs.tolist(), sizes.tolist(), width, parents))


def _rows_above(parent: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """(r,) program of each row, and (r,) row of its parent among all rows; r for a root."""
    program = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
    start = (torch.cumsum(counts, 0) - counts)[program]
    rows = torch.arange(len(parent), device=parent.device)
    # Compared as floats: a value that is not an integer, such as NaN, is not a parent either.
    has_parent = (parent >= 0) & (parent < (rows - start).to(parent.dtype))
    return program, torch.where(has_parent, parent.where(has_parent, 0).long() + start, len(rows))


def _depths(above: Tensor) -> Tensor:
    """(r,) number of ancestors; the steps of each pass are twice as long as those of the previous pass."""
    none = above.new_full((1,), len(above))
    depth = torch.cat([(above < none).long(), above.new_zeros(1)])
    above = torch.cat([above, none])
    while bool((above < none).any()):
        depth = depth + depth[above]
        above = above[above]
    return depth[:-1]


def _places(above: Tensor) -> Tensor:
    """(r,) how many siblings come before each row; 0 for a root."""
    by_parent = torch.argsort(above, stable=True)
    parents = above[by_parent]
    place = torch.empty_like(above)
    place[by_parent] = torch.arange(len(above), device=above.device) - torch.searchsorted(parents, parents)
    return place.where(above < len(above), 0)


def _levels(runs: list[int], sizes: list[int], width: int, parents: Tensor) -> tuple[Level, ...]:
    """Combines the runs of each depth; a run is the nodes of one depth and place, at depth run // width."""
    by_depth: dict[int, list[tuple[int, int]]] = {}
    last = 0
    for run, size in zip(runs, sizes, strict=True):
        by_depth.setdefault(run // width, []).append((last, last + size))
        last += size
    levels = []
    for depth, own in by_depth.items():
        first, end = own[0][0], own[-1][1]
        below = by_depth.get(depth + 1, [])
        children = tuple(Siblings(a - end, b - end, parents[a:b] - first) for a, b in below)
        levels.append(Level(first, end, children))
    return tuple(levels)


class TreeGruNetwork(nn.Module):
    """The context-encoded TreeGRU of *Learning to Optimize Tensor Programs*, section 4 and figure 3d.

    A node's context vector is embedded. Its state is a GRU step with the embedding as input, from the state
    of its children; several children are combined by a second GRU that starts from the first child and
    reads the others in the order of the text. A chain of loops is thus read by a plain GRU from the inside out.
    The state h of every node is scattered over the memory slots, out_i = softmax(W^T h)_i h, these vectors
    are summed over all nodes, and a linear layer maps the sums to a score.

    The paper leaves open how many slots there are, how children are combined, and what embeds a context.

    Args:
        columns: Scaled columns of a row.
        hidden: Width of the embedding and of the states; 128 in the paper.
        slots: Memory slots m.
        generator: Draws the initial weights; None leaves them unset, for weights that are read from a file.
    """

    def __init__(self, columns: int, hidden: int, *, slots: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        with torch.device("meta"):
            self.embed = nn.Linear(columns, hidden)
            self.node = nn.GRUCell(hidden, hidden)
            self.sibling = nn.GRUCell(hidden, hidden)
            self.slot = nn.Linear(hidden, slots, bias=False)
            self.score = nn.Linear(slots * hidden, 1)
        if generator is not None:
            draw_weights(self, generator)

    def forward(self, rows: Tensor, counts: Tensor) -> Tensor:
        """Scores programs.

        Args:
            rows: (r, columns + 1) rows, programs in order: the scaled columns, then the row number of the
                parent within the program, unscaled (see `Forest.of`). Without that last column, every row is a
                root.
            counts: (n,) number of rows of each program.

        Returns:
            (n,) scores.
        """
        columns = self.embed.in_features
        parent = rows[:, columns] if rows.shape[1] > columns else rows.new_full((len(rows),), -1.0)
        forest = Forest.of(parent, counts)
        states = self._states(functional.relu(self.embed(rows[:, :columns]))[forest.order], forest)
        chance = torch.softmax(self.slot(states), dim=1)
        empty = states.new_zeros(len(counts), states.shape[1])
        # Slot by slot: all (r, slots * hidden) scattered vectors at once would take most of the memory.
        pooled = [empty.index_add(0, forest.program, part * states) for part in chance.chunk(chance.shape[1], dim=1)]
        scores: Tensor = self.score(torch.cat(pooled, dim=1)).squeeze(-1)
        return scores

    def _states(self, embedded: Tensor, forest: Forest) -> Tensor:
        """(r, hidden) states of the nodes, from the leaves up; both in the order of the forest."""
        states = [embedded[:0]]
        for level in reversed(forest.levels):
            below, state = states[-1], embedded.new_zeros(level.last - level.first, embedded.shape[1])
            for place, siblings in enumerate(level.children):
                child = below[siblings.first : siblings.last]
                if place:
                    child = self.sibling(child, state[siblings.parents])
                state = state.index_copy(0, siblings.parents, child)
            states.append(self.node(embedded[level.first : level.last], state))
        return torch.cat(states[::-1])


class TreeGru(NeuralModel[TreeGruOptions]):
    """Loops and statements are encoded along the tree of a program, see `TreeGruNetwork`.

    The tree is that of `loop_context@1`. Rows of any other feature spec are nodes without a tree, each
    encoded by itself.

    Example:
        >>> TreeGru(feature_spec="loop_context@1", options=TreeGruOptions(hidden=64)).raw
        (0,)
    """

    arch = "treegru"
    default_spec = LOOP_CONTEXT
    options_type = TreeGruOptions
    update_rows = 10_000

    @property
    def raw(self) -> tuple[int, ...]:
        """The column of the parents' numbers, if there is one."""
        return (PARENT,) if self.feature_spec == LOOP_CONTEXT else ()

    def build(self, inputs: Sequence[int], generator: torch.Generator | None) -> TreeGruNetwork:
        """A network with the current options."""
        return TreeGruNetwork(inputs[0], self.options.hidden, slots=self.options.slots, generator=generator)
