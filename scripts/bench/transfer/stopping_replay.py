"""Replays adaptations that ran to their cap: where each rule would have ended them, and what that loses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from costhub.papers.moses import SteadyAccuracy
from costhub.transfer.guard import ADAPTED, RECENT_WORKLOADS, SOURCE, SURE_ERRORS
from costhub.transfer.stopping import BatchVerdict, NoMoreGain, TransferStop
from costhub.transfer.trial_order import BATCH_SIZE, PER_WORKLOAD
from scripts.bench.common.grids import every_choice
from scripts.tables.transfer import METRICS

TOLERATED = 0.003
"""Pairs that a rule may lose, as the mean over the pairs of devices that it is chosen on."""
Row = dict[str, Any]
Options = dict[str, float]


class FixedShare:
    """Ends after so many trials, whatever was learned."""

    def __init__(self, trials: float) -> None:
        self.trials = trials

    def reason_to_stop(self, verdicts: Sequence[BatchVerdict]) -> str | None:
        """See `TransferStop`; a verdict counts the trials before its batch."""
        return "spent" if len(verdicts) * 32 >= self.trials else None


RULES: Mapping[str, tuple[Callable[..., TransferStop], Mapping[str, Sequence[Any]]]] = {
    "default": (NoMoreGain, {}),
    "fixed share": (FixedShare, {"trials": (32, 64, 96, 128, 160, 192, 256, 320, 384, 448)}),
    "gain": (NoMoreGain, {"workloads": (4, 8, 12, 16, 24), "worth": (-0.005, 0.0, 0.001, 0.002, 0.003, 0.005, 0.01)}),
    "variation": (SteadyAccuracy, {"window": (2, 3, 4), "threshold": (0.01, 0.02, 0.03, 0.05, 0.08, 0.12)}),
}
"""Name -> what makes the rule, and the options to choose from."""


def ended(run: Row, rule: TransferStop) -> int:
    """The index of the record at which a rule ends a run; the last one if it never does."""
    verdicts: list[BatchVerdict] = []
    for index, batch in enumerate(run["batches"][1:], start=1):
        before = run["batches"][index - 1]["trials"]
        verdicts.append(BatchVerdict(before, batch["tested"], batch["chosen"], tuple(batch["gains"])))
        if rule.reason_to_stop(verdicts) is not None:
            return index
    return len(run["batches"]) - 1


def lost(run: Row, index: int, metric: str = "pairwise") -> float:
    """What ending at a record loses against the cap; less than 0 where more trials did harm."""
    return float(run["batches"][-1][metric] - run["batches"][index][metric])


def saved(run: Row, index: int) -> float:
    """The share of the trials that is not measured."""
    batches = run["batches"]
    return 1.0 - float(batches[index]["trials"] / batches[-1]["trials"])


def choices(rule: str) -> Iterator[Options]:
    """Every choice of options of a rule."""
    return every_choice(RULES[rule][1])


def by_pair(runs: Sequence[Row]) -> dict[str, list[Row]]:
    """The runs of each pair of devices."""
    pairs: dict[str, list[Row]] = {}
    for run in runs:
        pairs.setdefault(run["pair"], []).append(run)
    return pairs


def mean_over_pairs(values: Mapping[str, Sequence[float]]) -> float:
    """Each pair counts the same."""
    return float(np.mean([np.mean(own) for own in values.values()]))


def choose(pairs: Mapping[str, Sequence[Row]], rule: str) -> Options:
    """The options that save most and lose no more than is tolerated; if all lose more, those that lose least."""

    def worth(options: Options) -> tuple[bool, float]:
        ends = {name: [(run, ended(run, RULES[rule][0](**options))) for run in own] for name, own in pairs.items()}
        gone = mean_over_pairs({name: [lost(*end) for end in own] for name, own in ends.items()})
        kept = mean_over_pairs({name: [saved(*end) for end in own] for name, own in ends.items()})
        return gone <= TOLERATED, kept if gone <= TOLERATED else -gone

    return max(choices(rule), key=worth)


def summaries(runs: Sequence[Row]) -> dict[str, Any]:
    """A row for each rule and pair, with options chosen on all other pairs, and one for all pairs together."""
    pairs = by_pair(runs)
    if len(pairs) < 2:
        return {"rows": [], "chosen": {}}
    chosen = {rule: choose(pairs, rule) for rule in RULES}
    rows: list[Row] = []
    for rule, (make, _) in RULES.items():
        own: list[Row] = []
        for name, part in pairs.items():
            options = choose({other: rest for other, rest in pairs.items() if other != name}, rule)
            own.append(line(rule, name, [(run, ended(run, make(**options))) for run in part], options))
        rows += [*own, whole(rule, own)]
        if rule == "default":
            rows += [whole(rule, part, name) for name, part in by_kind(own).items()]
    best = [line("hindsight", name, [(run, hindsight(run)) for run in part], {}) for name, part in pairs.items()]
    lines = [*rows, *best, whole("hindsight", best)]
    return {"tolerated": TOLERATED, "chosen": chosen, "harm": harm(runs), "noticed": noticed(runs), "rows": lines}


def by_kind(lines: Sequence[Row]) -> dict[str, list[Row]]:
    """The lines of the pairs of two CPUs and of two GPUs."""
    kinds = {"between CPUs": {True}, "between GPUs": {False}}
    found = {name: [row for row in lines if _sides(row["pair"]) == sides] for name, sides in kinds.items()}
    return {name: own for name, own in found.items() if len(own) > 1}


def noticed(runs: Sequence[Row]) -> dict[str, float]:
    """From which loss of pairs on the guard can be sure, between devices of one kind.

    `batch_sd` is the standard deviation of the difference between the adapted model and the source on a batch; the
    guard looks back on as many workloads as several batches have, and asks for a lead of several standard errors.
    """
    alike = [run for run in runs if len(_sides(run["pair"])) == 1]
    tested = [batch["tested"] for run in alike for batch in run["batches"][2:] if batch["tested"]]
    spread = float(np.std([each[ADAPTED] - each[SOURCE] for each in tested], ddof=1)) if len(tested) > 1 else math.nan
    batches = RECENT_WORKLOADS * PER_WORKLOAD / BATCH_SIZE
    return {"batches": len(tested), "batch_sd": spread, "loss": SURE_ERRORS * spread / math.sqrt(batches)}


def _sides(pair: str) -> set[bool]:
    """Whether the source and the target of a pair are CPUs."""
    return {is_cpu(name) for name in pair.split(" -> ")}


def harm(runs: Sequence[Row]) -> dict[str, float]:
    """By how much the model after the first batch was at worst worse than the unchanged source."""
    worst = {"alike": 0.0, "other kind": 0.0}
    for run in runs:
        unchanged, after = (run["batches"][index]["pairwise"] for index in (0, 1))
        key = "alike" if len(_sides(run["pair"])) == 1 else "other kind"
        worst[key] = max(worst[key], unchanged - after)
    return worst


def is_cpu(name: str) -> bool:
    """Whether a device or model of the pairs is a CPU's."""
    return any(word in name for word in ("epyc", "xeon", "cpu"))


