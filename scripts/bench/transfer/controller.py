"""Ends searches early by several rules and shares their trials: what each saves and loses.

Each search runs over measured programs: a model of other devices or workloads picks what is measured and
learns from it after each batch. Each search runs to the end once; the rules are replayed on its record.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.papers.task_scheduling import ExpectedGainStop
from costhub.search.scheduler import GainEstimate
from scripts.bench.common import machine, options
from scripts.bench.common.data import own_copy
from scripts.bench.common.rows import RowFile
from scripts.bench.transfer.controller_replay import (
    RULES,
    TOLERATED,
    Options,
    StoppedSearches,
    at_other_budgets,
    choose,
    in_hindsight,
    networks,
    options_of,
    signals,
    strategies,
)
from scripts.bench.transfer.search_traces import KEY, SearchTrace, traces_of
from scripts.bench.transfer.tasks import Devices, TransferPair
from scripts.tables.plots import plot_curves

PARTS = (0.25, 0.5, 1.0)
"""Shares of the budget after which allotments are compared."""
Pairs = dict[str, list[SearchTrace]]
RULE_COLUMNS = (
    TableColumn("pair", "pair"),
    TableColumn("rule", "rule"),
    number("saved", "saved", ".0%"),
    number("lost", "lost", ".2%"),
    number("lost_se", "se", ".2%"),
    number("worst_workload", "worst workload", ".1%"),
    number("worst", "worst search", ".1%"),
    number("lost_by_fixed", "fixed share loses", ".2%"),
    number("behind_fixed", "difference", ".2%"),
    number("behind_fixed_se", "se", ".2%"),
)
SIGNAL_COLUMNS = (
    TableColumn("pair", "pair"),
    TableColumn("signal", "signal"),
    number("correlation", "with the gain to come"),
)
SHARED_COLUMNS = (
    *(TableColumn(name, name) for name in ("pair", "kind", "strategy")),
    *(number(f"at {part:g}", f"at {part:g}", ".4f") for part in PARTS),
    number("ratio_se", "se", ".4f"),
    number("worst", "worst", ".3f"),
    number("spent", "spent", ".0%"),
    number("reached", "within 1% at", ".0%"),
    number("never_reached", "never", "d"),
)


def halves(traces: Sequence[SearchTrace]) -> list[frozenset[str]]:
    """The workloads dealt into two halves by name, so that both halves have similar ones."""
    named = sorted({(trace.name, trace.workload) for trace in traces})
    return [frozenset(workload for _, workload in named[start::2]) for start in (0, 1)]


def only(traces: Sequence[SearchTrace], workloads: frozenset[str]) -> list[SearchTrace]:
    """The searches of some workloads."""
    return [trace for trace in traces if trace.workload in workloads]


def chosen_rules(pairs: Pairs) -> dict[str, list[Options]]:
    """For each rule, the settings that each half of the workloads chooses."""
    split = {pair: halves(traces) for pair, traces in pairs.items()}
    return {
        rule: [
            choose({pair: only(traces, split[pair][half]) for pair, traces in pairs.items()}, rule) for half in (0, 1)
        ]
        for rule in RULES
    }


def tested(pairs: Pairs, chosen: dict[str, list[Options]]) -> Iterator[dict[str, Any]]:
    """What each rule saves and loses on workloads it was not chosen on; `half` None stands for both."""
    for pair, traces in pairs.items():
        split = halves(traces)
        for rule, settings in chosen.items():
            # What one half chose is tested on the other.
            parts = [only(traces, split[1 - half]) for half in (0, 1)]
            ends = [StoppedSearches.of(part, rule, own) for part, own in zip(parts, settings, strict=True)]
            for half, (part, end) in enumerate(zip(parts, ends, strict=True)):
                yield {"pair": pair, "rule": rule, "half": 1 - half, **end.summary(part)}
            both = StoppedSearches(
                *(np.concatenate([getattr(e, f) for e in ends]) for f in ("saved", "lost", "workloads"))
            )
            yield {"pair": pair, "rule": rule, "half": None, **both.summary(parts[0] + parts[1])}
        yield {"pair": pair, "rule": "hindsight", "half": None, **in_hindsight(traces).summary(traces)}


def every_option(pairs: Pairs) -> Iterator[dict[str, Any]]:
    """Every rule with all of its settings, on all workloads."""
    for pair, traces in pairs.items():
        for rule in RULES:
            for settings in options_of(rule):
                yield {
                    "pair": pair,
                    "rule": rule,
                    **settings,
                    **StoppedSearches.of(traces, rule, settings).summary(traces),
                }


def budgets(pairs: Pairs, chosen: dict[str, list[Options]]) -> Iterator[dict[str, Any]]:
    """The settings that the first half chose, at other numbers of trials, on the second half."""
    for pair, traces in pairs.items():
        for factor in (0.5, 1.0, 2.0):
            other = at_other_budgets(only(traces, halves(traces)[1]), factor)
            for rule, settings in chosen.items():
                if other:
                    row = StoppedSearches.of(other, rule, settings[0]).summary(other)
                    yield {"pair": pair, "trials": other[0].trials, "rule": rule, **row}


def shared(pairs: Pairs, settings: Options, draws: int) -> Iterator[dict[str, Any]]:
    """How each strategy shares the budget of a network, beside one task after the other."""
    forecast = GainEstimate(int(settings["window"]), settings["record_gain"])
    ways = strategies(ExpectedGainStop(settings["threshold"], forecast), forecast)
    for pair, traces in pairs.items():
        unseen = only(traces, halves(traces)[1])
        for network in networks(traces, unseen, draws=draws, tasks=8):
            plain = network.shared(*ways["in rotation"])[0]
            cuts = [round(part * network.trials) for part in PARTS]
            about = {
                "pair": pair,
                "network": network.name,
                "tasks": len(network.traces),
                "seed": network.traces[0].seed,
            }
            for way, (priority, rule) in ways.items():
                latency_s, spent = network.shared(priority, rule)
                ratios = [float(latency_s[cut - 1] / plain[cut - 1]) for cut in cuts]
                reached = np.flatnonzero(latency_s <= plain[-1] * (1.0 + TOLERATED))
                yield {
                    **about,
                    "strategy": way,
                    "spent": spent,
                    "ratios": ratios,
                    "reached": float((reached[0] + 1) / network.trials) if len(reached) else None,
                }
            best = [float(network.in_hindsight(cut) / plain[cut - 1]) for cut in cuts]
            yield {**about, "strategy": "hindsight", "spent": 1.0, "ratios": best}


def shared_summary(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Geometric means over networks and seeds; drawn networks and real ones apart.

    Standard errors are over networks; drawn networks share workloads, so theirs are too small.
    """
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        kind = "drawn" if row["network"].startswith("drawn") else "real"
        groups.setdefault((row["pair"], kind, row["strategy"]), []).append(row)
    for (pair, kind, way), own in groups.items():
        names = sorted({row["network"] for row in own})
        logs = np.array([np.mean([np.log(r["ratios"]) for r in own if r["network"] == name], axis=0) for name in names])
        errors = logs.std(axis=0, ddof=1) / math.sqrt(len(names)) if len(names) > 1 else np.zeros(len(PARTS))
        asked = [row["reached"] for row in own if "reached" in row]
        reached = [share for share in asked if share is not None]
        yield {
            "pair": pair,
            "kind": kind,
            "strategy": way,
            "networks": len(names),
            "searches": len(own),
            "ratios": np.exp(logs.mean(axis=0)).tolist(),
            "ratio_se": float(errors[-1]),
            "worst": float(max(row["ratios"][-1] for row in own)),
            "spent": float(np.mean([row["spent"] for row in own])),
            "reached": float(np.mean(reached)) if reached else None,
            "never_reached": len(asked) - len(reached),
        }


