"""Trains the latency predictor of the embedded hub on the best programs of its datasets, and writes its folder."""

from __future__ import annotations

import datetime
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pyarrow.compute as pc

from costhub.api.estimating.estimate import FEWEST_PROGRAMS, PREDICTOR
from costhub.collector.propose.spaces import BLOCKED
from costhub.dataset.credit import joined_credit
from costhub.dataset.folder import DataFolder
from costhub.dataset.workload import module_from_json
from costhub.dataset.workload_numbers import workload_numbers
from costhub.hub.catalogue.devices import device_rows, load_devices
from costhub.hub.catalogue.hubs import EMBEDDED
from costhub.hub.dataset_documents import folder_credit, tables_revision
from costhub.hub.remote.manifest import write_manifest
from costhub.models.latency.inputs import device_figures
from costhub.models.latency.pools import Pool, Vector, read_pools
from costhub.models.latency.predictor import LatencyPredictor, LatencyTable
from costhub.versions import costhub_version, installed_versions
from scripts.bench.common.data import DATASETS, embedded_datasets
from scripts.bench.common.machine import RESULTS

LEAST_ROWS = 100
"""Of a session: with fewer, one slow moment would decide how fast the machine was."""
# The design space tells the layouts apart: networks are taken apart in blocked layouts for this space alone. A program
# of TVM's own space may have none stated.
IN_TORCH_LAYOUTS: pc.Expression = pc.field("space").is_null() | (pc.field("space") != BLOCKED)
"""Which programs count. `costhub estimate` takes networks apart in torch's layouts. The blocked ones, in which `tune`
compiles by default, would be of more use, but three chips have measured kernels in them, one with AVX2 and two with
AVX-512, whose blocks differ: too few to tell what others take."""
PROFILES = ("engines", "engines_zen4")
"""Results with the time of each kernel in tuned networks."""


def is_in_torch_layouts(folder: DataFolder) -> bool:
    """Whether a dataset has no programs in blocked layouts.

    Its workloads then say which kernels a network has in torch's layouts. If some are in blocked ones, they do not: a
    network's kernels in either layout stand under its name, and if added up, would count every layer twice.
    """
    return next(folder.iter_measurements(columns=["space"], where=pc.field("space") == BLOCKED), None) is None


def session_slowness(folder: DataFolder, device_id: str) -> dict[str, float]:
    """How many times as long the reference kernel took in each session as in the fastest one on the device.

    The host of a virtual machine may be faster on one day than on another, for all programs alike.

    Returns:
        Session -> the ratio of median times, 1 for the fastest one; none for a session of fewer than `LEAST_ROWS` rows
        with a time of the reference kernel.

    Raises:
        DataError: The folder is damaged.
    """
    found: dict[str, list[float]] = {}
    for batch in folder.iter_measurements([device_id], ["session", "reference_s"], pc.field("reference_s") > 0):
        for session, seconds in zip(batch["session"].to_pylist(), batch["reference_s"].to_pylist(), strict=True):
            found.setdefault(session, []).append(seconds)
    medians = {session: statistics.median(own) for session, own in found.items() if len(own) >= LEAST_ROWS}
    return {session: own / min(medians.values()) for session, own in medians.items()}


def embedded_table(datasets: Sequence[Path] | None = None) -> LatencyTable:
    """What datasets have measured in torch's layouts, as the predictor reads it; some 20 s for the embedded ones."""
    pools: list[Pool] = []
    numbers: dict[str, Vector] = {}
    uses: dict[str, tuple[str, str]] = {}
    devices: dict[str, Mapping[str, Any]] = {}
    known = {device.device_id: device.row() for device in load_devices()}
    for place in datasets or embedded_datasets():
        folder = DataFolder.open(place)
        rows = {row["workload_id"]: row for row in folder.workloads().to_pylist()}
        for name, row in device_rows(place, folder.device_ids()).items():
            devices[name] = device_figures(row, known)
            slowness = session_slowness(folder, name)
            read = read_pools(folder, name, row["kind"], condition=IN_TORCH_LAYOUTS, slowness=slowness)
            own = [pool for pool in read if pool.workload_id in rows]
            pools += [pool for pool in own if len(pool.latency_s) >= FEWEST_PROGRAMS]
        for key in {pool.workload_id for pool in pools} - numbers.keys():
            networks = sorted(each["name"] for each in rows[key]["networks"] or ())
            numbers[key] = workload_numbers(module_from_json(rows[key]["module_json"]))
            uses[key] = rows[key]["operator"], networks[0] if networks else key
    return LatencyTable.build(pools, numbers, uses, devices)


