"""The verb ``collect``: measure a suite of workloads on this machine."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from costhub.errors import DeviceError
from costhub.progress import bar

if TYPE_CHECKING:
    from costhub.collector.batch import Outcome
    from costhub.collector.collect import Plan, Progress

EXAMPLE = """
\b
Example:
  costhub collect --suite resnet18 --trials 64 --budget 30m --out measurements/
"""


class Duration(click.ParamType[float]):
    """A time such as ``90s``, ``30m`` or ``2h``, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds in `value`."""
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", str(value))
        if not match:
            self.fail(f"{value!r} is not a duration; write for example 90s, 30m or 2h.", param, ctx)
        return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


@click.command("collect", epilog=EXAMPLE)
@click.option(
    "--suite",
    "suites",
    multiple=True,
    required=True,
    help="A suite, one workload of it (resnet18.c7), or 'all'; may be repeated.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="Data folder.")
@click.option("--device", default="auto", show_default=True, help="Id of this device, or 'auto'.")
@click.option(
    "--trials", default=160, show_default=True, help="Programs per workload, those already there included."
)
@click.option("--budget", type=Duration(), default="30m", show_default=True, help="Time limit: 90s, 30m, 2h.")
@click.option("--seed", default=0, show_default=True)
@click.option("--contributor", default=None, help="Name written into the rows; 'anonymous' by default.")
@click.option("--licence", default="CC-BY-4.0", show_default=True, help="Licence of the rows.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    suites: tuple[str, ...],
    out: Path,
    device: str,
    trials: int,
    budget: float,
    seed: int,
    contributor: str | None,
    licence: str,
    as_json: bool,
) -> None:
    """Measures programs of named workloads on this machine, resumably.

    Stop it with Ctrl-C at any time and start it again with the same --out: nothing is measured twice, nothing is lost.
    """
    from costhub.collector.builder import Builder
    from costhub.collector.collect import collect
    from costhub.collector.row import Session
    from costhub.collector.run_service import Evaluator
    from costhub.collector.runner import Runner
    from costhub.collector.suite import find_suites
    from costhub.collector.target import local_target
    from costhub.dataset.folder import DataFolder

    workloads = find_suites(suites)
    row = _this_device(device)
    folder = DataFolder.create(out)
    target = local_target()
    if row["device_id"] not in folder.device_ids():
        folder.put_device({**row, "target": json.dumps(target)})
    session = Session(
        row["device_id"],
        target,
        Evaluator(),
        contributor or "anonymous",
        licence,
        driver_version=row["driver"],
    )
    text = json.dumps(target)
    with Builder(text) as builder, Runner(text, evaluator=session.evaluator) as runner:
        with bar(len(workloads) * trials, desc=row["device_id"], unit="program") as progress_bar:

            def show(plan: Plan, outcome: Outcome, progress: Progress) -> None:
                progress_bar.update(1)
                best = progress.best_us.get(plan.workload.name)
                progress_bar.set_postfix_str(
                    f"{plan.workload.name} best {best:,.0f} us, failed {progress.failed}"
                    if best
                    else outcome.status
                )

            result = collect(
                workloads, folder, session=session, trials=trials, budget_s=budget,
                builder=builder, runner=runner, seed=seed, on_outcome=show,
            )  # fmt: skip
    summary = {
        "device": row["device_id"], "measured": result.done, "good": result.good, "failed": result.failed,
        "folder": str(out),
    }  # fmt: skip
    if as_json:
        click.echo(json.dumps(summary))
    else:
        click.echo(
            f"{result.good} good measurements and {result.failed} failures of {row['device_id']} added to {out}."
        )


def _this_device(name: str) -> dict[str, Any]:
    """The identity of this machine, which must be the device that was named."""
    from costhub.collector.device import identify

    row = identify()
    if name not in ("auto", row["device_id"]):
        raise DeviceError(
            f"This machine is {row['device_id']!r}, not {name!r}; measure on the device itself, or use --device auto."
        )
    return row
