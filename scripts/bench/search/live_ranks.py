"""Ranks of the strategies of the replay benchmark beside their ranks in searches that measure on this CPU."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from costhub.api.models import load_model
from costhub.api.replay.bench import FROZEN, SUITE
from costhub.collector.device.local import find_local
from costhub.collector.measurer import Measurer, local_measurer
from costhub.dataset.folder import DataFolder
from costhub.dataset.splits.split import find_split
from costhub.dataset.workload import module_from_json
from costhub.hub.catalogue.find import AUTO
from costhub.hub.data import find_data
from costhub.models.protocol import CostModel
from costhub.search.replay import judge
from costhub.search.replay.strategies import REPLAY_STRATEGIES, ReplayFactory, ReplayStrategy
from costhub.search.replay.workloads import Latencies, ReplayTask, ReplayWorkload, load_replay
from costhub.search.search_model import SearchModel
from costhub.transfer.methods.by_name import find_method
from scripts.bench.common import machine, options
from scripts.bench.common.live_pools import Subject, open_pool
from scripts.bench.common.remeasure import remeasure
from scripts.bench.common.rows import Row, RowFile
from scripts.tables.strategies import LIVE, REPLAYED, live_ranks_summary, live_ranks_table

DENSE = "intel-xeon-emeraldrapids-2c-avx2"
"""The CPU whose workloads the replay benchmark has with the most programs."""
MODEL = "model"
STRATEGIES = ("random", "genetic", "nearest", MODEL)
KEY = ("workload_id", "where", "strategy", "seed", "device", "pool", "most_trials", "batch", "seeds")
FIRST_SEED = 1000
"""Of the live searches. Replays have the seeds from 0 on: with the same seeds, both would begin with the same random
programs, and be lucky together."""
POINTS = (1, 2, 4, 8, 16, 24, 32, 48, 64)
"""Trials at which curves are kept."""
Measure = Callable[[Sequence[int]], Latencies]
"""Positions of programs -> their latencies, measured now; infinite where one failed."""


@dataclass(frozen=True)
class Setting:
    """How many programs, searches and measurements."""

    pool: int = 192
    trials: int = judge.MOST_TRIALS
    """At most; a search ends after `judge.budget`, as in the replay benchmark."""
    batch: int = judge.BATCH
    seeds: int = 3
    """Live searches by each strategy."""
    replay_seeds: int = 5
    rounds: int = 10
    """In which the best programs of a workload are timed side by side."""

    def about(self, device: str) -> dict[str, Any]:
        """What rows must share to be compared."""
        own = {"pool": self.pool, "most_trials": self.trials, "batch": self.batch, "seeds": self.seeds}
        return {"device": device, **own}

    @property
    def searches(self) -> list[tuple[str, int]]:
        """Where each strategy searches, and by which seeds."""
        live = [(LIVE, FIRST_SEED + number) for number in range(self.seeds)]
        return live + [(REPLAYED, number) for number in range(self.replay_seeds)]


class Player(NamedTuple):
    """A strategy, and the model that it is given."""

    factory: ReplayFactory
    new_model: Callable[[int], SearchModel | None]
    """Seed -> the model of a search."""


def players(model: CostModel | None) -> dict[str, Player]:
    """The strategies by name; without a model, those that need none."""
    played = {name: Player(REPLAY_STRATEGIES.find(name), lambda seed: None) for name in STRATEGIES if name != MODEL}
    if model is not None:
        frozen = find_method(FROZEN)
        played[MODEL] = Player(REPLAY_STRATEGIES.find(MODEL), lambda seed: SearchModel(model, method=frozen, seed=seed))
    return played


def subjects(count: int, known: Collection[str] = (), *, small: bool = False) -> list[Subject]:
    """Workloads that the replay benchmark has of `DENSE`, the most densely measured first.

    Args:
        count: How many.
        known: Ids of the workloads that the model has learned from, which are left out.
        small: Take those with the fewest operations instead.
    """
    place = find_data(DENSE)
    test = set(find_split(place.path, SUITE[DENSE]).test)
    densest = load_replay(place.folder, DENSE, workloads=test, spec=None, progress=False)
    rows = DataFolder.open(place.path).workloads(["workload_id", "module_json", "flop"]).to_pylist()
    about = {row["workload_id"]: row for row in rows}
    tasks = [each.task for each in densest if each.task.workload_id not in known]
    if len(tasks) < count:
        raise click.ClickException(
            f"The replay benchmark has {len(tasks)} workloads of {DENSE} that the model has not learned from, fewer "
            f"than {count}."
        )
    found = [Subject(name=task.name, **about[task.workload_id]) for task in tasks]
    return (sorted(found, key=lambda subject: subject.flop) if small else found)[:count]


@dataclass
class LiveSearch:
    """A search whose programs are measured when it asks for them."""

    strategy: str
    seed: int
    player: ReplayStrategy
    rest: set[int]
    """Programs that it has not asked for."""
    chosen: list[int] = field(default_factory=list)
    latency_s: list[float] = field(default_factory=list)
    """Of the programs chosen, as it was told."""
    failures: int = 0

    def step(self, measure: Measure, count: int, failed_s: float) -> None:
        """Asks, measures and tells once.

        Args:
            measure: Measures programs.
            count: How many at most.
            failed_s: Told for a program that fails now; it ran when the pool was made.
        """
        asked = judge.checked_positions(self.player.ask(count), self.rest, strategy=self.strategy)[:count]
        self.rest.difference_update(asked)
        latency_s = measure(asked)
        failed = ~np.isfinite(latency_s)
        latency_s = np.where(failed, failed_s, latency_s)
        self.failures += int(failed.sum())
        self.chosen += asked
        self.latency_s += latency_s.tolist()
        self.player.tell(np.array(asked, np.int64), latency_s)

    @property
    def best(self) -> int:
        """The program that it measured as the fastest."""
        return self.chosen[int(np.argmin(self.latency_s))]


def search_live(
    task: ReplayTask,
    played: Mapping[str, Player],
    measure: Measure,
    *,
    seeds: Sequence[int],
    batch: int,
    trials: int,
    failed_s: float,
) -> list[LiveSearch]:
    """Searches by all strategies and seeds, a batch of each in turn, so that drift of the host hits all alike.

    Args:
        task: The programs that are searched.
        played: The strategies.
        measure: Measures programs.
        seeds: Of the searches by each strategy.
        batch: Programs measured between two questions.
        trials: Programs that a search measures, at most as many as there are.
        failed_s: As for `LiveSearch.step`.
    """
    searches = [
        LiveSearch(name, seed, player.factory(task, model=player.new_model(seed), seed=seed), set(range(task.n)))
        for seed in seeds
        for name, player in played.items()
    ]
    order, trials = np.random.default_rng(0), min(trials, task.n)
    while waiting := [search for search in searches if len(search.chosen) < trials]:
        # In another order each time, or the same search would always follow the same other one.
        for number in order.permutation(len(waiting)).tolist():
            search = waiting[number]
            search.step(measure, min(batch, trials - len(search.chosen)), failed_s)
    return searches


def scored(latency_s: Latencies, judged: ReplayWorkload) -> Row:
    """The score of one search as in the replay benchmark, and its curve.

    The score is linear in the best latencies, so the mean of scores is the score of the mean.

    Args:
        latency_s: (trials,) latencies in the order in which they were measured.
        judged: The pool whose optimum counts as 1, and random search in which counts as 0.
    """
    best = np.minimum.accumulate(latency_s)
    by_chance = judge.expected_best(judged.latency_s, len(best))
    curve = [round(judged.best_s / float(best[min(point, len(best)) - 1]), 5) for point in POINTS]
    return {"trials": len(best), "score": judge.score_of(best, by_chance, judged.best_s), "curve": curve}


def live_rows(searches: Sequence[LiveSearch], judged: ReplayWorkload, best_us: Mapping[int, float]) -> list[Row]:
    """A row for each live search.

    Args:
        searches: All of a workload.
        judged: The pool with the latencies of the independent rounds.
        best_us: Program -> latency of the best programs of the searches, timed side by side.
    """
    fastest_us = min(best_us.values())
    rows: list[Row] = []
    for search in searches:
        own_s = np.array(search.latency_s)
        row: Row = {"where": LIVE, "strategy": search.strategy, "seed": search.seed, **scored(own_s, judged)}
        row |= {
            "end": fastest_us / best_us[search.best],
            "best_us": best_us[search.best],
            "claimed_us": float(own_s.min()) * 1e6,
            # How far a measurement lies from the independent ones of the same program.
            "apart": float(np.median(np.abs(own_s / judged.latency_s[search.chosen] - 1.0))),
            "failures": search.failures,
        }
        rows.append(row)
    return rows


def replay_rows(
    judged: ReplayWorkload, played: Mapping[str, Player], *, seeds: int, batch: int, trials: int
) -> list[Row]:
    """A row for each replayed search."""
    settings = judge.ReplaySettings(batch=batch, seeds=seeds, trials=trials)
    rows: list[Row] = []
    for name, player in played.items():
        found = judge.replay(judged, player.factory, player.new_model, settings)
        for seed, chosen in enumerate(found.chosen):
            own_s = judged.latency_s[list(chosen)]
            end = judged.best_s / float(own_s.min())
            rows.append({"where": REPLAYED, "strategy": name, "seed": seed, **scored(own_s, judged), "end": end})
    return rows


def of_subject(measurer: Measurer, subject: Subject, model: CostModel | None, setting: Setting) -> list[Row]:
    """The rows of a workload.

    Of the two independent rounds, one comes before the searches and one after them: where the host drifts, their
    mean drifts as the searches do.
    """
    played, spec = players(model), None if model is None else model.feature_spec
    with open_pool(measurer, subject, count=setting.pool, spec=spec) as pool:
        trials = min(setting.trials, judge.budget(pool.first_s), pool.task.n)
        searches = search_live(
            pool.task,
            played,
            pool.measure,
            seeds=[seed for where, seed in setting.searches if where == LIVE],
            batch=setting.batch,
            trials=trials,
            failed_s=float(pool.first_s.max()),
        )
        rounds = np.stack([pool.first_s, pool.measure(range(pool.task.n))])
        best = sorted({search.best for search in searches})
        modules = {place: module_from_json(pool.each[place].program.module_json) for place in best}
    best_us = remeasure(modules, setting.rounds)
    rounds[~np.isfinite(rounds)] = np.nan  # a program that failed in the second round has the first one left
    judged = ReplayWorkload(pool.task, np.nanmedian(rounds, axis=0))
    rows = live_rows(searches, judged, best_us)
    rows += replay_rows(judged, played, seeds=setting.replay_seeds, batch=setting.batch, trials=trials)
    shared = {"workload": subject.name, "workload_id": subject.workload_id, "programs": pool.task.n}
    return [{**shared, **setting.about(pool.task.device_id), **row} for row in rows]


def published_scores() -> dict[str, float]:
    """Strategy -> its score on `DENSE` in the table of the replay benchmark; other programs of the same workloads."""
    rows = json.loads((machine.RESULTS / "replay.json").read_text())["rows"]
    of_device = [row for row in rows if row["device"] == DENSE and row["model"] in ("", AUTO)]
    return {row["strategy"]: row["score"] for row in of_device if row["strategy"] != MODEL or row["method"] == FROZEN}


def completed(
    kept: RowFile,
    chosen: Sequence[Subject],
    setting: Setting,
    *,
    device: str,
    strategies: Collection[str],
    work: Callable[[Subject], list[Row]],
) -> list[Row]:
    """The rows of all searches. Those of a workload rest on the same rounds, so none of them is made alone.

    Args:
        kept: Rows from before; the new ones are added.
        chosen: The workloads.
        setting: How they are searched.
        device: Where.
        strategies: Their names.
        work: Makes the rows of a workload of which some are missing.
    """
    wanted = set()
    for subject in chosen:
        about = {"workload_id": subject.workload_id, **setting.about(device)}
        keys = {
            kept.key_of({**about, "where": where, "strategy": name, "seed": seed})
            for name in strategies
            for where, seed in setting.searches
        }
        if any(key not in kept for key in keys):
            kept.add(*work(subject))
        wanted |= keys
    # Where an interruption had left some rows of a workload, all were made again: the later ones count.
    return list({key: row for row in kept if (key := kept.key_of(row)) in wanted}.values())


@click.command()
@click.option("--workloads", "count", default=6, show_default=True, type=click.IntRange(min=1), help="How many.")
@click.option("--pool", default=192, show_default=True, type=click.IntRange(min=2), help="Programs of each workload.")
@options.trials(judge.MOST_TRIALS)
@options.seeds(3, "Live searches by each strategy.")
@click.option("--rounds", default=10, show_default=True, help="In which the best programs are timed side by side.")
@options.quick("A small workload, 24 programs, one seed, 16 trials in batches of 8, without a model.")
@options.rows_file()
@options.json_file()
def main(
    count: int,
    pool: int,
    trials: int,
    seeds: int,
    rounds: int,
    quick: bool,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Searches live and in replay among the same programs; run it with nothing else on the machine."""
    setting = Setting(pool=pool, trials=trials, seeds=seeds, rounds=rounds)
    if quick:
        count, setting = 1, Setting(pool=24, trials=16, batch=8, seeds=1, rounds=2)
    devices = find_local([AUTO])
    model = None if quick else load_model(AUTO, device=devices[0].row)
    known = model.info.train_workloads if model is not None and model.info is not None else ()
    chosen = subjects(count, known, small=quick)
    with local_measurer(devices) as measurer:

        def work(subject: Subject) -> list[Row]:
            found = of_subject(measurer, subject, model, setting)
            click.echo(f"{subject.name}: {found[0]['programs']} programs, {found[0]['trials']} trials")
            return found

        rows = completed(
            RowFile(rows_path, KEY),
            chosen,
            setting,
            device=devices[0].device_id,
            strategies=players(model),
            work=work,
        )
    about = {"model": model.name if model is not None else "", "seeds": setting.seeds, "batch": setting.batch}
    about |= {"replay_seeds": setting.replay_seeds, "published": published_scores()}
    result = {**about, "summary": live_ranks_summary(rows), "rows": rows}
    click.echo(live_ranks_table(result))
    machine.write_result(path, result)
