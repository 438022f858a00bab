"""Provides Statement: one statement of a loop nest with the loops around it, and what its tiles touch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from costhub.dataset.features.loop_nest import LoopNest, Node, Touch


@dataclass(frozen=True)
class Tile:
    """Data that a statement touches while some of its inner loops run."""

    accumulators: int
    """Elements written."""
    contiguous: int
    """Elements read that are contiguous across lanes."""
    broadcast: int
    """Elements read that all lanes share."""
    strided: int
    """Elements read that are not contiguous across lanes."""
    bytes: int
    """Bytes of all buffers."""


@dataclass(frozen=True)
class Statement:
    """A statement (an innermost block) of a program.

    Example:
        >>> from costhub.dataset.features.loop_nest import Buffer
        >>> loop = Node("vectorized", 0, 8, touches={0: Touch(8, 8, 8, 1, writes=True)})
        >>> store = Node("statement", 1, top_down=8, touches={0: Touch(1, 1, 1, writes=True)})
        >>> nest = LoopNest([Node("root", -1), loop, store], [Buffer("C", (8,), 4, "global")])
        >>> statement = Statement(nest, 2)
        >>> statement.chain, statement.write_stride(1), statement.tile(1).bytes
        ([1], 1, 32)
    """

    nest: LoopNest
    place: int
    """Index among the nodes of the nest."""

    @property
    def node(self) -> Node:
        """The statement itself."""
        return self.nest.nodes[self.place]

    @cached_property
    def chain(self) -> list[int]:
        """The loops around it, the innermost first, as indices among the nodes."""
        loops, loop = [], self.node.parent
        while loop > 0:
            loops.append(loop)
            loop = self.nest.nodes[loop].parent
        return loops

    @cached_property
    def written(self) -> int:
        """The buffer that it writes; -1 if none."""
        return next((buffer for buffer, touch in self.node.touches.items() if touch.writes), -1)

    @property
    def work(self) -> int:
        """Operations of all its runs, counting at least one per run."""
        return self.node.top_down * max(1, self.node.operations.total)

    @property
    def scope(self) -> str:
        """Scope of the buffer that it writes."""
        return "" if self.written < 0 else self.nest.buffers[self.written].scope

    @cached_property
    def unroll_steps(self) -> int:
        """The largest unroll pragma around it."""
        return max((self.nest.nodes[loop].unroll_steps for loop in self.chain), default=0)

    def extent(self, loop: int | None) -> int:
        """Iterations of a loop; 1 for None."""
        return 1 if loop is None else self.nest.nodes[loop].extent

    def product(self, kind: str) -> int:
        """Product of the extents of the loops of one kind."""
        return math.prod(self.extent(loop) for loop in self.chain if self.nest.nodes[loop].kind == kind)

    @cached_property
    def lanes(self) -> int:
        """Product of the extents of the vectorised loops."""
        return self.product("vectorized")

    @cached_property
    def lane_loop(self) -> int | None:
        """The loop whose steps run side by side: the vectorised one, else the one over threads, else the innermost."""
        for kind in ("vectorized", "thread"):
            for loop in self.chain:
                if self.nest.nodes[loop].kind == kind:
                    return loop
        return self.chain[0] if self.chain else None

    def touches(self, loop: int | None) -> dict[int, Touch]:
        """What one run of a loop does with the statement's buffers; one run of the statement for None."""
        within = self.node.touches if loop is None else self.nest.nodes[loop].touches
        return {buffer: within[buffer] for buffer in self.node.touches if buffer in within}

    def write_stride(self, loop: int) -> int:
        """Elements that a step of the loop advances in the written buffer."""
        touch = self.nest.nodes[loop].touches.get(self.written)
        return 0 if touch is None else touch.stride

    def read_strides(self, loop: int) -> list[int]:
        """Elements that a step of the loop advances in each of the other buffers."""
        return [touch.stride for buffer, touch in self.touches(loop).items() if buffer != self.written]

    def is_reduced_over(self, loop: int) -> bool:
        """Whether the steps of the loop accumulate into the same elements."""
        return self.node.is_reduction and self.write_stride(loop) == 0

    def loop_runs(self, count: int) -> list[tuple[int, int | None]]:
        """Groups the loops from the inside into runs of spatial loops, reduction loops and so on.

        Returns:
            For each of `count` runs its iterations and its outermost loop; for an empty run, 1 and the
            outermost loop of the run inside it.
        """
        runs: list[tuple[int, int | None]] = []
        place, last = 0, None
        for number in range(count):
            iterations = 1
            while place < len(self.chain) and self.is_reduced_over(self.chain[place]) == bool(number % 2):
                last = self.chain[place]
                iterations *= self.extent(last)
                place += 1
            runs.append((iterations, last))
        return runs

    def unrolled_body(self, unasked: int = 0) -> tuple[int, int | None, int | None]:
        """Unrolls the inner loops, as TVM's `UnrollLoop` does where a pragma asks for it.

        Args:
            unasked: Copies up to which loops are unrolled without a pragma, too, as LLVM does.

        Returns:
            The copies of the statement in the body, the outermost loop inside it, and the first remaining loop.
        """
        copies, inside = 1, None
        for loop in self.chain:
            node = self.nest.nodes[loop]
            if node.kind not in ("vectorized", "unrolled") and copies * node.extent > max(unasked, self.unroll_steps):
                return copies, inside, loop
            copies *= 1 if node.kind == "vectorized" else node.extent
            inside = loop
        return copies, inside, None

    def side_by_side(self, loop: int | None) -> tuple[int, list[int]]:
        """Contiguous elements among those that one run of a loop writes, and reads of each buffer."""
        runs = {buffer: touch.run for buffer, touch in self.touches(loop).items()}
        written = runs.pop(self.written, 0)
        return written, list(runs.values())

    def tile(self, loop: int | None) -> Tile:
        """Data that one run of a loop touches."""
        counts = {buffer: touch.elements for buffer, touch in self.touches(loop).items()}
        reads = {"contiguous": 0, "broadcast": 0, "strided": 0}
        for buffer, elements in counts.items():
            if buffer != self.written:
                reads[self._kind_of_read(buffer)] += elements
        return Tile(
            accumulators=counts.get(self.written, 0),
            bytes=self._bytes(loop),
            **reads,
        )

    def _bytes(self, loop: int | None) -> int:
        """Bytes of all buffers that one run of a loop touches."""
        touched = self.touches(loop).items()
        return sum(self.nest.buffers[buffer].element_bytes * touch.elements for buffer, touch in touched)

    def _kind_of_read(self, buffer: int) -> str:
        lanes = {} if self.lane_loop is None else self.nest.nodes[self.lane_loop].touches
        stride = lanes[buffer].stride if buffer in lanes else 0
        return "broadcast" if stride == 0 else "contiguous" if stride == 1 else "strided"

    def traffic(self, powers: Sequence[int]) -> list[int]:
        """Bytes fetched from beyond a cache of each size that holds the largest tile that fits.

        Args:
            powers: The sizes as powers of two, in bytes, ascending.
        """
        levels = [(self._bytes(loop), runs) for loop, runs in self._levels()]
        fetched, level = [], 0
        for power in powers:
            while level + 1 < len(levels) and levels[level + 1][0] <= 1 << power:
                level += 1
            fetched.append(levels[level][0] * levels[level][1])
        return fetched

    def _levels(self) -> list[tuple[int | None, int]]:
        """The statement and the loops around it, with the number of runs of each."""
        return [(None, self.node.top_down), *((loop, self.nest.nodes[loop].top_down) for loop in self.chain)]

    def bytes_read(self, scope: str) -> int:
        """Bytes that it reads from buffers of a scope."""
        whole = self.touches(self.chain[-1] if self.chain else None)
        return sum(
            self.nest.buffers[buffer].element_bytes * touch.elements
            for buffer, touch in whole.items()
            if buffer != self.written and self.nest.buffers[buffer].scope == scope
        )


def statements(nest: LoopNest) -> list[Statement]:
    """The statements of a program in the order of its text."""
    return [Statement(nest, place) for place, node in enumerate(nest.nodes) if node.kind == "statement"]


def by_work(found: Sequence[Statement]) -> list[tuple[Statement, float]]:
    """The statements with the most work first, each with its share of the work of all."""
    total = sum(statement.work for statement in found)
    return [(each, each.work / total) for each in sorted(found, key=lambda statement: -statement.work)]
