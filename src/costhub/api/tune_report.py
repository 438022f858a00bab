"""Provides TuneReport: the report of a search, as a page, as Markdown and as JSON, with a plot per workload."""

from __future__ import annotations

import datetime
import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costhub.api.compile import KIND as COMPILE_REPORT
from costhub.cards.reports.tune_history import can_go_on, on_target, with_earlier
from costhub.errors import DataError
from costhub.files import MAX_REPORT_BYTES, read_regular, refuse_newer, write_replacing
from costhub.terminal_text import clean, counted

if TYPE_CHECKING:
    from costhub.search.options import Job
    from costhub.search.result import TuneResult
    from costhub.search.whole_network.finish import FinishedNetwork

log = logging.getLogger("costhub")

REPORT = "report.json"
REPORT_VERSION = 1
"""Version of report.json; raised by one with every change that breaks programs reading it."""


def read_report(out: Path) -> dict[str, Any] | None:
    """The report of the last search in a folder; read it before the search that will replace it.

    Args:
        out: The folder of the searches.

    Returns:
        The content of `report.json`; None if the file is missing or torn.

    Raises:
        DataError: A newer costhub or `costhub compile` wrote it, it is not a report that the next one could
            continue, or the folder of the pictures is a link.
    """
    from costhub.cards.reports.tune import refuse_linked_plots

    refuse_linked_plots(out)
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
    if content.get("costhub") == COMPILE_REPORT:
        raise DataError(
            f"{out} holds schedules that `costhub compile` chose without measuring, and a search does not start from "
            "them: choose another folder with --out. The compiled libraries stay as they are, so you can compare."
        )
    refuse_newer(content, newest=REPORT_VERSION, what=path, error=DataError)
    if not can_go_on(content):
        raise _not_a_report(path)
    return content


def stopped_before(
    earlier: Mapping[str, Any] | None, rule: str, cap: int, names: Iterable[str], method: str
) -> dict[str, Any] | None:
    """Where the same rule has ended the same search before; None if it has not.

    Without this, a finished search would go on for a batch or two whenever its command is repeated.

    Args:
        earlier: What `read_report` returned.
        rule: The rule of the new search.
        cap: The trials of the new search, of all workloads together.
        names: Its workloads.
        method: How it proceeds, as its report will say; another method may find more.
    """
    told = earlier.get("stopped") if earlier else None
    if not earlier or not isinstance(told, dict) or (told.get("rule"), told.get("cap")) != (rule, cap):
        return None
    if earlier.get("method", method) != method:
        return None
    is_count = isinstance(told.get("trials"), int) and 0 < told["trials"] <= cap
    rows, older = _on_device(earlier, str(earlier.get("device")))
    return told if is_count and set(names) == _of_last_search(rows, older) else None