def rest_shares(results: Path = RESULTS) -> tuple[float, ...]:
    """What tuned networks took beside their tuned kernels, over what these took, rising."""
    shares = []
    for name in PROFILES:
        for profile in json.loads((results / f"{name}.json").read_text())["profiles"]:
            if profile["engine"] == "costhub":
                tuned = sum(kernel["us"] for kernel in profile["kernels"] if kernel["tuned"])
                shares.append(max(0.0, profile["whole_us"] / tuned - 1.0))
    return tuple(sorted(shares))


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=EMBEDDED / PREDICTOR, show_default="the embedded hub")
@click.option("--seed", default=0, show_default=True)
def main(out: Path, seed: int) -> None:
    """Trains on everything; figures on held-out workloads and devices are those of `scripts.bench estimates`."""
    table = embedded_table()
    predictor = replace(LatencyPredictor.fit(table, seed=seed), rest_shares=rest_shares(), facts=facts(seed))
    predictor.save(out)
    (out / "README.md").write_text(card(predictor, table), encoding="utf-8")
    click.echo(f"{out}: {write_manifest(out).revision[:12]}, {sum(f.stat().st_size for f in out.iterdir()):,} bytes")


def facts(seed: int) -> dict[str, Any]:
    """Where the predictor comes from."""
    return {
        "datasets": [f"costhub/{place.name}@{tables_revision(place)}" for place in embedded_datasets()],
        "seed": seed,
        "versions": {"costhub": costhub_version(), **installed_versions()},
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "licence": "CC-BY-4.0",
    }


def card(predictor: LatencyPredictor, table: LatencyTable) -> str:
    """The card: what it is, what it learned from, where its figures are."""
    devices = ", ".join(f"`{name}`" for name in predictor.devices)
    data = ", ".join(f"`{name}`" for name in predictor.facts["datasets"])
    return f"""---
license: cc-by-4.0
library_name: costhub
tags: [latency-prediction, tvm, xgboost]
---

# Latency predictor

Boosted trees (XGBoost) that predict the latency of the best program that a search finds for a workload on a device,
from the numbers of both ({table.inputs.shape[1]} columns), and intervals by cross-conformal prediction.
`costhub estimate` reads it.

- Learned from the best of the programs measured in torch's layouts, not in the design space `{BLOCKED}`, of
  {len(table):,} pairs of workload and device: {len(predictor.workloads)} workloads, {len(predictor.devices)} devices
  ({devices}).
- The host of a virtual machine may be faster on one day than on another. So the latencies of a session are divided by
  how many times as long the reference kernel took in it as in the device's fastest session.
- Data: {data}.
- `model.ubj` holds the trees; `config.json` the quantiles of the residuals, the curve over trials, versions and seed;
  `manifest.json` the hashes.
- How far off it is on workloads, networks and devices that it has not learned from: docs/estimate.md of costhub.
- Who measured the data, and their licences: {_credit(predictor)}.
- The predictor itself is under CC-BY-4.0 (https://creativecommons.org/licenses/by/4.0/), like the data of the CPUs.
"""


def _credit(predictor: LatencyPredictor) -> str | None:
    """Who measured the datasets that it learned from."""
    names = [name.partition("@")[0].removeprefix("costhub/") for name in predictor.facts["datasets"]]
    return joined_credit(*(folder_credit(DATASETS / name) for name in names))
