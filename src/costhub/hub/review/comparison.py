"""Provides compare_device and ReviewVerdict: compares contributed measurements with those of a hub."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.check.rule import Finding
from costhub.dataset.latency import median_latency_s
from costhub.models.metrics import rank_correlation
from costhub.terminal_text import Printed, clean, counted

COMPARED_COLUMNS = ("record_id", "program_id", "workload_id", "status", "run_s")
# Measured on a virtual machine with two cores: 112 programs of two sessions differ by 1.06 times in the
# median and 1.7 times at most, and ranks agree by 0.94 in the worst workload. On two GPUs, programs measured
# twice differ by 1.3 times at most.
MOST_SHIFT = 1.5
"""Latency ratio of the median program measured by both."""
LEAST_AGREEMENT = 0.8
"""Rank correlation of the programs measured by both, mean over workloads."""
MOST_GAIN = 4.0
"""Best latency of a workload in the hub / best contributed latency."""
_ENOUGH_PROGRAMS = 5
"""Common programs needed for a ratio or a ranking."""
SHOWN = 20
"""Reasons that are printed."""


@dataclass(frozen=True)
class Reason:
    """A reason to reject something, or a point that a person should look at."""

    weight: Literal["refuse", "look"]
    what: str
    """A sentence."""


@dataclass(frozen=True, repr=False)
class ReviewVerdict(Printed):
    """The outcome of a review; `print` shows the comparisons and the reasons."""

    subject: str
    kind: Literal["model", "dataset"]
    reasons: Sequence[Reason]
    findings: Sequence[Finding] = ()
    """Findings of `costhub check`."""
    comparisons: Sequence[Comparison] = field(default=())

    @property
    def is_accepted(self) -> bool:
        """Whether there is no reason to reject it."""
        return not any(reason.weight == "refuse" for reason in self.reasons)

    def to_json(self) -> dict[str, Any]:
        """The verdict in machine-readable form."""
        return {"accepted": self.is_accepted, **asdict(self)}

    def __str__(self) -> str:
        lines = [str(found) for found in self.comparisons if found.rows != found.replayed]  # else a reason says so
        lines += [f"  {reason.weight}: {clean(reason.what, 1000)}" for reason in self.reasons[:SHOWN]]
        if len(self.reasons) > SHOWN:
            lines.append(f"  ... and {len(self.reasons) - SHOWN} more; --json lists them all")
        return "\n".join([*lines, f"{self.subject}: {'accepted' if self.is_accepted else 'refused'}."])


@dataclass(frozen=True)
class Comparison:
    """Comparison of two sets of measurements of one device."""

    device_id: str
    rows: int
    held: int
    """Number of rows in the hub for the device."""
    replayed: int
    """Number of rows whose record is already in the hub."""
    copied: int
    """Number of rows with a new id but exactly the latencies of a row in the hub."""
    repeated: int
    """Number of programs that ran in both."""
    shift: float | None
    """Median of their latency here / in the hub."""
    agreement: float | None
    """Their rank correlation within a workload, mean over workloads."""
    gain: float | None
    """Best latency in the hub / here, for the workload where this is largest."""

    def __str__(self) -> str:
        shift = "-" if self.shift is None else f"{self.shift:.2f}"
        agreement = "-" if self.agreement is None else f"{self.agreement:.2f}"
        return (
            f"{clean(self.device_id, 60)}: {counted(self.rows, 'row')} beside {self.held:,} in the hub; "
            f"{counted(self.repeated, 'program')} in both, latency ratio {shift}, rank correlation {agreement}"
        )


def compare_device(device_id: str, new: pa.Table, held: pa.Table) -> Comparison:
    """Compares measurements of one device.

    Args:
        device_id: The device.
        new: The contributed measurements, with `COMPARED_COLUMNS`.
        held: The measurements in the hub, with `COMPARED_COLUMNS`.

    Example:
        >>> row = {"record_id": "a", "program_id": "p", "workload_id": "w", "status": "ok", "run_s": [2, 3]}
        >>> new = pa.Table.from_pylist([{**row, "record_id": "b"}])
        >>> compare_device("cpu", new, pa.Table.from_pylist([row])).copied
        1
    """
    records = set(held["record_id"].to_pylist())
    replayed = sum(record in records for record in new["record_id"].to_pylist())
    runs = set(_run_lists(held))
    copied = sum(run in runs for run in _run_lists(new, without=records))
    ours, theirs = _latencies(new, without=records), _latencies(held)
    shared = sorted(set(ours) & set(theirs))
    pairs = np.array([(ours[key], theirs[key]) for key in shared]).reshape(-1, 2)
    enough = len(shared) >= _ENOUGH_PROGRAMS
    return Comparison(
        device_id,
        new.num_rows,
        held.num_rows,
        replayed,
        copied,
        len(shared),
        float(np.median(pairs[:, 0] / pairs[:, 1])) if enough else None,
        _agreement([workload for workload, _ in shared], pairs),
        _gain(ours, theirs),
    )


def judge(comparison: Comparison) -> Iterator[Reason]:
    """The reasons that follow from a comparison."""
    where = f"{clean(comparison.device_id, 60)}:"
    if comparison.rows and comparison.rows == comparison.replayed:
        yield Reason("look", f"{where} the hub already holds all of the rows ({comparison.rows:,}).")
        return
    if comparison.replayed:
        yield Reason(
            "look",
            f"{where} {comparison.replayed:,} of {comparison.rows:,} rows are already in the hub; they are left out.",
        )
    if comparison.copied:
        yield Reason(
            "refuse",
            f"{where} {comparison.copied:,} rows under new names have the exact latencies of rows in the hub.",
        )
    if comparison.shift is not None and not 1 / MOST_SHIFT <= comparison.shift <= MOST_SHIFT:
        yield Reason(
            "refuse",
            f"{where} the {comparison.repeated:,} programs that the hub also measured take {comparison.shift:.2f} "
            f"times as long here; at most {MOST_SHIFT:g} times either way was expected on one device. Either side may "
            "have been disturbed.",
        )
    if comparison.agreement is not None and comparison.agreement < LEAST_AGREEMENT:
        yield Reason(
            "refuse",
            f"{where} the programs that the hub also measured rank differently here (rank correlation "
            f"{comparison.agreement:.2f}); at least {LEAST_AGREEMENT:g} was expected on the same device.",
        )
    if 0 < comparison.repeated < _ENOUGH_PROGRAMS:
        yield Reason(
            "look",
            f"{where} the hub has measured only {comparison.repeated} of these programs; "
            f"{_ENOUGH_PROGRAMS} are needed to compare latencies.",
        )
    if comparison.gain is not None and comparison.gain > MOST_GAIN:
        yield Reason(
            "look",
            f"{where} a workload is {comparison.gain:.1f} times faster than the best program in the hub.",
        )
    if comparison.held and not comparison.repeated:
        yield Reason("look", f"{where} the hub measured none of these programs, so the latencies cannot be compared.")
    if not comparison.held:
        yield Reason("look", f"{where} the hub has no measurements of it yet, so there is nothing to compare with.")


def _run_lists(table: pa.Table, *, without: Container[str] = ()) -> Iterator[tuple[Any, ...]]:
    columns = (table[name].to_pylist() for name in ("record_id", "program_id", "run_s"))
    for record, program, run in zip(*columns, strict=True):
        # Also a single time, which may be equal on a coarse timer: in one dataset, CH016 takes the two for one.
        if record not in without and run:
            yield (program, *run)


def _latencies(table: pa.Table, *, without: Container[str] = ()) -> dict[tuple[str, str], float]:
    """(workload, program) -> median latency of the rows that ran."""
    ran = table.filter(pc.equal(table["status"], "ok"))
    repeats = defaultdict(list)
    columns = [ran[name].to_pylist() for name in ("record_id", "workload_id", "program_id")]
    for record, workload, program, latency in zip(*columns, median_latency_s(ran["run_s"]), strict=True):
        if record not in without:
            repeats[workload, program].append(float(latency))
    return {key: float(np.median(latencies)) for key, latencies in repeats.items()}


def _agreement(workloads: list[str], pairs: npt.NDArray[np.float64]) -> float | None:
    """The rank correlation of pairs within a workload, mean over workloads, whose pairs follow each other."""
    starts = [place for place in range(1, len(workloads)) if workloads[place] != workloads[place - 1]]
    groups = np.split(pairs, starts)
    ranked = [
        rank_correlation(group[:, 0], group[:, 1])
        for group in groups
        if len(group) >= _ENOUGH_PROGRAMS and np.ptp(group[:, 1]) > 0  # otherwise, the hub has no order
    ]
    # Where the hub's latencies differ and all of these are equal, the agreement is 0.
    return float(np.mean(np.nan_to_num(ranked, nan=0.0))) if ranked else None


def _gain(ours: Mapping[tuple[str, str], float], theirs: Mapping[tuple[str, str], float]) -> float | None:
    best: list[dict[str, float]] = [{}, {}]
    for side, latencies in zip(best, (ours, theirs), strict=True):
        for (workload, _), latency in latencies.items():
            side[workload] = min(latency, side.get(workload, latency))
    shared = set(best[0]) & set(best[1])
    return max((best[1][name] / best[0][name] for name in shared), default=None)
