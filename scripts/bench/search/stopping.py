"""Ends searches early by several rules: the seconds that each saves, and the latency that it loses.

Each search on this machine runs until its trials are spent, and notes what a rule is told and how many seconds have
passed after each batch. The rules are replayed on these notes: until a rule ends it, a search is the same with and
without.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.api.network_jobs import network_jobs
from costhub.cards.tables import TableColumn, number, plain_table
from costhub.collector.device.local import find_local, local_target
from costhub.collector.measurer import Measurer, local_measurer
from costhub.collector.workloads.suites import find_workload
from costhub.papers.moses import CoefficientOfVariation
from costhub.search.options import Job, Search
from costhub.search.scheduler import GainEstimate, ScheduledTask, StopRule, TaskRule, TaskScheduler, TrialBatch
from costhub.search.stopping import SmallGain
from costhub.search.tune import tune_all
from scripts.bench.common import machine, options
from scripts.bench.common.grids import every_choice
from scripts.bench.common.rows import RowFile
from scripts.bench.search.held_out import WORKLOADS, UnseenModels

NETWORKS = ("resnet18", "mobilenet_v2", "bert_small")
TOLERATED = 0.01
"""Share of the latency that a rule may lose, as the geometric mean of the searches that it is chosen on."""
KEY = ("subject", "seed", "trials")
Row = dict[str, Any]


@dataclass
class Recorder:
    """A `StopRule` that never ends a search, and notes how far it was each time it is asked."""

    began: float = field(default_factory=time.perf_counter)
    moments: list[Row] = field(default_factory=list)
    scheduler: TaskScheduler | None = None

    def reason_to_stop(self, task: ScheduledTask, scheduler: TaskScheduler) -> str | None:
        """See `StopRule`."""
        self.scheduler = scheduler
        trials = scheduler.trials - scheduler.left
        if not self.moments or self.moments[-1]["trials"] != trials:
            counts = {name: len(own.batches) for name, own in scheduler.tasks.items()}
            waiting = {name: own.batches[-1].waiting for name, own in scheduler.tasks.items() if own.batches}
            self.note(trials, scheduler.latency_s, counts=counts, waiting=waiting)
        return None

    def note(self, trials: int, latency_s: float, **more: Any) -> None:
        """Adds a moment."""
        seconds = time.perf_counter() - self.began
        self.moments.append({"trials": trials, "seconds": seconds, "latency_s": latency_s, **more})


def recorded(jobs: Sequence[Job], search: Search, measurer: Measurer, out: Path, trials: int) -> Row:
    """A search to its end, as a rule would have seen it."""
    recorder = Recorder()
    search = Search(search.model, stop_rule=recorder, seed=search.seed)
    tune_all(jobs, search, measurer, out=out, trials=trials)
    scheduler = recorder.scheduler
    assert scheduler is not None
    recorder.note(scheduler.trials - scheduler.left, scheduler.latency_s)
    tasks = {
        name: [[batch.latency_s.tolist(), batch.scores.round(5).tolist()] for batch in task.batches]
        for name, task in scheduler.tasks.items()
    }
    weights = {job.name: job.weight for job in jobs}
    return {"moments": recorder.moments, "tasks": tasks, "weights": weights}


def _fixed(share: float) -> StopRule:
    return CoefficientOfVariation(share=share, threshold=0.0)


RULES: Mapping[str, tuple[Any, Mapping[str, Sequence[float]]]] = {
    "default": (SmallGain, {}),
    "fixed share": (_fixed, {"share": (0.25, 0.375, 0.5, 0.625, 0.75, 0.875)}),
    "gain": (
        lambda worth, record_gain: SmallGain(worth, GainEstimate(record_gain=record_gain)),
        {"record_gain": (0.0, 0.03, 0.1), "worth": (0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05)},
    ),
    "variation": (
        lambda share, threshold: CoefficientOfVariation(share=share, threshold=threshold),
        {"share": (0.75, 1.0), "threshold": (0.003, 0.01, 0.02, 0.03, 0.05, 0.1)},
    ),
}
"""Name -> what makes the rule, and the options to choose from."""


def moment_of(row: Row, rule: StopRule) -> int:
    """The index of the moment at which a rule ends a search; the last one if it never does."""
    for index, moment in enumerate(row["moments"][:-1]):
        scheduler = TaskScheduler(row["weights"], trials=row["moments"][-1]["trials"], rule=rule)
        for name, count in moment["counts"].items():
            for place, (latency_s, scores) in enumerate(row["tasks"][name][:count]):
                waiting = moment["waiting"][name] if place == count - 1 else 0.0
                scheduler.add(name, TrialBatch(np.array(latency_s), np.array(scores), waiting=waiting))
        if scheduler.next_task() is None and scheduler.stopped is not None:
            return index
    return len(row["moments"]) - 1


def effect(row: Row, index: int) -> Row:
    """What ending at a moment saves and loses."""
    last, then = row["moments"][-1], row["moments"][index]
    return {
        "saved_trials": 1.0 - then["trials"] / last["trials"],
        "saved_s": last["seconds"] - then["seconds"],
        "saved_time": 1.0 - then["seconds"] / last["seconds"],
        "lost": math.log(then["latency_s"] / last["latency_s"]),
    }


def choices(rule: str) -> Iterator[dict[str, float]]:
    """Every choice of options of a rule."""
    return every_choice(RULES[rule][1])


def effects(rows: Sequence[Row], rule: str, chosen: Mapping[str, float]) -> list[Row]:
    """What a rule saves and loses in each search."""
    return [effect(row, moment_of(row, RULES[rule][0](**chosen))) for row in rows]


def choose(rows: Sequence[Row], rule: str) -> dict[str, float]:
    """The options that save most of the time and lose no more than is tolerated; else those that lose least."""

    def worth(chosen: dict[str, float]) -> tuple[bool, float]:
        own = effects(rows, rule, chosen)
        lost, kept = (statistics.fmean(row[name] for row in own) for name in ("lost", "saved_time"))
        return lost <= TOLERATED, kept if lost <= TOLERATED else -lost

    return max(choices(rule), key=worth)


def summaries(rows: Sequence[Row]) -> Row:
    """A row for each rule and kind of search; the options are chosen on all other subjects of the kind.

    A rule that ends single kernels has no row for networks: others would get their trials, so the search is another one
    from then on. Nor has a kind with one subject.
    """
    table: list[Row] = []
    chosen: dict[str, Any] = {}
    kinds = sorted({kind_of(row) for row in rows})
    for rule, kind in itertools.product(RULES, kinds):
        alike = [row for row in rows if kind_of(row) == kind]
        ends_kernels = isinstance(RULES[rule][0](**next(choices(rule))), TaskRule)
        if (ends_kernels and any(len(row["tasks"]) > 1 for row in alike)) or len({row["subject"] for row in alike}) < 2:
            continue
        of: dict[str, list[Row]] = {}
        for subject in dict.fromkeys(row["subject"] for row in alike):
            others = [row for row in alike if row["subject"] != subject]
            own = [row for row in alike if row["subject"] == subject]
            of[subject] = effects(own, rule, choose(others, rule))
        searches = sum(map(len, of.values()))
        about = {"rule": rule, "kind": kind[0], "trials": kind[1], "searches": searches}
        table.append({**about, **_means(of)})
        chosen.setdefault(rule, {})[f"{kind[0]}, {kind[1]} trials"] = choose(alike, rule)
    return {"tolerated": TOLERATED, "chosen": chosen, "summary": table}


def kind_of(row: Row) -> tuple[str, int]:
    """What was searched, and the trials of each kernel."""
    return "networks" if row["subject"] in NETWORKS else "kernels", row["trials"]


def _means(of: Mapping[str, Sequence[Row]]) -> Row:
    parts = [each for own in of.values() for each in own]
    means = {name: statistics.fmean(row[name] for row in parts) for name in ("saved_trials", "saved_time", "saved_s")}
    lost = [statistics.fmean(row["lost"] for row in own) for own in of.values()]
    error = statistics.stdev(lost) / math.sqrt(len(lost)) if len(lost) > 1 else None
    worst = max(row["lost"] for row in parts)
    return {**means, "lost": math.expm1(statistics.fmean(lost)), "lost_se": error, "worst": math.expm1(worst)}


COLUMNS = (
    *(TableColumn(name, name) for name in ("rule", "kind")),
    number("trials", "trials", "d"),
    number("searches", "searches", "d"),
    number("saved_trials", "trials saved", ".0%"),
    number("saved_time", "time saved", ".0%"),
    number("saved_s", "seconds saved, each", ".0f"),
    number("lost", "latency lost", ".2%"),
    number("lost_se", "se", ".2%"),
    number("worst", "worst search", ".1%"),
)


@click.command()
@options.data()
@options.models_folder()
@options.workloads(WORKLOADS)
@click.option("--network", "networks", multiple=True, default=NETWORKS, show_default=True)
@click.option("--trials", default=64, show_default=True, help="Of each workload.")
@click.option("--network-trials", default=32, show_default=True, help="Of each kernel of a network, on average.")
@options.seeds(3)
@options.quick("One workload and seed.")
@options.rows_file()
@options.json_file()
def main(
    data: Path | None,
    models: Path | None,
    workloads: tuple[str, ...],
    networks: tuple[str, ...],
    trials: int,
    network_trials: int,
    seeds: int,
    quick: bool,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Searches to the end on this machine, and replays the rules; run it with nothing else on the machine."""
    if quick:
        workloads, networks, seeds = workloads[:1], (), 1
    kept = RowFile(rows_path, KEY)
    with tempfile.TemporaryDirectory() as scratch, local_measurer(find_local(["auto"])) as measurer:
        unseen = UnseenModels(data, models, scratch, workloads)
        measurer.launch()
        wanted = [(name, seed, trials) for seed in range(seeds) for name in workloads]
        wanted += [(name, 0, network_trials) for name in networks]
        for subject, seed, count in wanted:
            if (subject, seed, count) in kept:
                continue
            search = Search(unseen.bound("costhub"), seed=seed)
            jobs = _jobs(subject)
            row = recorded(jobs, search, measurer, Path(scratch, f"{subject}-{seed}"), count * len(jobs))
            kept.add({"subject": subject, "seed": seed, "trials": count, **row})
            click.echo(f"{subject}, seed {seed}: {row['moments'][-1]['seconds']:.0f} s")
    if len({row["subject"] for row in kept}) > 1:
        result = summaries(list(kept))
        click.echo(plain_table(result["summary"], COLUMNS))
        machine.write_result(path, {"trials": trials, "network_trials": network_trials, **result})


def _jobs(subject: str) -> list[Job]:
    if subject in NETWORKS:
        return network_jobs([subject], json.dumps(local_target()))
    return [Job(subject, find_workload(subject).module())]
