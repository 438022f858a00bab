"""Steps of tiled GPU programs, as Ansor writes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import Any

MATMUL = '["matmul_layer", 64, 32, 128]'


@dataclass(frozen=True)
class Tiles:
    """What a sketch leaves open."""

    spatial: Sequence[Sequence[int]] = ((2, 2, 4, 2, 2), (4, 1, 8, 2, 2))
    reduction: Sequence[Sequence[int]] = ((4, 4, 2),)
    vectors: Sequence[int] = (2, 4)
    """In the order in which the computation reads its buffers."""
    unroll: int = 64
    sources: Sequence[int] = (0, 1)
    """The stages of these buffers, before the sketch adds any."""
    computes: int = 2
    """The stage of the computation."""
    padding: bool = False

    def steps(self) -> list[list[Any]]:
        """The transform steps."""
        return [*self._tiled(), *self._shared(), *self._bound(), *self._fetched(), self._pragma()]

    def _tiled(self) -> list[list[Any]]:
        stage, axes, inner = self.computes, len(self.spatial), len(self.reduction)
        steps: list[list[Any]] = [["CHW", stage, "local"]]
        at = 0
        for factors in (*self.spatial, *self.reduction):
            steps.append(["SP", stage, at, prod(factors), list(factors[1:]), 1])
            at += len(factors)
        spatial = [[5 * axis + level for axis in range(axes)] for level in range(5)]
        reduction = [[5 * axes + 3 * axis + level for axis in range(inner)] for level in range(3)]
        order = [spatial[0], spatial[1], spatial[2], reduction[0], reduction[1], spatial[3], reduction[2], spatial[4]]
        steps.append(["RE", stage, list(chain.from_iterable(order))])
        steps += [["FSP", stage + 1, 4 * axis, axis + 1, 3] for axis in range(axes)]
        steps.append(["RE", stage + 1, [4 * axis + level for level in range(4) for axis in range(axes)]])
        return [*steps, ["CA", stage, stage + 1, 3 * axes - 1]]

    def _shared(self) -> list[list[Any]]:
        at, steps = 3 * len(self.spatial) + len(self.reduction) - 1, []
        for number, source in enumerate(sorted(self.sources, reverse=True)):
            consumer = self.computes + number
            steps += [["CHR", source, "shared", [consumer]], ["CA", source + 1, consumer + 1, at]]
        return [*steps, *([["CI", 1]] if self.padding else [])]

    def _bound(self) -> list[list[Any]]:
        stage, axes, steps = self.computes + 1 + len(self.sources), len(self.spatial), []
        for number, annotation in enumerate((5, 4, 6)):
            if axes > 1:
                steps.append(["FU", stage, list(range(number, number + axes))])
            steps.append(["AN", stage, number, annotation])
        return steps

    def _fetched(self) -> list[list[Any]]:
        steps, sources = [], sorted(self.sources)
        for number in reversed(range(len(sources))):
            stage = sources[number] + 1 + number
            steps += [
                ["FU", stage, [0, 1]],
                ["SP", stage, 0, 48, [self.vectors[number]], 1],
                ["AN", stage, 1, 2],
                ["FFSP", stage, 0, list(range(len(self.spatial), 0, -1)), 1, 1],
                ["AN", stage, 1, 6],
            ]
        return steps

    def _pragma(self) -> list[Any]:
        return ["PR", self.computes + 1, 0, f"auto_unroll_max_step${self.unroll}"]


def record(key: str, steps: Any, cost: float = 1e-3, error: int = 0, **other: Any) -> bytes:
    """A line of a log; other costs and errors were measured at other times."""
    second = 1637575039 + round((cost - 1e-3) * 1e9) + 60 * error
    line = {"i": [[key, "cuda -keys=cuda,gpu"], [[], steps]], "r": [[cost], error, 1.0, second], "v": "v0.6"}
    return json.dumps(line | other).encode()