def hindsight(run: Row) -> int:
    """The first record within the tolerated loss of the cap, which no rule can know."""
    return next(index for index in range(len(run["batches"])) if lost(run, index) <= TOLERATED)


def line(rule: str, pair: str, ends: Sequence[tuple[Row, int]], options: Options) -> Row:
    """What a rule saves and loses on a pair, and what the same number of trials for all its runs would lose."""
    spent = [run["batches"][index]["trials"] for run, index in ends]
    missing = {f"{metric}_lost": [lost(run, index, metric) for run, index in ends] for metric in METRICS}
    pairwise = missing["pairwise_lost"]
    return {
        "rule": rule,
        "pair": pair,
        "runs": len(ends),
        "options": options,
        "trials": float(np.mean(spent)),
        "saved": float(np.mean([saved(*end) for end in ends])),
        **{name: float(np.mean(values)) for name, values in missing.items()},
        "pairwise_lost_se": float(np.std(pairwise, ddof=1) / math.sqrt(len(ends))) if len(ends) > 1 else None,
        "worst": float(np.max(pairwise)),
        "fixed_lost": float(np.mean([_lost_at(run, float(np.mean(spent))) for run, _ in ends])),
    }


def whole(rule: str, lines: Sequence[Row], pair: str = "all") -> Row:
    """The means over some pairs, or all of them."""
    names = ("trials", "saved", *(f"{metric}_lost" for metric in METRICS), "fixed_lost")
    means = {name: float(np.mean([row[name] for row in lines])) for name in names}
    error = float(np.std([row["pairwise_lost"] for row in lines], ddof=1) / math.sqrt(len(lines)))
    runs = sum(row["runs"] for row in lines)
    worst = max(row["worst"] for row in lines)
    return {"rule": rule, "pair": pair, "runs": runs, **means, "pairwise_lost_se": error, "worst": worst}


def _lost_at(run: Row, trials: float) -> float:
    """What a number of trials loses, interpolated between batches."""
    batches = run["batches"]
    values = [batch["pairwise"] for batch in batches]
    return float(values[-1] - np.interp(trials, [batch["trials"] for batch in batches], values))
