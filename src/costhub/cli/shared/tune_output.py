"""Provides what `costhub tune` shows while it runs, prints at its end and writes as its report."""

from __future__ import annotations

import datetime
import json
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click

from costhub.cards.reports.tune_history import can_go_on, with_earlier
from costhub.cards.tables import counted
from costhub.errors import DataError
from costhub.files import read_regular, refuse_newer
from costhub.progress import bar

if TYPE_CHECKING:
    from costhub.search.result import TuneResult
    from costhub.search.scheduler import SearchProgress
    from costhub.search.whole_network.finish import FinishedNetwork

EVERY_S = 60.0
"""Seconds between lines where stderr is not a terminal, as in a log."""


class TuneProgress:
    """A bar of trials with a line about the whole search on a terminal; elsewhere a line now and then.

    Args:
        trials: Trials of all workloads together.
        every_s: Seconds between lines where stderr is not a terminal.
        clock: Returns the time in seconds.

    Example:
        >>> with TuneProgress(32) as progress:
        ...     progress.trial("conv", 1, 10.0)
        >>> progress.order
        ['conv']
    """

    def __init__(
        self,
        trials: int,
        *,
        every_s: float = EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.order: list[str] = []
        """The workload of each trial."""
        self._every_s, self._clock = every_s, clock
        self._start = self._told = clock()
        self._known: int | None = None
        self._terminal = sys.stderr.isatty()
        self._bar: Any = bar(trials, desc="tuning", unit="trial")
        # tqdm draws a second bar below the first; it shows only its text.
        self._line: Any = bar(None, desc="", unit="")
        self._line.bar_format = "{desc}"

    def __enter__(self) -> TuneProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._line.close()
        self._bar.close()

    def trial(self, name: str, done: int, best_us: float | None) -> None:
        """Counts a trial of a workload."""
        self.order.append(name)
        best = f"best {best_us:,.1f} us" if best_us else "none ran yet"
        self._bar.set_postfix_str(f"{name} {best}", refresh=False)
        self._bar.update()

    def batch(self, standing: SearchProgress) -> None:
        """Shows the state of the search after a batch."""
        if self._known is None:
            # Programs measured by an earlier run do not count for the time left.
            self._known = self._bar.n = self._bar.initial = standing.trials
            self._bar.total = standing.most
        self._line.set_description_str(progress_text(standing))
        now = self._clock()
        if not self._terminal and now - self._told >= self._every_s:
            self._told = now
            done = standing.trials - self._known
            left_s = (now - self._start) / done * (standing.most - standing.trials) if done else None
            click.echo(progress_text(standing, left_s), err=True)


def progress_text(standing: SearchProgress, left_s: float | None = None) -> str:
    """The state of a search in one line.

    Args:
        standing: State of the search between two batches.
        left_s: Seconds left, if they can be estimated.

    Example:
        >>> from costhub.search.scheduler import SearchProgress
        >>> progress_text(SearchProgress(64, 320, 4, 5, None, None), 125.0)
        '64 of 320 trials, 4 of 5 kernels begun, about 2 min left'
        >>> progress_text(SearchProgress(96, 320, 5, 5, 1234.5, 0.0312))
        '96 of 320 trials, 5 kernels: 1,234.5 us together, another batch of each may save 3.1%'
        >>> progress_text(SearchProgress(16, 64, 1, 1, 12.34, 0.05))
        '16 of 64 trials: 12.3 us in all, another batch may save 5.0%'
    """
    several = standing.tasks > 1
    parts = [f"{standing.trials:,} of {standing.most:,} trials"]
    if standing.begun < standing.tasks:
        parts.append(f"{standing.begun} of {counted(standing.tasks, 'kernel')} begun")
    elif several:
        together = f": {standing.latency_us:,.1f} us together" if standing.latency_us is not None else ""
        parts.append(f"{counted(standing.tasks, 'kernel')}{together}")
    elif standing.latency_us is not None:
        parts[0] += f": {standing.latency_us:,.1f} us in all"
    if standing.gain is not None:
        parts.append(f"another batch{' of each' if several else ''} may save {standing.gain:.1%}")
    if left_s is not None:
        parts.append(f"about {left_s / 60:.0f} min left" if left_s >= 90 else f"about {left_s:.0f} s left")
    return ", ".join(parts)


REPORT = "report.json"
REPORT_VERSION = 1
"""Version of report.json; raised by one with every change that breaks programs reading it."""


MAX_REPORT_BYTES = 256 << 20


def read_report(out: Path) -> dict[str, Any] | None:
    """The report of the last search in a folder; read it before the search that will replace it.

    Args:
        out: The folder of the searches.

    Returns:
        What `report.json` holds; None if there is none, or one that is torn.

    Raises:
        DataError: A newer costhub wrote it, or it is not a report that the next one could go on with.
    """
    path = out / REPORT
    if not path.exists() and not path.is_symlink():
        return None
    try:
        content = json.loads(read_regular(path, limit=MAX_REPORT_BYTES, error=DataError))
    except ValueError:  # torn: costhub 0.1.0 was killed while it wrote
        return None
    except RecursionError as error:
        raise _not_a_report(path) from error
    if not isinstance(content, dict):
        raise _not_a_report(path)
    refuse_newer(content, newest=REPORT_VERSION, what=path, error=DataError)
    if not can_go_on(content):
        raise _not_a_report(path)
    return content


def _not_a_report(path: Path) -> DataError:
    return DataError(
        f"{path} is not a report of `costhub tune`, or it is damaged. The next report would replace it: move it "
        "away, or choose another folder with --out. What the database holds is used in any case."
    )


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
    earlier: Mapping[str, Any] | None = None
    """The report of the search before, see `read_report`; its workloads and networks are kept."""

    def draw(self) -> None:
        """Draws one plot per workload."""
        from costhub.cards.reports.tune_plots import plot_tuning

        for result in self.results:
            plot_tuning(
                self.out / f"{result.workload}.png",
                {self.about["model"]: [(trial, best) for trial, _, best in result.curve]},
                title=f"{result.workload} on {self.device['device_id']}",
                untuned_us=result.untuned_us,
            )

    def write(self, networks: Sequence[FinishedNetwork] = ()) -> dict[str, Any]:
        """Writes report.html, report.md and report.json; returns what report.json holds.

        Args:
            networks: What became of whole networks, as far as it is known.
        """
        from costhub.cards.reports.tune import tune_markdown, tune_page

        summary = self._summary(networks)
        plots = [f"{row['workload']}.png" for row in summary["workloads"]]
        plots = [plot for plot in dict.fromkeys(plots) if (self.out / plot).is_file()]
        _write_whole(self.out / "report.md", tune_markdown(summary, plots=plots))
        _write_whole(self.out / "report.html", tune_page(summary))
        _write_whole(self.out / REPORT, json.dumps(summary, indent=1))
        return summary

    def _summary(self, networks: Sequence[FinishedNetwork]) -> dict[str, Any]:
        from costhub.search.whole_network.estimate import network_curve, with_time_shares
        from costhub.versions import costhub_version, installed_versions

        device = self.device
        rows = [
            {
                **result.to_json(),
                "device": device["device_id"],
                "weight": self.weights[result.workload],
                "curve": [(trial, best) for trial, _, best in result.curve],
            }
            for result in self.results
        ]
        summary = {
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
            "workloads": with_time_shares(rows),
        }
        return with_earlier(summary, self.earlier)


def _write_whole(path: Path, text: str) -> None:
    """Writes a file that is old or new at any moment, even if the process is killed."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def result_text(results: Sequence[TuneResult], networks: Sequence[FinishedNetwork], out: Path) -> str:
    """The summary that the command prints at its end."""
    from costhub.cards.tables import TableColumn, number, plain_table

    columns = (
        TableColumn("workload", "workload"),
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
    return "\n".join([plain_table(rows, columns), *notes, *_network_lines(networks), *places])


def _counts(failed: Mapping[str, int]) -> str:
    return ", ".join(f"{count} x {status}" for status, count in failed.items())


def _network_lines(networks: Sequence[FinishedNetwork]) -> list[str]:
    from costhub.cards.tables import TableColumn, number, plain_table

    rows = [
        {
            "network": n.network,
            "outputs": "see below" if n.error else f"equal {n.reference}'s",
            **{form: latency.median_us for form, latency in n.latencies.items()},
        }
        for n in networks
        if n.latencies
    ]
    if not rows:
        return []
    columns = [TableColumn("network", "network")]
    forms = list(dict.fromkeys(form for n in networks for form in n.latencies))
    columns += [number(form, f"{form} (us)", ",.1f") for form in forms]
    return [
        "",
        plain_table(rows, [*columns, TableColumn("outputs", "outputs")]),
        "",
        *(note for n in networks for note in n.notes),
    ]
