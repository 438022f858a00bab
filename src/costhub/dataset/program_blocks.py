"""Provides ProgramBlocks: the programs of a data folder in blocks, each read when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np

from costhub.dataset.features.cache import FeatureCache
from costhub.dataset.features.spec import find_spec
from costhub.dataset.folder import DataFolder
from costhub.dataset.program_source import Measured, ProgramSource, feature_caches, open_sources
from costhub.dataset.programs import Programs

BLOCK_PROGRAMS = 16_384
"""Some 90 MB of rows of `per_store@1`; a block has more where a single workload has."""


@dataclass(frozen=True)
class ProgramBlocks(Sequence[Programs]):
    """A sequence of `Programs` of which those in use are in memory, and no others.

    A block holds whole groups, all programs of a workload on a device: throughput is relative to the best of
    them. What is known of each program beforehand is its latency, some 60 bytes. A block is read anew each
    time it is asked for, so keep none.

    `ProgramBlocks.open` makes one.
    """

    blocks: tuple[ProgramSource, ...]

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        device: str | Sequence[str] | None = None,
        workloads: set[str] | None = None,
        spec: str = "per_store@1",
        failures: bool = False,
        block_programs: int = BLOCK_PROGRAMS,
        progress: bool = True,
    ) -> ProgramBlocks:
        """Finds the programs that `load_programs` would read; missing features are computed and kept.

        Args:
            path: As for `load_programs`, and so the other arguments.
            device: The device, or several.
            workloads: Ids of the workloads to keep.
            spec: Name of the feature spec.
            failures: Add the programs that failed.
            block_programs: A block ends with the workload that reaches this many.
            progress: Show a progress bar on a terminal while features are computed.

        Raises:
            DataError: As `load_programs`.
            UnknownNameError: As `load_programs`.
        """
        blocks: list[ProgramSource] = []
        for source in open_sources(path, device, workloads, spec, failures=failures):
            measured, _ = source.complete(source.measured, progress=progress)
            blocks += (replace(source, measured=part) for part in measured.cut(block_programs))
        return cls(tuple(blocks))

    def __len__(self) -> int:
        """Number of blocks."""
        return len(self.blocks)

    @overload
    def __getitem__(self, number: int) -> Programs: ...
    @overload
    def __getitem__(self, number: slice) -> ProgramBlocks: ...
    def __getitem__(self, number: int | slice) -> Programs | ProgramBlocks:
        """Reads a block, or gives some of them unread."""
        if isinstance(number, slice):
            return ProgramBlocks(self.blocks[number])
        source = self.blocks[number]
        return source.load(source.measured, progress=False)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Programs of each block."""
        return tuple(len(source.measured.latency_s) for source in self.blocks)

    @property
    def n(self) -> int:
        """Number of programs."""
        return sum(self.sizes)

    @property
    def workload_ids(self) -> tuple[str, ...]:
        """The workloads that have programs."""
        return tuple(self.counts())

    def counts(self) -> dict[str, int]:
        """Workload id -> its programs on all devices, in the order in which they are met."""
        found: dict[str, int] = {}
        for source in self.blocks:
            used, numbers = np.unique(source.measured.workload, return_counts=True)
            for code, number in zip(used.tolist(), numbers.tolist(), strict=True):
                name = source.measured.workload_ids[code]
                found[name] = found.get(name, 0) + number
        return found

    def of_workloads(self, ids: set[str]) -> ProgramBlocks:
        """The programs whose workload is in `ids`."""
        return ProgramBlocks(tuple(_kept(self.blocks, ids.__contains__)))

    def of_devices(self, ids: set[str]) -> ProgramBlocks:
        """The programs that were measured on the devices in `ids`."""
        return ProgramBlocks(tuple(source for source in self.blocks if source.device_id in ids))

    def share(self, number: int, of: int) -> ProgramBlocks:
        """One of several shares of about equally many programs, for one of several processes.

        Example:
            >>> ProgramBlocks(()).share(0, 2).sizes
            ()
        """
        blocks = self.blocks
        if of > 1 and len(blocks) < 4 * of:
            # A few large blocks cannot be shared evenly; their workloads can.
            blocks = tuple(replace(s, measured=part) for s in blocks for part in s.measured.cut(1))
        sizes = ProgramBlocks(blocks).sizes
        programs, mine = [0] * of, []
        for place in sorted(range(len(blocks)), key=lambda place: (-sizes[place], place)):
            taker = programs.index(min(programs))
            programs[taker] += sizes[place]
            if taker == number:
                mine.append(place)
        return ProgramBlocks(tuple(blocks[place] for place in sorted(mine)))

    def split_off(
        self, share: float, *, seed: int, most_programs: int = 16_384
    ) -> tuple[ProgramBlocks, Programs | None]:
        """Holds out whole workloads, on all devices, to tell when training should stop.

        Args:
            share: Of the programs to hold out, in (0, 1).
            seed: Chooses the workloads.
            most_programs: No more workloads are chosen once they have this many programs.

        Returns:
            The blocks that stay, and the programs held out; None where there are fewer than four workloads.
        """
        counts = self.counts()
        names = sorted(counts)
        if len(names) < 4:
            return self, None
        wanted = min(share * sum(counts.values()), most_programs)
        chosen: set[str] = set()
        for place in np.random.default_rng(seed).permutation(len(names))[: len(names) - 2]:
            if len(chosen) >= 2 and sum(counts[name] for name in chosen) >= wanted:
                break
            chosen.add(names[place])
        rest = self.of_workloads(set(names) - chosen)
        return rest, Programs.join(list(self.of_workloads(chosen)))

    def __reduce__(self) -> tuple[Callable[..., ProgramBlocks], tuple[Any, ...]]:
        """Goes to another process without what is known of the features, which is found there again."""
        return _reopened, (
            [
                (str(source.folder.path), source.device_id, source.spec.name, source.measured)
                for source in self.blocks
            ],
        )


def _kept(blocks: Sequence[ProgramSource], wanted: Callable[[str], bool]) -> Iterator[ProgramSource]:
    for source in blocks:
        measured = source.measured
        is_wanted = np.array([wanted(name) for name in measured.workload_ids], dtype=bool)
        places = np.flatnonzero(is_wanted[measured.workload])
        if len(places):
            yield replace(source, measured=measured.take(places))


def _reopened(blocks: Sequence[tuple[str, str, str, Measured]]) -> ProgramBlocks:
    caches: dict[tuple[str, str, str], tuple[FeatureCache, ...]] = {}
    sources = []
    for path, device_id, spec, measured in blocks:
        folder, layout = DataFolder.open(path), find_spec(spec)
        if (path, device_id, spec) not in caches:
            caches[path, device_id, spec] = feature_caches(folder, device_id, layout)
        sources.append(ProgramSource(folder, device_id, layout, caches[path, device_id, spec], measured))
    return ProgramBlocks(tuple(sources))
