"""Measures how far latency estimates are off on workloads, networks and devices that were not learned from."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.folder import DataFolder
from costhub.dataset.splits.split import find_split
from costhub.dataset.workload_numbers import NAMES as WORKLOAD_NAMES
from costhub.models.latency.inputs import DEVICE_COLUMNS, NAMES
from costhub.models.latency.pools import TRIALS, Vector
from costhub.models.latency.predictor import LatencyPredictor, LatencyTable
from costhub.models.latency.residuals import KNOWN, NEW, Residuals, Uncertain
from scripts.bench.common import machine, options
from scripts.bench.common.data import embedded_datasets
from scripts.release.train_latency import embedded_table, is_in_torch_layouts, session_slowness

SHARES = (0.5, 0.8, 0.9)
FEWER = (1, 4, 16)
"""Trials of shorter searches than those that the predictor learns from."""
NEAR = 1.15
"""Within 15 %, what nn-Meter asks of an estimate."""
LEAST_KERNELS = 5
"""Of a network that are measured on a device; the sum of fewer is not a network's."""
SPLITS = {
    "nvidia-a100": "workload-18-seed0",
    "nvidia-h200": "workload-12-seed0",
    "nvidia-v100": "workload-12-seed0",
    "nvidia-k80": "workload-12-seed0",
    "amd-mi50": "workload-12-seed0",
}
CPU_SPLIT = "workload-40-seed0"
_DISTANCE = ("flop", "input_bytes", "output_bytes", "spatial", "reduction", "spatial_innermost")
COLUMNS = (
    TableColumn("test", "held out"),
    TableColumn("device", "device"),
    TableColumn("model", "model"),
    *(number(name, name, "d") for name in ("n",)),
    *(number(name, name, ".2f") for name in ("median", "p90", "near", "cover_50", "cover_80", "cover_90")),
)


@dataclass(frozen=True)
class Workloads:
    """What the embedded datasets say of workloads."""

    networks: Mapping[str, Mapping[str, float]]
    """Network -> id -> calls, of the kernels that it has in torch's layouts."""
    alike: Mapping[str, frozenset[str]]
    """Id -> ids with the same operator, shapes and types."""
    tests: frozenset[str]
    """Ids on the test side of the datasets' splits."""

    @classmethod
    def read(cls, datasets: Sequence[Path] | None = None) -> Workloads:
        """Reads those of datasets, by default the embedded ones.

        Networks are read from datasets in torch's layouts (`is_in_torch_layouts`).
        """
        networks: dict[str, dict[str, float]] = {}
        kinds: dict[tuple[Any, ...], set[str]] = {}
        tests: set[str] = set()
        for place in datasets or embedded_datasets():
            folder = DataFolder.open(place)
            is_plain = is_in_torch_layouts(folder)
            tests |= set(find_split(place, SPLITS.get(place.name, CPU_SPLIT)).test)
            for row in folder.workloads().to_pylist():
                kinds.setdefault((row["operator"], row["shapes"], *row["dtypes"]), set()).add(row["workload_id"])
                for each in (row["networks"] or ()) if is_plain else ():
                    networks.setdefault(each["name"], {})[row["workload_id"]] = each["weight"]
        alike = {key: frozenset(ids) for ids in kinds.values() for key in ids}
        return cls(networks, alike, frozenset(tests))

    def spread(self, ids: Sequence[str] | frozenset[str]) -> set[str]:
        """The ids, and those of workloads like one of them."""
        return set().union(*(self.alike[key] for key in ids if key in self.alike))


def column(table: LatencyTable, name: str) -> np.ndarray[Any, Any]:
    """(n,) ids of the workloads or devices."""
    return np.array([getattr(pool, name) for pool in table.pools])


def without_devices(table: LatencyTable) -> LatencyTable:
    """The table with the devices' own columns unknown; the roofline still tells devices apart."""
    inputs = table.inputs.copy()
    inputs[:, [NAMES.index(name) for name in DEVICE_COLUMNS]] = np.nan
    return replace(table, inputs=inputs)


