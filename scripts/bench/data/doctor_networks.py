"""What `costhub doctor` says of a network in a folder, and what `costhub merge` joins, where the answers are known."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from costhub.api.doctor import doctor as examine
from costhub.api.doctor import merge
from costhub.dataset.doctor.coverage import NetworkCoverage
from costhub.dataset.metaschedule.lines import FAILED_FROM_S, RECORDS_FILE, WORKLOADS_FILE
from costhub.errors import DataError
from scripts.bench.data.doctor_folders import SEARCHED, contents, loaded, searched

_ATTRIBUTES = ("host", "num-cores", "mcpu")
"""Of targets; without one of them, a target is another."""


def _records(folder: Path) -> list[str]:
    return (folder / RECORDS_FILE).read_text("utf-8").splitlines()


def _copy(folder: Path, out: Path, records: Sequence[str]) -> Path:
    """A folder with the same workloads and other records."""
    out.mkdir(parents=True)
    shutil.copy(folder / WORKLOADS_FILE, out)
    (out / RECORDS_FILE).write_text("".join(f"{line}\n" for line in records), encoding="utf-8")
    return out


def _tuned(records: Sequence[str]) -> set[int]:
    """The numbers of the workloads with a program that ran."""
    return {number for number, (_, seconds, *_) in map(json.loads, records) if min(seconds) < FAILED_FROM_S}


def coverage_rows(folder: Path, network: str, other: Path | None, place: Path) -> Iterator[dict[str, Any]]:
    """What the doctor says of a network in three folders, beside what is true.

    Args:
        folder: That of a search of this network alone.
        network: Its name or file.
        other: The folder of a search of kernels that the network lacks, for the same target; None if there is none.
        place: A new folder for files.
    """
    records = _records(folder)
    found, seconds = _coverage(folder, network)
    numbers, covered = found
    yield _row("as the search left it", covered, seconds, tuned=len(_tuned(records)))

    heaviest = next(kernel for kernel in covered.kernels if kernel.is_tuned)
    number = numbers[str(heaviest.workload)]
    left = [line for line in records if json.loads(line)[0] != number]
    (_, without), seconds = _coverage(_copy(folder, place / "without", left), network)
    share = covered.tuned_flop_share - heaviest.flop_share
    yield _row("without the records of the heaviest kernel", without, seconds, tuned=len(_tuned(left)), share=share)

    if other is not None:
        merge([folder, other], place / "with", progress=False)
        (_, both), seconds = _coverage(place / "with", network)
        yield _row(
            "with those of another search",
            both,
            seconds,
            tuned=len(_tuned(records)),
            share=covered.tuned_flop_share,
            foreign=len(set(contents(other))),
        )


def _coverage(folder: Path, network: str) -> tuple[tuple[Mapping[str, int], NetworkCoverage], float]:
    """Workload -> its number in the folder, the coverage, and the seconds that the examination took."""
    start = time.perf_counter()
    found = examine(folder, network=network, progress=False)
    seconds = time.perf_counter() - start
    assert found.coverage is not None
    return ({each.name: each.number for each in found.examination.distinct}, found.coverage), seconds


def _row(
    what: str, covered: NetworkCoverage, seconds: float, *, tuned: int, share: float | None = None, foreign: int = 0
) -> dict[str, Any]:
    """A row of the table: what the doctor says, and what it must say."""
    said: dict[str, Any] = {"tuned": covered.tuned, "foreign": covered.foreign_trials}
    wanted: dict[str, Any] = {"tuned": tuned, "foreign": foreign}
    if share is not None:
        said, wanted = {**said, "share": round(covered.tuned_flop_share, 9)}, {**wanted, "share": round(share, 9)}
    return {
        "what": what,
        "kernels": len(covered.kernels),
        "tuned": covered.tuned,
        "flop_share": covered.tuned_flop_share,
        "trials": covered.trials,
        "foreign": covered.foreign_trials,
        "seconds": round(seconds, 2),
        "wrong": sorted(f"{key} is {said[key]}, not {wanted[key]}" for key in wanted if said[key] != wanted[key]),
    }


def merge_rows(folders: Sequence[Path], place: Path) -> Iterator[dict[str, Any]]:
    """What `costhub merge` makes of several folders, of one and a part of it, and of one and a copy for another target.

    Args:
        folders: Folders of searches for one target, in the form of TVM 0.27.
        place: A new folder for files.
    """
    first, records = folders[0], _records(folders[0])
    if len(folders) > 1:
        yield _merged("folders of different kernels", folders, place / "different")
    half = _copy(first, place / "half", records[::2])
    yield _merged("a folder, and a copy of half of it", [first, half], place / "overlapping")
    others = [_for_another_target(line) for line in records]
    copy = _copy(first, place / "copy", others)
    yield _merged("a folder, and a copy for another target", [first, copy], place / "targets", must_join=False)


def _for_another_target(line: str) -> str:
    number, (trace, seconds, target, arguments) = json.loads(line)
    lost = next(name for name in _ATTRIBUTES if name in target)
    return json.dumps([number, [trace, seconds, {k: v for k, v in target.items() if k != lost}, arguments]])


def _merged(what: str, folders: Sequence[Path], out: Path, *, must_join: bool = True) -> dict[str, Any]:
    """A row of the table: what was joined, or the sentence that refuses it."""
    wanted = Counter({content: 1 for folder in folders for content in contents(folder)}) if must_join else Counter()
    refused, duplicates = "", 0
    try:
        duplicates = merge(folders, out, progress=False).duplicates
    except DataError as error:
        refused = str(error).replace(f"{out.parent}/", "").replace(f"{folders[0].parent}/", "")
    written = Counter(contents(out)) if out.exists() else Counter()
    return {
        "what": what,
        "folders": len(folders),
        "records": sum(len(_records(folder)) for folder in folders),
        "joined": written.total(),
        "duplicates": duplicates,
        "lost": (wanted - written).total(),
        "added": (written - wanted).total(),
        "loads": loaded(out) == written.total() if out.exists() else None,
        "refused": refused,
        "must_join": must_join,
    }


def is_wrong(row: Mapping[str, Any]) -> bool:
    """Whether a row of either kind says that the doctor was wrong, or that a merge was."""
    if "wrong" in row:
        return bool(row["wrong"])
    return bool(row["lost"] or row["added"] or row["loads"] is False or bool(row["refused"]) == row["must_join"])


@dataclass(frozen=True)
class Searches:
    """The searches that the benchmark makes: of kernels of the suites, and of a network."""

    kept: Path
    """Where their folders are, or will be."""
    count: int
    """Of those of kernels."""
    trials: int
    network: str
    """Its name; empty for none."""
    network_trials: int

    def of_kernels(self) -> dict[str, Callable[[], Path]]:
        """Name of a folder -> what makes it, or finds it made."""
        names = {f"search-{number + 1}": number for number in range(self.count)}
        return {
            name: partial(searched, SEARCHED[number], self.kept / name, self.trials, number)
            for name, number in names.items()
        }

    def of_network(self) -> dict[str, Callable[[], Path]]:
        """The same for the network."""
        name = f"search-{self.network}"
        made = partial(searched, [self.network], self.kept / name, self.network_trials)
        return {name: made} if self.network else {}

    def folders(self) -> dict[str, Callable[[], Path]]:
        """The same for all."""
        return self.of_kernels() | self.of_network()

    def answers(self, place: Path) -> dict[str, list[dict[str, Any]]]:
        """What the doctor says of the network, and what can be merged; nothing without searches.

        Args:
            place: A new folder for files.
        """
        folders = [make() for make in self.folders().values()]
        if not folders:
            return {}
        other = folders[0] if self.count else None
        coverage = list(coverage_rows(folders[-1], self.network, other, place / "coverage")) if self.network else []
        return {"coverage": coverage, "merges": list(merge_rows(folders, place / "merges"))}