def curves(rows: Sequence[dict[str, Any]], chosen: dict[str, list[Options]]) -> dict[str, list[dict[str, Any]]]:
    """Pair -> per rule what is lost against what is saved, along its last option."""
    panels: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        settings = chosen[row["rule"]][0]
        *held, _ = RULES[row["rule"]][1]
        if any(row[name] != settings[name] for name in held):
            continue
        own = panels.setdefault(row["pair"], [])
        curve = next((c for c in own if c["label"] == row["rule"]), None)
        if curve is None:
            curve = {"label": row["rule"], "points": []}
            own.append(curve)
        curve["points"].append((100 * row["saved"], 100 * row["lost"], 100 * row["lost_se"]))
    for curve in (curve for own in panels.values() for curve in own):
        curve["x"], curve["y"], curve["se"] = (list(values) for values in zip(*sorted(curve["points"]), strict=True))
    return panels


@click.command()
@click.option(
    "--pair",
    "pairs",
    type=(str, int),
    multiple=True,
    help="FOLDER:DEVICE=FOLDER:DEVICE TRIALS; by default a small one in a copy of the embedded dataset.",
)
@click.option("--batches", default=16, show_default=True, help="Into which the trials of a search fall.")
@options.seeds(3)
@click.option("--workloads", default=1000, show_default=True, help="Of each pair, at the most.")
@click.option("--draws", default=20, show_default=True, help="Networks with drawn tasks, of each seed.")
@options.quick("Eight workloads, one seed, three networks.")
@options.rows_file()
@options.json_file("The figures; a picture goes beside it.")
def main(
    pairs: tuple[tuple[str, int], ...],
    batches: int,
    seeds: int,
    workloads: int,
    draws: int,
    quick: bool,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Chooses every rule on one half of the workloads and tests it on the other."""
    if quick:
        seeds, workloads, draws = 1, min(workloads, 8), 3
    if not pairs:
        data = own_copy()
        pairs, batches = ((f"{data}:amd-epyc-zen5-2c={data}:amd-epyc-zen5-2c-avx2", 12),), 6
    kept = RowFile(rows_path, KEY)
    for text, trials in pairs:
        pair = TransferPair(*map(Devices.parse, text.split("=")))
        for seed in range(seeds):
            for trace in traces_of(pair, kept, trials=trials, batch=trials // batches, seed=seed, workloads=workloads):
                kept.add(trace.to_json())
    by_pair: Pairs = {}
    for trace in map(SearchTrace.from_json, kept):
        by_pair.setdefault(f"{trace.pair}, {trace.trials} trials", []).append(trace)
    result = figures(by_pair, draws)
    click.echo("\n\n".join(tables(result)))
    if path:
        report(result, path)


def figures(pairs: Pairs, draws: int) -> dict[str, Any]:
    """All figures, under the keys of the result file."""
    chosen = chosen_rules(pairs)
    return {
        "tolerated": TOLERATED,
        "chosen": chosen,
        "rows": list(tested(pairs, chosen)),
        "signals": [
            {"pair": pair, "signal": name, "correlation": value}
            for pair, traces in pairs.items()
            for name, value in signals(traces).items()
        ],
        "budgets": list(budgets(pairs, chosen)),
        "shared": list(shared_summary(list(shared(pairs, chosen["worthwhile"][0], draws)))),
        "grid": list(every_option(pairs)),
    }


def tables(figures: dict[str, Any]) -> Iterator[str]:
    """The same for people."""
    for rule, settings in figures["chosen"].items():
        halves_chose = [", ".join(f"{name} {value:g}" for name, value in own.items()) for own in settings]
        yield f"{rule}: {' | '.join(halves_chose)}"
    yield plain_table([row for row in figures["rows"] if row["half"] is None], RULE_COLUMNS)
    yield plain_table(figures["signals"], SIGNAL_COLUMNS)
    yield plain_table(figures["budgets"], (number("trials", "trials", "d"), *RULE_COLUMNS))
    flat = [
        {**row, **{f"at {part:g}": ratio for part, ratio in zip(PARTS, row["ratios"], strict=True)}}
        for row in figures["shared"]
    ]
    yield plain_table(flat, SHARED_COLUMNS)


def report(figures: dict[str, Any], path: Path) -> None:
    """Writes the figures and draws what is lost against what is saved."""
    panels = curves(figures["grid"], figures["chosen"])
    plot_curves(path.with_suffix(".png"), panels, x="measurements saved (%)", y="latency lost (%)")
    machine.write_result(path, figures)
