"""Provides TuneReport: the report of `costhub tune` for people and for programs."""

from __future__ import annotations

import datetime
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costhub.errors import DataError
from costhub.format_version import refuse_newer

if TYPE_CHECKING:
    from costhub.transfer.network.finish import FinishedNetwork
    from costhub.transfer.search.result import TuneResult

REPORT = "report.json"
REPORT_VERSION = 1
"""Version of report.json; raised by one with every change that breaks programs reading it."""


def refuse_newer_report(out: Path) -> None:
    """Refuses to continue a search that a newer costhub started.

    Args:
        out: The folder of the search; a missing or incomplete report is ignored.

    Raises:
        DataError: Its report has a newer version.
    """
    try:
        content = json.loads((out / REPORT).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return
    if isinstance(content, dict):
        refuse_newer(content, newest=REPORT_VERSION, what=out / REPORT, error=DataError)


@dataclass(frozen=True)
class TuneReport:
    """The report of a search by `costhub tune`."""

    results: Sequence[TuneResult]
    """Of each workload."""
    out: Path
    """The folder."""
    weights: Mapping[str, float]
    """Workload -> how often it is called."""
    order: Sequence[str]
    """The workload of each trial of this search."""
    device: Mapping[str, Any]
    """This machine's row of the devices table."""
    about: Mapping[str, Any]
    """`model`, `model_reason` and `method`."""

    def draw(self) -> None:
        """Draws one plot per workload."""
        from costhub.cards.plots import plot_tuning

        for result, plot in zip(self.results, self._plots(), strict=True):
            plot_tuning(
                self.out / plot,
                {self.about["model"]: [(trial, best) for trial, _, best in result.curve]},
                title=f"{result.workload} on {self.device['device_id']}",
                untuned_us=result.untuned_us,
            )

    def write(self, networks: Sequence[FinishedNetwork] = ()) -> dict[str, Any]:
        """Writes report.html, report.md and report.json; returns what report.json holds.

        Args:
            networks: What became of whole networks, as far as it is known.
        """
        from costhub.cards.tune_page import tune_page
        from costhub.cards.tune_report import render_report

        summary = self._summary(networks)
        (self.out / "report.md").write_text(render_report(summary, plots=self._plots()), encoding="utf-8")
        (self.out / "report.html").write_text(tune_page(summary), encoding="utf-8")
        (self.out / REPORT).write_text(json.dumps(summary, indent=1))
        return summary

    def _plots(self) -> list[str]:
        return [f"{result.workload}.png" for result in self.results]

    def _summary(self, networks: Sequence[FinishedNetwork]) -> dict[str, Any]:
        from costhub.transfer.network.estimate import network_curve, with_shares
        from costhub.transfer.tune import summary as plain
        from costhub.versions import costhub_version, installed_versions

        device = self.device
        rows = [
            {
                **plain(result),
                "weight": self.weights[result.workload],
                "curve": [(trial, best) for trial, _, best in result.curve],
            }
            for result in self.results
        ]
        return {
            "costhub": "tuning report",
            "version": REPORT_VERSION,
            "device": device["device_id"],
            "machine": f"{device['model_name']}, {device['cores']} cores, {device['memory_bytes'] >> 30} GiB",
            **self.about,
            "database": str(self.out),
            "command": shlex.join(["costhub", *sys.argv[1:]]),
            "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "versions": {"costhub": costhub_version(), **installed_versions()},
            "networks": [network.to_json() for network in networks],
            "estimate": network_curve(self.results, self.weights, self.order),
            "workloads": with_shares(rows),
        }


def told(results: Sequence[TuneResult], networks: Sequence[FinishedNetwork], out: Path) -> str:
    """The summary that the command prints at its end."""
    from costhub.cards.tables import Column, number, plain_table

    columns = (
        Column("workload", "workload"),
        number("untuned_us", "unscheduled (us)", ",.1f"),
        number("best_us", "tuned (us)", ",.1f"),
        number("speedup", "speed-up", ".1f"),
        number("trials", "trials", "d"),
        number("failures", "failed", "d"),
        number("seconds", "search (s)", ".0f"),
    )
    rows = [{**r.__dict__, "speedup": r.speedup} for r in results]
    notes = [
        f"{r.workload}: in {r.health.constant_rounds} rounds all candidates got the same score, so the "
        "search was random there."
        for r in results
        if r.health.constant_rounds
    ]
    notes += [f"{r.workload}, failed: {_counts(r.failed_as)}." for r in results if r.failed_as]
    places = [
        f"report    {out / 'report.html'}, {out / 'report.md'}",
        f"plots     {', '.join(str(out / (r.workload + '.png')) for r in results)}",
        f"database  {out / 'database_tuning_record.json'}",
        *(f"network   {network.library}" for network in networks if network.library),
    ]
    return "\n".join([plain_table(rows, columns), *notes, *_of_networks(networks), *places])


def _counts(failed: Mapping[str, int]) -> str:
    return ", ".join(f"{count} x {status}" for status, count in failed.items())


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