def _on_device(report: Mapping[str, Any], device_id: str) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The rows of a report that are of a device, and the earlier searches on it."""
    last = str(report.get("device"))
    rows = [row for row in report["workloads"] if row.get("device", last) == device_id]
    return rows, [each for each in report.get("earlier", ()) if each.get("device", device_id) == device_id]


def _of_last_search(rows: Iterable[Mapping[str, Any]], older: Iterable[Mapping[str, Any]]) -> set[str]:
    """The workloads of the last search of a folder, whose report also keeps the rows of those before it."""
    return {row["workload"] for row in rows}.difference(*(search["workloads"] for search in older))


def warn_of_other_target(out: Path, earlier: Mapping[str, Any] | None, device_id: str, target: str) -> None:
    """Says that a folder holds a search on the same device whose records do not count, since its target was another.

    Args:
        out: The folder.
        earlier: What `read_report` returned.
        device_id: The device of the new search.
        target: Its TVM target, as JSON.
    """
    if earlier is not None and earlier.get("device") == device_id and on_target(earlier, target) is None:
        log.warning(
            "%s holds a search on %s for another target: this machine shows other instructions than then, as a virtual "
            "machine may after a restart. What it measured does not count here, so the search begins anew.",
            out,
            device_id,
        )


def warn_of_other_device(out: Path, earlier: Mapping[str, Any] | None, device_id: str) -> None:
    """Says that a folder holds a search on another device: the libraries of its networks may be replaced.

    Args:
        out: The folder.
        earlier: What `read_report` returned.
        device_id: The device of the new search.
    """
    before = earlier.get("device") if earlier else None
    if before not in (None, device_id):
        log.warning(
            "%s holds a search on %s. The one on %s is added to it, replaces libraries of the same name, and stock TVM "
            "takes the fastest program of both: choose another folder, unless both have the same instructions and "
            "cores.",
            out,
            before,
            device_id,
        )


def warn_of_other_model(
    out: Path, earlier: Mapping[str, Any] | None, name: str, device_id: str, workloads: Set[str]
) -> None:
    """Says that what searches of the same workloads on the device with other models measured counts as trials.

    Args:
        out: The folder.
        earlier: What `read_report` returned.
        name: The model of the new search.
        device_id: Its device.
        workloads: Its workloads.
    """
    if earlier is None:
        return
    rows, older = _on_device(earlier, device_id)
    searches = [{"model": earlier.get("model"), "workloads": _of_last_search(rows, older)}, *older]
    models = [str(each["model"]) for each in searches if each.get("model") and workloads & set(each["workloads"])]
    others = sorted({model for model in models if model != name})
    if others:
        log.warning(
            "%s holds a search of the same workloads with %s. What it measured counts as trials of this search with "
            "%s, which measures fewer programs, or none: to compare models, choose another folder.",
            *(out, " and ".join(others), name),
        )


def warn_of_other_space(
    out: Path, earlier: Mapping[str, Any] | None, asked: str | None, device_id: str, jobs: Sequence[Job]
) -> None:
    """Says that what searches of the same workloads on the device measured in other design spaces counts as trials.

    Args:
        out: The folder.
        earlier: What `read_report` returned; rows of older reports do not say their space.
        asked: The design space that the new search was asked for; None if costhub chooses.
        device_id: Its device.
        jobs: Its workloads.
    """
    from costhub.collector.propose.spaces import space_for

    before = _spaces(earlier, device_id)
    own = {job.name: space_for(job.mod, asked).name for job in jobs if job.name in before}
    changed = [name for name, space in own.items() if space != before[name]]
    if changed:
        theirs, ours = (" and ".join(sorted({each[name] for name in changed})) for each in (before, own))
        log.warning(
            "%s holds programs of the same workloads that were drawn from another design space (%s) and count as "
            "trials of this search, which measures fewer programs, or none: to search in %s only, choose another "
            "folder.",
            *(out, clean(theirs, 200), ours),  # the report may be a stranger's
        )


def _spaces(earlier: Mapping[str, Any] | None, device_id: str) -> dict[str, str]:
    """Workload -> the design space of its programs on a device, as far as an earlier report says."""
    rows = [row for row in earlier["workloads"] if row.get("device") == device_id] if earlier else []
    return {row["workload"]: str(row["space"]) for row in rows if row.get("space") is not None}


def _not_a_report(path: Path) -> DataError:
    return DataError(
        f"{path} is not a report of `costhub tune`, or it is damaged. The next report would replace it: move it "
        "away, or choose another folder with --out. What the database holds is used in any case."
    )


@dataclass(frozen=True)
class TuneReport:
    """The report of a search by `costhub tune`."""

    results: Sequence[TuneResult]
    """Those of each workload."""
    out: Path
    """The folder."""
    weights: Mapping[str, float]
    """Workload -> how often it is called."""
    order: Sequence[str]
    """The workload of each trial of this search."""
    device: Mapping[str, Any]
    """This machine's row of the devices table."""
    about: Mapping[str, Any]
    """`model`, `model_reason`, `method`, `command`, `target`, `load_average` and `cores` of this machine at the start,
    `began`, when that was, `cap`, the trials of all workloads together, and `stopped`, why a rule ended the search."""
    earlier: Mapping[str, Any] | None = None
    """The report of the previous search, see `read_report`; its workloads and networks are kept."""

    def write(
        self, networks: Sequence[FinishedNetwork] = (), *, stages: Mapping[str, float] | None = None
    ) -> dict[str, Any]:
        """Writes report.html, report.md with its pictures, and report.json; returns what report.json holds.

        Args:
            networks: The whole networks that are finished.
            stages: Stage of this run, see `costhub.search.result` -> seconds until now.
        """
        from costhub.cards.reports.tune import tune_markdown, tune_page, tune_pictures

        summary = self._summary(networks, stages or {})
        plots = tune_pictures(summary, self.out)
        write_replacing(self.out / "report.md", tune_markdown(summary, plots=plots).encode())
        write_replacing(self.out / "report.html", tune_page(summary).encode())
        write_replacing(self.out / REPORT, json.dumps(summary, indent=1).encode())
        return summary

    def _summary(self, networks: Sequence[FinishedNetwork], stages: Mapping[str, float]) -> dict[str, Any]:
        from costhub.collector.device.local import probe_command
        from costhub.hub.catalogue.devices import complete_device_row
        from costhub.search.whole_network.engines import engine_versions
        from costhub.search.whole_network.estimate import network_curve, with_time_shares
        from costhub.versions import costhub_version, installed_versions

        device, source = complete_device_row(self.device), self._peak_source()
        engines = engine_versions(form for network in networks for form in network.latencies)
        before, timed = _spaces(self.earlier, device["device_id"]), Counter(self.order)
        rows = [
            {
                **result.to_json(),
                # A search that measured nothing leaves the space as it was: that of the programs in the folder.
                "space": result.space if timed[result.workload] else before.get(result.workload, result.space),
                "device": device["device_id"],
                "weight": self.weights[result.workload],
                "trials_untimed": result.trials - timed[result.workload],
                "curve": [(trial, best) for trial, _, best in result.curve],
            }
            for result in self.results
        ]
        summary = {
            "costhub": "tuning report",
            "version": REPORT_VERSION,
            "device": device["device_id"],
            "machine": ", ".join(
                [device["model_name"], counted(device["cores"], "core"), f"{device['memory_bytes'] >> 30} GiB"]
            ),
            "peak_gflops": device.get("peak_gflops"),
            "peak_gflops_bfloat16": None if self._lacks_units(source) else device.get("peak_gflops_bfloat16"),
            "peak_source": source,
            "probe": probe_command(device),
            **self.about,
            "stages": dict(stages),
            "database": str(self.out),
            "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "versions": {"costhub": costhub_version(), **installed_versions(), **engines},
            "networks": [network.to_json() for network in networks],
            "estimate": network_curve(self.results, self.weights, self.order),
            "workloads": with_time_shares(rows),
        }
        return with_earlier(summary, self.earlier)

    def _lacks_units(self, peak_source: str) -> bool:
        """Whether the index tells the peak of matrix units that a hypervisor hides from this machine."""
        from costhub.collector.workloads.network_source import hides_matrix_units

        target = self.about.get("target")
        return target is not None and peak_source == "index" and hides_matrix_units(target)

    def _peak_source(self) -> str:
        """Where `complete_device_row` takes the peak from: `probe` (this machine or its board) or `index`."""
        from costhub.hub.catalogue.devices import find_device

        indexed = find_device(str(self.device["device_id"]))
        return "index" if not self.device.get("peak_gflops") and indexed and indexed.peak_gflops else "probe"
