"""Provides the rules that need TVM: every module is loaded, a sample of the traces replayed, in a child."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from costhub.dataset.check.measurements import Ledger
from costhub.dataset.check.rule import Breach, Rule
from costhub.dataset.workload_service import ModuleWorker

FASTEST_PROGRAMS, DRAWN_PROGRAMS = 4, 4
"""Programs replayed for every workload and device: the fastest, which count most, and some by their hash."""

MODULE_IDS = Rule(
    id="CH021",
    title="a workload_id is the hash of its module",
    severity="error",
    fix="Compute it with costhub.dataset.workload.workload_id, for the workload and its measurements.",
    is_deep=True,
)
MODULE_FIGURES = Rule(
    id="CH022",
    title="a workload's FLOP, bytes, shapes and dtypes are those of its module",
    severity="error",
    fix="Make the row with costhub.dataset.workload.workload_row and put it again.",
    is_deep=True,
)
REPLAYS = Rule(
    id="CH023",
    title="a trace replays to the same program",
    severity="error",
    fix="Write the trace that trace_to_json gives for the replayed schedule, and its program_id.",
    is_deep=True,
)
DEEP_RULES = (MODULE_IDS, MODULE_FIGURES, REPLAYS)


@dataclass(frozen=True)
class SampledProgram:
    """A program that is to be replayed."""

    where: str
    record_id: str
    trace: str
    target: str


def sample_programs(ledger: Ledger) -> list[int]:
    """Positions of the programs to replay: of every workload and device the fastest, and some drawn."""
    found: set[int] = set()
    within = (ledger["workload"] >= 0) & (ledger["device"] >= 0)
    for rows in ledger.groups("workload", "device", within=within):
        latency_s = np.nan_to_num(ledger["latency_s"][rows], nan=math.inf)
        found.update(rows[np.argsort(latency_s, kind="stable")[:FASTEST_PROGRAMS]].tolist())
        # The least hashes are a draw that every machine repeats.
        found.update(rows[np.argsort(ledger["program"][rows], kind="stable")[:DRAWN_PROGRAMS]].tolist())
    return sorted(found)


def check_workload(
    worker: ModuleWorker, row: dict[str, Any], where: str, programs: Iterable[SampledProgram]
) -> Iterator[Breach]:
    """Yields what is wrong with a workload's row and with its sampled programs."""
    found = worker.load(row["module_json"])
    name = row["workload_id"]
    if found is None:
        yield Breach(MODULE_IDS.id, where, "module_json is no module that this TVM can read.", 1, [name])
        return
    if found["workload_id"] != name:
        yield Breach(MODULE_IDS.id, where, "workload_id is not the hash of the module.", 1, [name])
    for column in ("shapes", "dtypes", "flop", "bytes"):
        if not _agree(found[column], row[column]):
            yield Breach(MODULE_FIGURES.id, where, f"{column} is not what the module has.", 1, [name])
    for program in programs:
        trace = worker.replay(program.trace, program.target)
        if trace is None:
            message = "trace does not replay on the workload."
        else:
            message = "trace replays to a program with another canonical trace."
        if trace != program.trace:
            yield Breach(REPLAYS.id, program.where, message, 1, [program.record_id])
        # Every trace of a stranger may take its whole time limit: one of a workload is enough.
        if trace is None:
            return


def _agree(found: Any, stored: Any) -> bool:
    if isinstance(found, float):
        return math.isclose(found, stored, rel_tol=1e-6)
    if isinstance(found, Sequence) and not isinstance(found, str):
        return bool(list(found) == stored)
    try:
        return bool(json.loads(found) == json.loads(stored))
    except (ValueError, RecursionError):
        return False
