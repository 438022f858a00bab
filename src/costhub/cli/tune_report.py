"""Provides write_report: the report of `costhub tune` for people and for programs."""

from __future__ import annotations

import datetime
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from costhub.transfer.network.finish import FinishedNetwork
    from costhub.transfer.search.result import TuneResult


def write_report(
    results: Sequence[TuneResult],
    out: Path,
    *,
    weights: Mapping[str, float],
    order: Sequence[str],
    networks: Sequence[FinishedNetwork],
    device: Mapping[str, Any],
    about: Mapping[str, Any],
) -> dict[str, Any]:
    """Writes report.html, report.md, report.json and one plot per workload; returns what report.json holds.

    Args:
        results: Of each workload.
        out: The folder.
        weights: Workload -> how often it is called.
        order: The workload of each trial of this search.
        networks: What became of whole networks.
        device: This machine's row of the devices table.
        about: `model`, `model_reason` and `method`.
    """
    from costhub.cards.plots import plot_tuning
    from costhub.cards.tune_page import tune_page
    from costhub.cards.tune_report import render_report

    plots = []
    for result in results:
        plots.append(f"{result.workload}.png")
        plot_tuning(
            out / plots[-1],
            {about["model"]: [(trial, best) for trial, _, best in result.curve]},
            title=f"{result.workload} on {device['device_id']}",
            untuned_us=result.untuned_us,
        )
    summary = _summary(
        results, out, weights=weights, order=order, networks=networks, device=device, about=about
    )
    (out / "report.md").write_text(render_report(summary, plots=plots), encoding="utf-8")
    (out / "report.html").write_text(tune_page(summary), encoding="utf-8")
    (out / "report.json").write_text(json.dumps(summary, indent=1))
    return summary


def _summary(
    results: Sequence[TuneResult],
    out: Path,
    *,
    weights: Mapping[str, float],
    order: Sequence[str],
    networks: Sequence[FinishedNetwork],
    device: Mapping[str, Any],
    about: Mapping[str, Any],
) -> dict[str, Any]:
    from costhub.transfer.network.estimate import network_curve, with_shares
    from costhub.transfer.tune import summary as plain
    from costhub.versions import costhub_version, installed_versions

    rows = [
        {**plain(r), "weight": weights[r.workload], "curve": [(trial, best) for trial, _, best in r.curve]}
        for r in results
    ]
    return {
        "device": device["device_id"],
        "machine": f"{device['model_name']}, {device['cores']} cores, {device['memory_bytes'] >> 30} GiB",
        **about,
        "database": str(out),
        "command": shlex.join(["costhub", *sys.argv[1:]]),
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "versions": {"costhub": costhub_version(), **installed_versions()},
        "networks": [network.to_json() for network in networks],
        "estimate": network_curve(results, weights, order),
        "workloads": with_shares(rows),
    }


def told(results: Sequence[TuneResult], networks: Sequence[FinishedNetwork], out: Path) -> str:
    """What the command prints at its end."""
    from costhub.cards.tables import Column, number, plain_table

    columns = (
        Column("workload", "workload"),
        number("untuned_us", "before (us)", ",.1f"),
        number("best_us", "after (us)", ",.1f"),
        number("speedup", "speed-up", ".1f"),
        number("trials", "trials", "d"),
        number("failures", "failed", "d"),
        number("seconds", "search (s)", ".0f"),
    )
    rows = [{**r.__dict__, "speedup": r.speedup} for r in results]
    notes = [
        f"{r.workload}: in {r.health.constant_rounds} rounds all candidates scored the same, so the search "
        "was random there."
        for r in results
        if r.health.constant_rounds
    ]
    places = [
        f"report    {out / 'report.html'}, {out / 'report.md'}",
        f"plots     {', '.join(str(out / (r.workload + '.png')) for r in results)}",
        f"database  {out / 'database_tuning_record.json'}",
        *(f"network   {network.library}" for network in networks if network.library),
    ]
    return "\n".join([plain_table(rows, columns), *notes, *_of_networks(networks), *places])


def _of_networks(networks: Sequence[FinishedNetwork]) -> list[str]:
    from costhub.cards.tables import Column, number, plain_table

    rows = [
        {"network": n.network, "outputs": "see below" if n.error else f"equal {n.reference}'s",
         **{form: latency.median_us for form, latency in n.latencies.items()}}
        for n in networks
        if n.latencies
    ]  # fmt: skip
    if not rows:
        return []
    columns = [Column("network", "network")]
    forms = list(dict.fromkeys(form for n in networks for form in n.latencies))
    columns += [number(form, f"{form} (us)", ",.1f") for form in forms]
    return ["", plain_table(rows, [*columns, Column("outputs", "outputs")]), "", *(
        note for n in networks for note in n.notes
    )]  # fmt: skip
