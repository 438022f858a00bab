"""Provides Forest: the trees of many programs in the order in which a network can walk them all at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Siblings:
    """The children that hold one place, first, second, ..., below the parents of one level."""

    first: int
    last: int
    """Their rows are [first, last) of the level below."""
    parents: Tensor
    """(last - first,) row of the parent of each within its own level."""


@dataclass(frozen=True)
class Level:
    """All nodes of one depth, of all programs."""

    first: int
    last: int
    """Their rows are [first, last) in the order of `Forest.order`."""
    children: tuple[Siblings, ...]
    """First children, second children, ..., as far as a parent has any."""


@dataclass(frozen=True)
class Forest:
    """The trees of all programs, level by level.

    Nodes are ordered by depth, then by their place among their siblings, then as the rows come; those of one
    depth and place lie together, so a network takes all of them in one step.

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
            parent: (r,) row number of each row's parent within its program. A row whose parent is not a row
                before it is a root, so any numbers make a forest.
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
    # Compared as floats: what a float can be and an integer cannot, such as NaN, is no parent either.
    has_parent = (parent >= 0) & (parent < (rows - start).to(parent.dtype))
    return program, torch.where(has_parent, parent.where(has_parent, 0).long() + start, len(rows))


def _depths(above: Tensor) -> Tensor:
    """(r,) number of ancestors; the steps of each pass are twice as long as those of the pass before."""
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
    """Puts together the runs of each depth; a run is the nodes of one depth and place, run // width deep."""
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
