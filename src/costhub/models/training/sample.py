"""Provides sample_programs: some programs of all blocks, for what is fitted before training begins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from costhub.dataset.program_blocks import ProgramBlocks
from costhub.dataset.programs import Programs
from costhub.errors import DataError


def sample_programs(blocks: Sequence[Programs], *, most: int, seed: int) -> Programs:
    """Draws programs of all blocks with equal chances, and reads each block once for it.

    Args:
        blocks: The blocks.
        most: How many to draw; all where there are no more.
        seed: Chooses them.

    Returns:
        The programs, in the order of the blocks.

    Raises:
        DataError: There are no blocks.

    Example:
        >>> block = Programs.from_list([np.ones((1, 2))] * 8, np.zeros(8), ("a",), np.arange(1.0, 9.0))
        >>> sample_programs([block, block], most=10, seed=0).n
        10
    """
    if not len(blocks):
        raise DataError("There are no programs to learn from; measure some, or name other workloads.")
    ends = np.cumsum(block_sizes(blocks))
    chosen = np.random.default_rng(seed).permutation(int(ends[-1]))[:most]
    chosen.sort()
    starts, parts = np.searchsorted(chosen, np.concatenate([[0], ends])), []
    for number in range(len(blocks)):
        first = 0 if number == 0 else int(ends[number - 1])
        parts.append(blocks[number].select(chosen[starts[number] : starts[number + 1]] - first))
    return Programs.join(parts)


def block_sizes(blocks: Sequence[Programs]) -> tuple[int, ...]:
    """Programs of each block; those of a data folder need not be read for it."""
    return blocks.sizes if isinstance(blocks, ProgramBlocks) else tuple(block.n for block in blocks)