def roofline(train: LatencyTable, test: LatencyTable, fitted: LatencyPredictor) -> Vector:
    """Log microseconds of the roofline, times how far kernels of the family are from it in the median."""
    off = train.labels(fitted.curve) - np.log(train.roofline_us)
    families = np.array([pool.family for pool in train.pools])
    usual = {name: float(np.median(off[families == name])) for name in set(families)}
    found: Vector = np.log(test.roofline_us) + np.array([usual[pool.family] for pool in test.pools])
    return found


def nearest(train: LatencyTable, test: LatencyTable, fitted: LatencyPredictor) -> Vector:
    """Log microseconds of the nearest workload of the operator on the same device, scaled by the flop.

    On a new device it is one on another device of the family, scaled by the roofline.
    """
    places = [WORKLOAD_NAMES.index(name) for name in _DISTANCE]
    labels, devices = train.labels(fitted.curve), column(train, "device_id")
    families, operators = np.array([pool.family for pool in train.pools]), np.array(train.operators)
    found = []
    for row, pool, operator, bound in zip(test.inputs, test.pools, test.operators, test.roofline_us, strict=True):
        mine = devices == pool.device_id
        fits = mine if mine.any() else families == pool.family
        fits = fits & (operators == operator) if (fits & (operators == operator)).any() else fits
        some = np.flatnonzero(fits)
        best = some[np.abs(train.inputs[some][:, places] - row[places]).sum(axis=1).argmin()]
        scaled = row[places[0]] - train.inputs[best][places[0]]
        ratio = scaled * math.log(2) if mine.any() else math.log(bound / train.roofline_us[best])
        found.append(labels[best] + ratio)
    return np.array(found)


def figures(log_us: Vector, outcome: Vector) -> dict[str, Any]:
    """How far predictions are off, as factors less 1: 0.5 is half as much again, or two thirds."""
    off = np.exp(np.abs(log_us - outcome)) - 1
    return {
        "n": len(off),
        "median": float(np.median(off)),
        "p90": float(np.quantile(off, 0.9)),
        "near": float((off <= NEAR - 1).mean()),
        "bias": float(np.exp(np.mean(log_us - outcome)) - 1),
    }


def coverage(
    residuals: Residuals, case: str, log_us: Vector, test: LatencyTable, outcome: Vector, extra_variance: float = 0.0
) -> dict[str, float]:
    """The share of outcomes in the intervals, and how wide these are: the geometric mean of high over low."""
    found: dict[str, float] = {}
    for share in SHARES:
        held, width = [], []
        for value, pool, operator, truth in zip(log_us, test.pools, test.operators, outcome, strict=True):
            figure = Uncertain(float(value), case, pool.family, operator, extra_variance)
            low, high = residuals.interval(figure, share)
            held.append(low <= math.exp(truth) <= high)
            width.append(math.log(high / low))
        found |= {
            f"cover_{share * 100:.0f}": float(np.mean(held)),
            f"width_{share * 100:.0f}": math.exp(np.mean(width)),
        }
    return found


def short_searches(train: LatencyTable, test: LatencyTable, seed: int) -> Iterator[dict[str, Any]]:
    """How often intervals hold what searches of fewer trials find, as they are and as wide as for `TRIALS` trials."""
    fitted = LatencyPredictor.fit(train, seed=seed, cases=(KNOWN,))
    families = np.array([pool.family for pool in test.pools])
    for name in sorted(set(families)):
        for trials in FEWER:
            enough = np.array([len(pool.latency_s) >= trials for pool in test.pools])
            own = test.select((families == name) & enough)
            outcome = np.array([pool.drawn_log_best(trials, seed=seed) for pool in own.pools]) + math.log(1e6)
            log_us = fitted.log_us(own) + fitted.curve(name, trials)
            row = {"family": name, "trials": trials, **figures(log_us, outcome)}
            more = fitted.curve.extra_variance(name, trials)
            of_longer = coverage(fitted.residuals, KNOWN, log_us, own, outcome)
            before = {f"{key}_of_{TRIALS}": value for key, value in of_longer.items() if key.startswith("cover_")}
            yield {**row, **coverage(fitted.residuals, KNOWN, log_us, own, outcome, more), **before}


