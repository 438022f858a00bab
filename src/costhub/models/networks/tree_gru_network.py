"""Provides TreeGruNetwork: loops and statements encoded along the tree of a program, leaves first."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from costhub.models.networks.forest import Forest
from costhub.models.networks.initial_weights import draw_weights


class TreeGruNetwork(nn.Module):
    """The context-encoded TreeGRU of *Learning to Optimize Tensor Programs*, section 4 and figure 3d.

    A node's context vector is embedded. Its state is a GRU's step with the embedding as input, from the state
    of its children; several children are put together by a second GRU that starts from the first child and
    reads the others in the order of the text. So a chain of loops is read by a plain GRU from the inside out.
    The state h of every node is scattered over the memory slots, out_i = softmax(W^T h)_i h, these vectors
    are summed over all nodes, and a linear layer maps the sums to a score.

    The paper leaves open how many slots there are, how children are put together, and what embeds a context.

    Args:
        columns: Scaled columns of a row.
        hidden: Width of the embedding and of the states; 128 in the paper.
        slots: Memory slots m.
        generator: Draws the initial weights; None leaves them unset, for weights that are read from a file.
    """

    def __init__(
        self, columns: int, hidden: int, *, slots: int, generator: torch.Generator | None = None
    ) -> None:
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
                parent within the program as it is (see `Forest.of`). Without that last column, every row is a
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
        # Slot by slot: all (r, slots * hidden) scattered vectors at once would be most of the memory.
        pooled = [
            empty.index_add(0, forest.program, part * states) for part in chance.chunk(chance.shape[1], dim=1)
        ]
        scores: Tensor = self.score(torch.cat(pooled, dim=1)).squeeze(-1)
        return scores

    def _states(self, embedded: Tensor, forest: Forest) -> Tensor:
        """(r, hidden) states of the nodes, from the leaves up; both in the order of the forest."""
        found = [embedded[:0]]
        for level in reversed(forest.levels):
            below, state = found[-1], embedded.new_zeros(level.last - level.first, embedded.shape[1])
            for place, siblings in enumerate(level.children):
                child = below[siblings.first : siblings.last]
                if place:
                    child = self.sibling(child, state[siblings.parents])
                state = state.index_copy(0, siblings.parents, child)
            found.append(self.node(embedded[level.first : level.last], state))
        return torch.cat(found[::-1])
