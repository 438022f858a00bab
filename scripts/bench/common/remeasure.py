"""Measures the best programs of searches again, side by side.

The searches' own figures come from different evaluator settings.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Collection, Generator, Hashable, Iterable, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from costhub.collector.build.builder import Builder
from costhub.collector.device.local import local_target
from costhub.collector.run.evaluator import Evaluator
from costhub.collector.run.runner import Runner
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.metaschedule.lines import FAILED_FROM_S, RECORDS_FILE
from costhub.dataset.trace import replay
from costhub.dataset.workload import argument_shapes, module_to_json

ROUNDS = 20
SHORT = Evaluator(repeat=5, min_repeat_ms=20)
"""Of one round of many."""
K = TypeVar("K", bound=Hashable)


def best_modules(folder: Path, workload: str, trials: int) -> Any:
    """The best schedule among the first `trials` records of a MetaSchedule database."""
    return replay(find_workload(workload).module(), best_trace(folder, trials)).mod


def best_trace(folder: Path, trials: int) -> str:
    """Its trace, as JSON."""
    return best_traces(folder, [trials])[trials]


def compiled_trace(folder: Path) -> str:
    """The trace of a kernel that was compiled without trials: its database has one record, without a latency."""
    (record,) = _records(folder)
    return json.dumps(record[0])


def best_traces(folder: Path, counts: Iterable[int]) -> dict[int, str]:
    """Number of records -> the trace of the best among so many; those of which none ran are left out."""
    records = _records(folder)
    ran = {count: [each for each in records[:count] if each[1] and min(each[1]) < FAILED_FROM_S] for count in counts}
    return {count: json.dumps(_fastest(each)[0]) for count, each in ran.items() if each}


def _records(folder: Path) -> list[Any]:
    lines = (folder / RECORDS_FILE).read_text().splitlines()
    return [json.loads(line)[1] for line in lines]


def _fastest(records: Sequence[Any]) -> Any:
    return min(records, key=lambda record: statistics.median(record[1]))


def replayed(programs: Collection[tuple[str, str]]) -> dict[tuple[str, str], Any]:
    """The module of each (workload, trace)."""
    return {
        (workload, trace): replay(find_workload(workload).module(), trace).mod for workload, trace in sorted(programs)
    }


def remeasure(modules: Mapping[K, Any], rounds: int = ROUNDS) -> dict[K, float]:
    """Latency in us of each module: its lowest median over rounds in which all modules are measured in turn.

    Disturbances only slow a measurement down, and they outlast the five repeats of a median: while the host
    runs its virtual CPUs elsewhere, a kernel of 13 us on two threads takes 18 or 35 us for half a minute, and
    a matrix product exactly twice its time for seconds. So there are many short rounds, and the more modules
    are measured in one call, the better.

    Some disturbances last as long as a process: the same program with 8 MB of weights takes 230 us in one
    process and 320 us in another, in all rounds, while programs beside it take their usual time. So each
    round has a process and arrays of its own.
    """
    best_us = {key: min(times) for key, times in measured_in_turn(modules, rounds, SHORT).items()}
    failed = [key for key, us in best_us.items() if us == math.inf]
    assert not failed, f"These modules ran in no round: {failed}"
    return best_us


def with_best_us(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of searches with `best_us`: all searches' best programs, measured in turn.

    Args:
        rows: With `workload` and `trace`; a search whose programs all failed has no trace, and nothing to compare.
    """
    own = [row for row in rows if row["trace"]]
    best_us = remeasure(replayed({(row["workload"], row["trace"]) for row in own}))
    return [{**row, "best_us": best_us[row["workload"], row["trace"]]} for row in own]


def measured_in_turn(modules: Mapping[K, Any], rounds: int, evaluator: Evaluator | None = None) -> dict[K, list[float]]:
    """Median latencies in us of each module, one for each round and process; infinite where it failed."""
    with closing(rounds_of(modules, evaluator)) as each_round:
        taken = list(islice(each_round, rounds))
    return {key: [each[key] for each in taken] for key in modules}


def rounds_of(modules: Mapping[K, Any], evaluator: Evaluator | None = None) -> Generator[dict[K, float], None, None]:
    """Builds the modules, then measures each once per round that is asked for; close it at the end."""
    target = json.dumps(local_target())
    with Builder(target) as builder:
        built = dict(zip(modules, builder.build([module_to_json(m) for m in modules.values()]), strict=True))
        for key, library in built.items():
            assert library.artifact, f"{key}: {library.error}"
        while True:
            taken = {}
            with Runner(target, evaluator=evaluator) as runner:
                for key, library in built.items():
                    ran = runner.run(str(library.artifact), argument_shapes(modules[key]))
                    taken[key] = statistics.median(ran.run_s) * 1e6 if ran.run_s else math.inf
            yield taken