def compared(train: LatencyTable, test: LatencyTable, case: str, seed: int) -> Iterator[dict[str, Any]]:
    """The rows of the predictor and of the baselines: of each device, and of each family."""
    fitted = LatencyPredictor.fit(train, seed=seed, cases=(case,))
    outcome = test.outcomes(fitted.curve, seed=seed)
    bare = LatencyPredictor.fit(without_devices(train), seed=seed, cases=())
    predicted = {
        "predictor": fitted.log_us(test),
        "without device columns": bare.log_us(without_devices(test)),
        "nearest workload": nearest(train, test, fitted),
        "roofline": roofline(train, test, fitted),
    }
    families = [pool.family for pool in test.pools]
    for names in (families, column(test, "device_id").tolist()):
        for name in sorted(set(names)):
            chosen = np.array(names) == name
            own = test.select(chosen)
            for model, log_us in predicted.items():
                row = {"device": name, "model": model, **figures(log_us[chosen], outcome[chosen])}
                if model == "predictor":
                    row |= coverage(fitted.residuals, case, log_us[chosen], own, outcome[chosen])
                yield row


def measured_networks(table: LatencyTable, known: Workloads) -> Iterator[tuple[str, list[LatencyTable]]]:
    """Each network with its kernels on each device that measured enough of them."""
    ids, devices = column(table, "workload_id"), column(table, "device_id")
    for network, calls in sorted(known.networks.items()):
        chosen = np.isin(ids, sorted(calls))
        parts = [table.select(chosen & (devices == device)) for device in sorted(set(devices[chosen]))]
        if enough := [own for own in parts if len(own) >= LEAST_KERNELS]:
            yield network, enough


def of_networks(table: LatencyTable, known: Workloads, seed: int) -> Iterator[dict[str, Any]]:
    """Sums over the measured kernels of each network on each device, predicted without the network's kernels."""
    ids = column(table, "workload_id")
    for network, parts in measured_networks(table, known):
        calls = known.networks[network]
        held = np.isin(ids, sorted(known.spread(frozenset(calls))))
        fitted = LatencyPredictor.fit(table.select(~held), seed=seed, cases=(KNOWN,))
        for own in parts:
            place = {"device": own.pools[0].device_id, "family": own.pools[0].family}
            yield {"network": network, **place, **_sum(fitted, own, calls, seed)}


def _sum(fitted: LatencyPredictor, own: LatencyTable, calls: Mapping[str, float], seed: int) -> dict[str, Any]:
    weights = np.array([calls[pool.workload_id] for pool in own.pools])
    measured = float(weights @ np.exp(own.outcomes(fitted.curve, seed=seed)))
    pairs = zip(fitted.log_us(own), own.pools, own.operators, strict=True)
    kernels = [Uncertain(float(value), KNOWN, pool.family, operator) for value, pool, operator in pairs]
    predicted = float(weights @ np.array([kernel.us for kernel in kernels]))
    draws = weights @ fitted.residuals.draws(kernels)
    row: dict[str, Any] = {"kernels": len(own), "measured_us": measured, "predicted_us": predicted}
    for share in SHARES:
        low, high = np.quantile(draws, [(1 - share) / 2, (1 + share) / 2])
        row[f"holds_{share * 100:.0f}"] = bool(min(low, predicted) <= measured <= max(high, predicted))
        row[f"width_{share * 100:.0f}"] = float(high / low)
    return row


def summary_of_networks(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The figures of all sums of a family of devices."""
    found = []
    for name in sorted({row["family"] for row in rows}):
        own = [row for row in rows if row["family"] == name]
        log = {key: np.log([row[f"{key}_us"] for row in own]) for key in ("predicted", "measured")}
        covers = {f"cover_{s * 100:.0f}": float(np.mean([r[f"holds_{s * 100:.0f}"] for r in own])) for s in SHARES}
        networks = len({row["network"] for row in own})
        found.append({"family": name, "networks": networks, **figures(log["predicted"], log["measured"]), **covers})
    return found


def two_searches(table: LatencyTable, seed: int) -> list[dict[str, Any]]:
    """How far apart two searches are that share no program: halves of each pool. No estimate can be nearer."""
    found = []
    families = np.array([pool.family for pool in table.pools])
    for name in sorted(set(families)):
        bests = (pool.two_log_bests(TRIALS, seed=seed) for pool in table.select(families == name).pools)
        first, second = np.array([pair for pair in bests if pair is not None]).T
        found.append({"family": name, **figures(first, second)})
    return found


def two_sums(table: LatencyTable, known: Workloads, seed: int) -> list[dict[str, Any]]:
    """As `two_searches`, of the sums of `of_networks`: how far off a second search would predict them."""
    sums: dict[str, list[tuple[str, Vector]]] = {}
    for network, parts in measured_networks(table, known):
        for own in parts:
            pairs = [(pool.two_log_bests(TRIALS, seed=seed), pool.workload_id) for pool in own.pools]
            # Of a single program, there is no second search: such a kernel is in neither sum.
            bests = [known.networks[network][key] * np.exp(pair) for pair, key in pairs if pair is not None]
            sums.setdefault(own.pools[0].family, []).append((network, np.sum(bests, axis=0)))
    found = []
    for family, rows in sorted(sums.items()):
        first, second = np.log([both for _, both in rows]).T
        found.append({"family": family, "networks": len({name for name, _ in rows}), **figures(first, second)})
    return found


def slowest_sessions() -> list[dict[str, Any]]:
    """How slow the slowest session of each device was; the predictor learns from latencies that are divided by it."""
    folders = map(DataFolder.open, embedded_datasets())
    found = {device: session_slowness(folder, device) for folder in folders for device in folder.device_ids()}
    return [{"device": device, "slowness": max(own.values())} for device, own in found.items() if own]


@click.command()
@options.json_file()
@options.quick("Held-out workloads only.")
@click.option("--seed", default=0, show_default=True)
def main(path: Path | None, quick: bool, seed: int) -> None:
    """Holds out workloads, then each device, then each chip with all its parts, then each network."""
    table, known = embedded_table(), Workloads.read()
    ids, devices, chips = column(table, "workload_id"), column(table, "device_id"), np.array(table.chips)
    tests = np.isin(ids, sorted(known.tests))
    train = ~np.isin(ids, sorted(known.spread(known.tests)))
    rows = [{"test": "workloads", **row} for row in compared(table.select(train), table.select(tests), KNOWN, seed)]
    for kind, names in () if quick else (("device", devices), ("chip", chips)):
        for held in sorted(set(names)):
            if kind == "device" and len(set(devices[chips == chips[devices == held][0]])) == 1:
                continue  # the device is the chip
            own = compared(table.select(names != held), table.select(names == held), NEW, seed)
            rows += [{"test": kind, "held": held, **row} for row in own]
            click.echo(f"{kind} {held}")
    networks = [] if quick else list(of_networks(table, known, seed))
    result = {
        "pools": len(table),
        "slowest_sessions": slowest_sessions(),
        "two_searches": two_searches(table, seed),
        "two_sums": two_sums(table, known, seed),
        "short_searches": list(short_searches(table.select(train), table.select(tests), seed)),
        "rows": rows,
        "network_summary": summary_of_networks(networks),
        "networks": networks,
    }
    machine.write_result(path, result)
    click.echo(plain_table([row for row in rows if row["model"] == "predictor" or quick], COLUMNS))
    for name in ("network_summary", "two_searches", "two_sums"):
        click.echo(json.dumps(result[name], indent=1))
